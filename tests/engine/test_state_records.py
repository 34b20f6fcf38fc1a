"""What the engine leaves in keyed state: its form is a promise to savepoints."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from flink_agents_py import Agent, AgentPlan, Event, InputEvent, OutputEvent, RunnerContext, action
from flink_agents_py.engine.keys import decode_pending, decode_run
from flink_agents_py.errors import ActionFailedError, StateRecordError
from flink_agents_py.testing import AgentHarness


@dataclass
class Point:
    x: int
    y: int


async def ask(question: str) -> str:
    return question


class SuspendingAgent(Agent):
    """Suspends with something of everything in its run."""

    @action(InputEvent)
    @staticmethod
    def begin(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.short_term_memory.set("user.name", "é")
        ctx.short_term_memory.set("point", Point(1, 2))
        ctx.sensory_memory.set("a.b", [1])
        ctx.send_event(Event(type="go", attributes={"n": 1}))

    @action("go")
    @staticmethod
    async def go(event: Event, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, "first")
        await ctx.durable_execute_async(ask, "second")
        ctx.send_event(OutputEvent(ctx.sensory_memory.get("a.b")))


def suspended(config: dict[str, Any] | None = None) -> AgentHarness:
    harness = AgentHarness(SuspendingAgent(), {"job-identifier": "records", **(config or {})})
    harness.feed("k", "x", 5, 4)
    harness.feed("k", b"y", 6, None)
    harness.calls[0].complete("answer")
    return harness


def test_the_record_of_a_run_is_versioned_json_in_a_known_form():
    record = json.loads(suspended().state_of("k")["agent.run"])
    version, sequence, timestamp, watermark, events, tasks, sensory, memory_ms, digest, plan, cause = record
    assert (version, sequence, timestamp, watermark, events) == (2, 1, 5, 4, [])
    assert (memory_ms, digest, plan) == (None, "", AgentPlan.from_agent(SuspendingAgent()).digest)
    assert sensory == {"": 'o["a"]', "a": 'o["b"]', "a.b": "v[1]"}
    ((name, event, journal),) = tasks
    assert name == "go"
    assert event[1:] == ["go", "", event[3], "begin", {"n": 1}]
    assert len(event[0]) == len(event[3]) == 32
    assert len(journal) == 2
    assert cause == [event[3], "_input_event", cause[2], None, None, {"input": "x"}]


def test_a_waiting_input_is_a_version_two_numbers_and_the_value():
    assert suspended().state_of("k")["agent.pending"] == {"0": '1[6,null]{"$t":"bytes","v":"eQ=="}'}


def test_memory_is_a_letter_and_json_for_each_path():
    assert suspended().state_of("k")["agent.stm"] == {
        "": 'o["user","point"]',
        "user": 'o["name"]',
        "user.name": 'v"é"',
        "point": f'v{{"$t":"data","c":"{__name__}:Point","v":{{"x":1,"y":2}}}}',
    }


def test_the_sequence_says_whether_a_run_is_unfinished():
    harness = suspended()
    assert harness.state_of("k")["agent.seq"] == 3
    while harness.calls:
        harness.calls[0].complete("x")
    assert harness.state_of("k")["agent.seq"] == 4
    assert set(harness.state_of("k")) == {"agent.seq", "agent.stm"}


def test_a_ttl_adds_the_moment_memory_is_seen_as_of_and_times_to_items():
    harness = suspended({"short-term-memory.state-ttl.ms": 1000})
    now = harness.clock.now_ms()
    state = harness.state_of("k")
    assert json.loads(state["agent.run"])[7] == now
    assert state["agent.stm"]["user.name"] == f't{now}v"é"'
    assert decode_run(state["agent.run"])[6] == now


@pytest.mark.parametrize("record", ["[3,1,null,null,[],[],{}]", '["1",1,null,null,[],[],{}]'])
def test_a_run_of_a_later_version_is_refused(record):
    with pytest.raises(StateRecordError, match="restore with the version of flink_agents_py that wrote"):
        decode_run(record)


def test_a_record_that_is_no_record_is_refused():
    for text in ("", "nonsense", "[]"):
        with pytest.raises(StateRecordError):
            decode_run(text)
    with pytest.raises(StateRecordError, match="format '2'"):
        decode_pending("2[1,2]x")


def test_a_memory_item_of_a_later_version_is_refused_with_its_path():
    harness = AgentHarness(SuspendingAgent())
    harness._store.switch("k")
    harness._store.memory.put("user", "z1")
    with pytest.raises(ActionFailedError, match=r"unknown format 'z'") as failure:
        harness.feed("k", "x")
    assert "memory path 'user'" in str(failure.value)


def test_a_value_whose_class_was_renamed_fails_with_its_path_and_what_to_do(monkeypatch):
    def read(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(ctx.short_term_memory.get("user").get("points")))

    def write(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.short_term_memory.set("user.points", [Point(1, 2)])

    writer, reader = Agent(), Agent()
    writer.add_action("act", [InputEvent], write)
    reader.add_action("act", [InputEvent], read)
    harness = AgentHarness(writer)
    harness.feed("k", "x")
    snapshot = harness.snapshot()
    harness.upgrade(reader)

    harness.restore(snapshot)
    monkeypatch.setitem(globals(), "Location", Point)
    monkeypatch.delitem(globals(), "Point")
    with pytest.raises(ActionFailedError) as failure:
        harness.feed("k", "x")
    message = str(failure.value.__cause__)
    assert f"{__name__}:Point" in message
    assert "memory path 'user.points'" in message
    assert "fix:" in message

    harness.restore(snapshot)
    monkeypatch.setitem(globals(), "Point", Location)  # noqa: F821 - the alias the message asks for
    harness.feed("k", "x")
    assert harness.outputs == [[Location(1, 2)]]  # noqa: F821
