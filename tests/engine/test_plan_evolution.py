"""Runs that are interrupted under one plan and go on under another: what becomes of them, in each documented case."""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from flink_agents_py import Agent, Event, InputEvent, OutputEvent
from flink_agents_py.engine.archive import PLANS
from flink_agents_py.errors import DuplicateNameError, MissingActionError
from flink_agents_py.plan import AgentPlan
from flink_agents_py.testing import AgentHarness
from tests.support.agents import LONG_S, finish_all


async def look_up(what: str) -> str:
    return f"found {what}"


# Functions of module level: plans refer to them by name, as those of a deployed module.
def take(event, ctx):
    ctx.short_term_memory.set("taken", (ctx.short_term_memory.get("taken") or 0) + 1)
    ctx.send_event(Event(type="taken", attributes={"order": event.input}))


async def score(event, ctx):
    found = await ctx.durable_execute_async(look_up, event.get_attr("order"))
    again = await ctx.durable_execute_async(look_up, "more")
    ctx.send_event(Event(type="scored", attributes={"found": [found, again]}))


async def score_anew(event, ctx):
    await score(event, ctx)


def tell(event, ctx):
    ctx.send_event(OutputEvent(event.get_attr("found")))


def greet(event, ctx):
    ctx.send_event(OutputEvent(f"also {event.type}"))


def before() -> Agent:
    return (
        Agent()
        .add_action("take", [InputEvent], take)
        .add_action("score", ["taken"], score)
        .add_action("tell", ["scored"], tell)
    )


def interrupted(config=None, *, after: int = 1) -> AgentHarness:
    """Stopped inside ``score`` with one of its two calls recorded, another input waits."""
    harness = AgentHarness(before(), config)
    harness.feed("k", "a")
    harness.feed("k", "b")
    for _ in range(after):
        harness.calls[0].run()
        harness.advance(0.01)
    return harness


def restored(harness: AgentHarness, agent: Agent, config=None) -> list[str]:
    """Go on under another agent; the names of the calls that were made."""
    snapshot = harness.snapshot()
    harness.upgrade(agent, config)
    harness.restore(snapshot)
    harness.advance(LONG_S)
    made = []
    while harness.calls:
        made.append(harness.calls[0].args[0])
        harness.calls[0].run()
        harness.advance(0.01)
    harness.advance(LONG_S)
    assert harness.idle
    return made


ALL = [["found a", "found more"], ["found b", "found more"]]


def test_the_same_plan_goes_on_in_the_middle():
    harness = interrupted()
    assert restored(harness, before()) == ["more", "b", "more"]
    assert harness.outputs == ALL


def test_an_action_that_was_added_is_for_runs_that_begin_later():
    harness = interrupted()
    made = restored(harness, before().add_action("greet", ["taken", "scored"], greet))
    assert made == ["more", "b", "more"]
    assert harness.outputs == [ALL[0], "also taken", ALL[1], "also scored"]


def test_changed_triggers_are_for_runs_that_begin_later():
    harness = interrupted()
    after = Agent().add_action("take", [InputEvent], take).add_action("score", ["taken"], score)
    assert restored(harness, after.add_action("tell", ["never"], tell)) == ["more", "b", "more"]
    assert harness.outputs == [ALL[0]]
    assert harness.stats.unhandled == 1


def test_changed_configuration_of_an_action_is_for_runs_that_begin_later():
    def configured(limit: int) -> Agent:
        return Agent().add_action("act", [InputEvent], tell_limit, limit=limit)

    harness = AgentHarness(configured(1))
    harness.feed("k", "a")
    harness.feed("k", "b")
    restored(harness, configured(2))
    assert harness.outputs == [1, 2]


async def tell_limit(event, ctx):
    await ctx.durable_execute_async(look_up, event.input)
    ctx.send_event(OutputEvent(ctx.get_action_config_value("limit")))


def test_an_action_that_was_removed_goes_on_while_its_function_is_there():
    harness = interrupted()
    after = Agent().add_action("take", [InputEvent], take).add_action("tell", ["scored"], tell)
    assert restored(harness, after) == ["more"]
    assert harness.outputs == [ALL[0]]
    assert harness.stats.unhandled == 1, "the second run begins under the new plan, where nobody scores"


@pytest.fixture
def gone(monkeypatch):
    """Takes a function out of this module, as a deployment of other code does."""
    return lambda name: monkeypatch.delitem(globals(), name)


def successor(**options) -> Agent:
    return (
        Agent()
        .add_action("take", [InputEvent], take)
        .add_action("rate", ["taken"], score_anew, **options)
        .add_action("tell", ["scored"], tell)
    )


@pytest.fixture
def harness(monkeypatch, gone):
    """Interrupted inside ``score``, which is then called ``score_anew``: the old name leads nowhere."""
    harness = interrupted()
    body = score
    monkeypatch.setitem(globals(), "score_anew", body)
    gone("score")
    body.__name__ = body.__qualname__ = "score_anew"
    yield harness
    body.__name__ = body.__qualname__ = "score"


def test_a_renamed_action_with_an_alias_goes_on_in_the_middle(harness):
    in_flight = harness.calls[0].idempotency_key
    snapshot = harness.snapshot()
    harness.upgrade(successor(aliases=["score"]))
    harness.restore(snapshot)
    harness.advance(LONG_S)
    assert harness.calls[0].idempotency_key == in_flight, "ids are made of the old name"
    assert restored(harness, successor(aliases=["score"])) == ["more", "b", "more"]
    assert harness.outputs == ALL


def test_a_renamed_action_without_alias_fails_the_job_and_says_what_to_do(harness):
    with pytest.raises(MissingActionError, match="inside action 'score'") as failure:
        restored(harness, successor())
    assert "aliases=['score']" in failure.value.fix
    assert "has no 'score'" in failure.value.where


def test_a_missing_action_sends_its_event_to_the_dead_letters_if_so_configured(harness):
    made = restored(harness, successor(), {"plan.on-missing-action": "dead_letter"})
    assert made == ["b", "more"]
    assert harness.outputs == [ALL[1]]
    (letter,) = harness.side_output("dead-letters")
    assert letter["action"] == "score"
    assert letter["event"]["attributes"] == {"order": "a"}
    assert letter["error"].endswith("MissingActionError")


def test_a_run_with_a_missing_action_begins_anew_if_so_configured(harness):
    made = restored(harness, successor(), {"plan.on-missing-action": "restart_run"})
    assert made == ["a", "more", "b", "more"]
    assert harness.outputs == ALL
    assert harness.stats.restarted == 1
    assert harness.short_term_memory("k").get("taken") == 3, "memory of the first try stays"


def test_an_action_that_is_missing_further_on_is_found_out_there(gone):
    harness = interrupted()
    gone("tell")
    after = Agent().add_action("take", [InputEvent], take).add_action("score", ["taken"], score)
    assert restored(harness, after, {"plan.on-missing-action": "dead_letter"}) == ["more", "b", "more"]
    assert [letter["action"] for letter in harness.side_output("dead-letters")] == ["tell"]


def test_a_run_survives_several_changes_of_the_plan():
    harness = interrupted(after=0)
    snapshot = harness.snapshot()
    harness.upgrade(before().add_action("greet", ["taken"], greet))
    harness.restore(snapshot)
    harness.advance(LONG_S)
    harness.calls[0].run()
    harness.advance(0.01)
    made = restored(harness, before().add_action("other", ["scored"], greet))
    assert made == ["more", "b", "more"]
    assert harness.outputs == [ALL[0], ALL[1], "also scored"]


def test_without_an_archive_runs_go_on_under_the_new_plan_by_name():
    none = {"plan.versions-kept": 0}
    harness = interrupted(none)
    made = restored(harness, before().add_action("greet", ["scored"], greet), none)
    assert made == ["more", "b", "more"]
    assert harness.outputs == [ALL[0], "also scored", ALL[1], "also scored"]


def test_a_record_of_old_goes_on_under_the_new_plan_by_name():
    harness = interrupted()
    snapshot = harness.snapshot()
    (text,) = snapshot.state["agent.run"].values()
    assert text.startswith("[2,")
    for key in snapshot.state["agent.run"]:
        snapshot.state["agent.run"][key] = json.dumps([1, *json.loads(text)[1:7]])
    del snapshot.state[PLANS]
    harness.restore(snapshot)
    harness.advance(LONG_S)
    assert finish_all(harness) == 3
    assert harness.outputs == ALL


def test_only_so_many_plans_are_kept_beside_those_in_use():
    config = {"plan.versions-kept": 2}
    harness = interrupted(config, after=0)
    for number in range(5):
        snapshot = harness.snapshot()
        harness.upgrade(before().add_action(f"greet{number}", ["never"], greet), config)
        harness.restore(snapshot)
        harness.feed(f"key {number}", "x")
    first = AgentPlan.from_agent(before()).digest
    kept = harness.state_of("\0synthetic")[PLANS]
    assert len(kept) == 3, "two, and their order"
    assert first not in kept


def test_an_alias_that_is_a_name_is_refused():
    with pytest.raises(DuplicateNameError, match="'tell' is an alias of action 'rate', and a name of action 'tell'"):
        AgentPlan.from_agent(successor(aliases="tell"))
    with pytest.raises(DuplicateNameError, match="'old'"):
        AgentPlan.from_agent(
            Agent().add_action("a", ["x"], greet, aliases=["old"]).add_action("b", ["x"], greet, aliases=["old"])
        )


def test_aliases_travel_in_the_plan():
    plan = AgentPlan.from_agent(successor(aliases=["score", "older"]))
    assert AgentPlan.from_json(plan.to_json()).actions["rate"].aliases == ["score", "older"]
    assert set(plan.renamed) == {"score", "older"}


def scripted(text: str) -> Agent:
    """An agent of a script: its functions, and those of the agent it calls, travel by value."""

    async def answer(event, ctx):
        await ctx.durable_execute_async(look_up, event.input)
        ctx.send_event(OutputEvent(text))

    async def ask(event, ctx):
        (said,) = await ctx.call_agent("other", event.input)
        ctx.send_event(OutputEvent(f"{text} {said}"))

    return (
        Agent().add_action("ask", [InputEvent], ask).add_agent("other", Agent().add_action("x", [InputEvent], answer))
    )


def unpacked(plan: str) -> bytes:
    return zlib.decompress(base64.b85decode(plan))


def test_functions_that_travel_by_value_are_those_of_the_new_script():
    harness = AgentHarness(scripted("old"))
    harness.feed("k", "a")
    (kept,) = (packed for name, packed in harness.state_of("\0synthetic")[PLANS].items() if name != "order")
    assert b'"actions"' in unpacked(kept)
    assert b"pickled_functions" not in unpacked(kept), "code is not kept"
    assert restored(harness, scripted("new")) == ["a"]
    assert harness.outputs == ["new new"]
