"""Specs in files: what is refused, and how they change while a job runs; and streams of calls."""

from __future__ import annotations

import json
import os

import pytest

from flink_agents_py import AgentsExecutionEnvironment
from flink_agents_py.errors import ConfigError
from flink_agents_py.external import ActionCall, ActionRegistry, ActionSpec, BusinessRejected
from tests.external.kit import echo, harness, one, results


async def other(call, session):
    return {"other": call.params}


def entry(**fields):
    return {"name": "do", "handler": "tests.external.kit:echo", **fields}


def write(path, *entries):
    path.write_text(json.dumps({"actions": list(entries)}))
    os.utime(path, ns=(path.stat().st_mtime_ns + 1, path.stat().st_mtime_ns + 1))


def test_actions_come_from_a_json_file(tmp_path):
    file = tmp_path / "actions.json"
    write(file, entry(max_concurrent=4), entry(name="second", handler="tests.external.kit:echo"))
    registry = ActionRegistry().load(file)
    assert registry.specs()["do"].max_concurrent == 4
    agent = harness(registry, latency=0.1)
    agent.feed("k", 1)
    agent.run()
    assert agent.outputs == ["SUCCESS"]


def test_actions_come_from_a_yaml_file(tmp_path):
    file = tmp_path / "actions.yaml"
    file.write_text("actions:\n  - name: do\n    handler: tests.external.kit:echo\n    rate_per_s: 2.5\n")
    assert ActionRegistry().load(file).specs()["do"].rate_per_s == 2.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be parsed"),
        ("[]", "no list of actions"),
        ('{"actions": [3]}', "entry 0"),
        ('{"actions": [{"name": "a"}]}', "no handler"),
        ('{"actions": [{"name": "a", "handler": "m:x", "max_concurrent": 0}]}', "max_concurrent"),
        ('{"actions": [{"name": "a", "handler": "m:x"}, {"name": "a", "handler": "m:x"}]}', "twice"),
        ('{"actions": [{"name": "a", "handler": 3}]}', "module:attr"),
    ],
)
def test_a_wrong_file_is_refused_with_its_entry(tmp_path, text, message):
    file = tmp_path / "actions.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        ActionRegistry().load(file)
    assert str(file) in str(caught.value)


def watching(file, *registered):
    registry = ActionRegistry(watch=file, watch_interval_s=5)
    for spec in registered:
        registry.register(spec, echo)
    return harness(registry, latency=0.1)


def test_a_changed_file_applies_to_calls_that_begin_after_it_with_its_version_in_the_audit(tmp_path):
    file = tmp_path / "actions.json"
    write(file, entry(version="1"))
    agent = watching(file)
    agent.feed("a", 1)
    write(file, entry(version="2", parameters={"type": "object", "properties": {"n": {"maximum": 5}}}))
    agent.feed("b", 9)  # within the interval: nobody has looked yet
    agent.run()
    agent.advance(5)
    agent.feed("c", 9)
    agent.feed("d", 3)
    agent.run()
    assert dict(agent.keyed_outputs) == {"a": "SUCCESS", "b": "SUCCESS", "c": "INVALID_CALL", "d": "SUCCESS"}
    assert [record["version"] for record in agent.side_output("action-audit")] == ["1", "1", "2", "2"]
    assert agent.engine.external.bindings.reloads == 2


def test_a_call_in_flight_keeps_the_spec_it_began_with(tmp_path):
    file = tmp_path / "actions.json"
    write(file, entry(version="1"))
    registry = ActionRegistry(watch=file, watch_interval_s=0.01)
    agent = harness(registry)
    agent.feed("a", 1)
    write(file, entry(version="2"))
    agent.advance(1)
    agent.feed("b", 1)
    for call in agent.calls:
        call.run()
    assert sorted(result["version"] for result in results(agent)) == ["1", "2"]


def test_limits_change_for_what_waits_already(tmp_path):
    file = tmp_path / "actions.json"
    write(file, entry(max_concurrent=1))
    agent = harness(ActionRegistry(watch=file, watch_interval_s=0.01))
    for number in range(4):
        agent.feed(f"k{number}", number)
    assert len(agent.calls) == 1
    write(file, entry(max_concurrent=3))
    agent.advance(0.1)
    agent.feed("k9", 9)
    assert len(agent.calls) == 3


def test_a_wrong_file_changes_nothing_is_counted_and_said_once(tmp_path, caplog):
    file = tmp_path / "actions.json"
    write(file, entry(version="1"))
    agent = watching(file)
    agent.feed("a", 1)
    agent.run()
    file.write_text("{")
    for _ in range(3):
        agent.advance(6)
        agent.feed("a", 1)
        agent.run()
    assert agent.outputs == ["SUCCESS"] * 4
    assert agent.engine.external.bindings.refused == 1
    assert caplog.text.count("is wrong") == 1
    write(file, entry(version="3"))
    agent.advance(6)
    agent.feed("a", 1)
    agent.run()
    assert agent.side_output("action-audit")[-1]["version"] == "3"


def test_a_file_that_is_missing_leaves_what_was_registered(tmp_path):
    file = tmp_path / "actions.json"
    agent = watching(file, ActionSpec(name="do", version="built in"))
    for _ in range(3):
        agent.feed("a", 1)
        agent.advance(6)
    assert agent.engine.external.bindings.refused == 1
    write(file, {"name": "do", "version": "from the file"})  # no handler: that of the registered action
    agent.feed("a", 1)
    agent.run()
    versions = [record["version"] for record in agent.side_output("action-audit")]
    assert versions == ["built in"] * 3 + ["from the file"]


def test_a_file_touched_without_a_change_is_no_change(tmp_path):
    file = tmp_path / "actions.json"
    write(file, entry())
    agent = watching(file)
    agent.feed("a", 1)
    write(file, entry())
    agent.advance(6)
    agent.feed("a", 1)
    agent.run()
    assert (agent.engine.external.bindings.reloads, agent.engine.external.bindings.refused) == (1, 0)


def test_an_action_taken_out_of_the_file_is_unknown_and_one_put_in_is_there(tmp_path):
    file = tmp_path / "actions.json"
    write(file, entry(name="before"))
    agent = watching(file)
    agent.feed("a", 1)
    write(file, entry(handler="tests.external.test_spec_files:other"))
    agent.advance(6)
    agent.feed("a", 1)
    agent.run()
    assert agent.outputs == ["UNKNOWN_ACTION", "SUCCESS"]


# --- a stream of calls ----------------------------------------------------------------------------------------------


def refuse_twos(call, session):
    if call.params["n"] == 2:
        raise BusinessRejected("no twos")
    return call.params["n"] * 10


def test_a_list_of_calls_gives_results_dead_letters_audit_and_events():
    calls = [ActionCall("t", "do", {"n": n}, n) for n in (1, 2)]
    inputs = [calls[0], calls[0].to_plain(), json.dumps(calls[1].to_plain()), "no call", {"trace_id": "t"}]
    agents = AgentsExecutionEnvironment.get_execution_environment()
    made = agents.from_list([{"key": "t", "value": value} for value in inputs]).execute_actions(
        one(handler=refuse_twos)
    )
    assert [result.code for result in made.results] == [
        "SUCCESS",
        "SUCCESS",
        "BUSINESS_REJECTED",
        "INVALID_CALL",
        "INVALID_CALL",
    ]
    assert [result.deduplicated for result in made.results[:2]] == [False, True]
    assert [failed.code for failed in made.dead_letters] == ["BUSINESS_REJECTED", "INVALID_CALL", "INVALID_CALL"]
    assert made.events == made.dead_letters
    assert made.dead_letters[0].call == calls[1]
    assert made.dead_letters[1].call.params == {"input": "no call"}
    assert [record["sequence"] for record in made.audit] == [1, 1, 2, 0, 0]


def test_the_registry_of_the_environment_and_of_the_stage_may_be_one():
    registry = one(handler=refuse_twos)
    agents = AgentsExecutionEnvironment.get_execution_environment().add_action_registry(registry)
    made = agents.from_list([{"key": "t", "value": ActionCall("t", "do", {"n": 1})}]).execute_actions(registry)
    assert [result.value for result in made.results] == [10]
