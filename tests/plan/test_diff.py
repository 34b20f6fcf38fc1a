"""What ``flink-agents-py plan diff`` says of two plans."""

from __future__ import annotations

import json

import pytest

from flink_agents_py import (
    ActionRegistry,
    ActionSpec,
    Agent,
    AgentConfiguration,
    InputEvent,
    Prompt,
    ResourceType,
    Tool,
)
from flink_agents_py.cli import main
from flink_agents_py.plan import AgentPlan
from flink_agents_py.plan.diff import diff


def first(event, ctx):
    pass


def second(event, ctx):
    pass


def look_up(order: int) -> str:
    """Look up an order."""
    return str(order)


def find(order: int, *, year: int = 2026) -> str:
    """Look up an order."""
    return str(order + year)


def handle(call, session):
    return None


def agent() -> Agent:
    return Agent().add_action("first", [InputEvent], first).add_action("second", ["x"], second)


def effects(old: Agent, new: Agent, config=None, **names) -> dict:
    plans = AgentPlan.from_agent(old), AgentPlan.from_agent(new, AgentConfiguration(config), **names)
    plans = [AgentPlan.from_json(plan.to_json()) for plan in plans]
    return {(change.kind, change.name, change.what): change.effect for change in diff(*plans).changes}


def test_equal_plans_have_no_difference():
    assert effects(agent(), agent()) == {}


def test_additions_and_changed_triggers_are_for_later_runs():
    new = Agent().add_action("first", ["y"], first, limit=3).add_action("second", ["x"], second)
    new.add_action("third", ["x"], second)
    assert effects(agent(), new) == {
        ("action", "first", "triggers"): "later runs",
        ("action", "first", "config"): "later runs",
        ("action", "third", "added"): "later runs",
    }


def test_a_removed_action_depends_on_whether_its_function_is_there(monkeypatch):
    new = Agent().add_action("first", [InputEvent], first)
    assert effects(agent(), new) == {("action", "second", "removed"): "later runs"}
    old = agent()
    plan = AgentPlan.from_agent(old)
    monkeypatch.delitem(globals(), "second")
    found = diff(AgentPlan.from_json(plan.to_json()), AgentPlan.from_agent(new))
    assert [(change.name, change.effect) for change in found.changes] == [("second", "policy")]
    assert not found.survives


@pytest.mark.parametrize(("aliases", "survives"), [(["second"], True), ([], False)])
def test_a_renamed_action_needs_an_alias(monkeypatch, aliases, survives):
    old = AgentPlan.from_json(AgentPlan.from_agent(agent()).to_json())
    monkeypatch.delitem(globals(), "second")
    new = Agent().add_action("first", [InputEvent], first).add_action("renamed", ["x"], first, aliases=aliases)
    found = diff(old, AgentPlan.from_agent(new))
    assert found.survives is survives
    (*_, change) = found.changes
    assert change.what == ("renamed" if survives else "added")


def test_another_agent_name_loses_the_state():
    assert effects(agent(), agent(), agent_name="Other") == {("agent", "Other", "renamed"): "lost"}


def test_resources_and_schemas_of_tools_are_compared():
    old, new = agent(), agent()
    old.add_resource("p", ResourceType.PROMPT, Prompt.from_text("old"))
    new.add_resource("p", ResourceType.PROMPT, Prompt.from_text("new"))
    old.add_resource("t", ResourceType.TOOL, Tool.from_callable(look_up))
    new.add_resource("t", ResourceType.TOOL, Tool.from_callable(find))
    found = diff(AgentPlan.from_agent(old), AgentPlan.from_agent(new))
    assert [(change.name, change.effect) for change in found.changes] == [
        ("prompt p", "later runs"),
        ("tool t", "later runs"),
    ]
    assert found.changes[1].text.startswith("schema: new year")


def test_external_actions_change_for_all_runs():
    def registry(**fields):
        return ActionRegistry().register(ActionSpec(name="do", **fields), handle)

    old, new = agent().add_action_registry(registry()), agent().add_action_registry(registry(max_concurrent=3))
    assert effects(old, new) == {("external action", "do", "changed"): "all runs"}


def test_the_command_says_it_in_words_and_in_json(tmp_path, capsys, monkeypatch):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(AgentPlan.from_agent(agent()).to_json())
    new.write_text(AgentPlan.from_agent(Agent().add_action("first", [InputEvent], first)).to_json())
    assert main(["plan", "diff", str(old), str(new)]) == 0
    assert "every interrupted run goes on" in capsys.readouterr().out
    monkeypatch.delitem(globals(), "second")
    assert main(["plan", "diff", "--json", str(old), str(new)]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["survives"] is False
    assert document["on_missing_action"] == "fail"
    assert [change["effect"] for change in document["changes"]] == ["policy"]
    assert main(["plan", "diff", str(new), str(new)]) == 0
    assert "the same plan" in capsys.readouterr().out


def test_called_agents_are_compared():
    old, new = agent().add_agent("other", agent()), agent().add_agent("other", agent().add_action("b", ["x"], first))
    assert effects(old, new) == {("agent", "other", "changed"): "later runs"}
    assert effects(old, agent()) == {
        ("action", "agent_call_action", "removed"): "later runs",
        ("agent", "other", "removed"): "later runs",
    }
    assert ("agent", "other", "added") in effects(agent(), old)
