"""Ids and lineage of events: derived, equal on every replay (S4)."""

from __future__ import annotations

from uuid import UUID

import pytest

from flink_agents_py.agent import Agent
from flink_agents_py.events import Event, InputEvent, OutputEvent, derive_id
from flink_agents_py.testing import AgentHarness
from tests.support.agents import agent_of, finish_all, restart


class Step(Event):
    number: int = 0


def fetch(x):
    return x


def chain(log: list, *, forward: bool = False) -> Agent:
    """Two suspending actions in a row; notes every event it sees."""

    async def first(event, ctx):
        log.append(("first", event.id, event.upstream_event_id, event.upstream_action_name))
        await ctx.durable_execute_async(fetch, 1)
        ctx.send_event(Step(number=1))
        ctx.send_event(Step(number=2))

    async def second(event: Step, ctx):
        log.append((f"second {event.number}", event.id, event.upstream_event_id, event.upstream_action_name))
        await ctx.durable_execute_async(fetch, event.number)
        if forward and event.number < 10:
            event.number += 10
            ctx.send_event(event)
        else:
            ctx.send_event(OutputEvent(str(event.id)))

    return Agent().add_action("first", [InputEvent], first).add_action("second", [Step], second)


@pytest.mark.parametrize("forward", [False, True])
def test_ids_and_lineage_are_equal_on_replay_wherever_it_starts(forward):
    undisturbed: list = []
    harness = AgentHarness(chain(undisturbed, forward=forward))
    harness.feed("a", 1)
    finish_all(harness)
    expected = harness.outputs
    assert len(set(undisturbed)) == len(undisturbed)
    for crash_after in range(6):
        log: list = []
        harness = AgentHarness(chain(log, forward=forward))
        harness.feed("a", 1)
        for _ in range(crash_after):
            if harness.calls:
                harness.calls[0].run()
        restart(harness)
        finish_all(harness)
        assert set(log) == set(undisturbed), f"crash after {crash_after} calls"
        assert sorted(harness.outputs) == sorted(expected)


def test_an_id_is_derived_from_parent_action_and_position():
    seen = {}

    def send(event, ctx):
        ctx.send_event(Step(number=0))
        ctx.send_event(Step(number=1))
        seen["input"] = event.id

    def note(event: Step, ctx):
        seen[event.number] = event

    AgentHarness(Agent().add_action("send", [InputEvent], send).add_action("note", [Step], note)).feed("a", 1)
    for number in (0, 1):
        assert seen[number].id == UUID(bytes=derive_id(seen["input"].bytes, "send", number))
        assert seen[number].upstream_event_id == seen["input"]
        assert seen[number].upstream_action_name == "send"


def test_inputs_have_no_parent_and_an_id_for_each_key_and_sequence():
    seen = []

    def note(event, ctx):
        seen.append(event.id)
        assert event.upstream_event_id is None
        assert event.upstream_action_name is None

    harness = AgentHarness(agent_of(note), {"job-identifier": "job"})
    for key in ("a", "b", 1, "1", True):
        harness.feed(key, "same")
        harness.feed(key, "same")
    other = AgentHarness(agent_of(note), {"job-identifier": "other job"})
    other.feed("a", "same")
    assert len(set(seen)) == len(seen) == 11
    again = AgentHarness(agent_of(note), {"job-identifier": "job"})
    again.feed("a", "different value")
    assert seen[-1] == seen[0]


def test_forwarding_a_received_event_makes_a_new_one_and_leaves_the_received_one_alone():
    seen = []

    def send(event, ctx):
        ctx.send_event(Event(type="first", attributes={"n": 1}))

    def forward(event, ctx):
        before = event.id
        ctx.send_event(event)
        assert event.id == before

    def relay(event, ctx):
        event.type = "end"
        ctx.send_event(event)

    def end(event, ctx):
        seen.append(event)

    agent = Agent().add_action("send", [InputEvent], send).add_action("relay", ["first"], relay)
    agent.add_action("end", ["end"], end)
    harness = AgentHarness(agent)
    harness.feed("a", 1)
    (event,) = seen
    assert event.upstream_action_name == "relay"
    assert event.upstream_event_id is not None
    assert event.id != event.upstream_event_id

    loops = []

    def again(event, ctx):
        loops.append(event.id)
        if len(loops) < 4:
            ctx.send_event(event)

    AgentHarness(agent_of(again)).feed("a", 1)  # an input forwarded to its own listener
    assert len(set(loops)) == 4


def test_a_restored_event_that_is_forwarded_gets_a_new_id_too():
    seen = []

    async def again(event, ctx):
        seen.append((event.id, event.upstream_event_id))
        await ctx.durable_execute_async(fetch, len(seen))
        if ctx.short_term_memory.get("n") is None:
            ctx.short_term_memory.set("n", 1)
            ctx.send_event(event)

    harness = AgentHarness(agent_of(again), {"durable.on-mismatch": "rerun"})
    harness.feed("a", 1)
    restart(harness)
    finish_all(harness)
    first, replayed, forwarded = seen
    assert first == replayed
    assert forwarded[0] != first[0]
    assert forwarded[1] == first[0]


def test_the_same_event_object_sent_twice_is_two_events():
    seen = []

    def send(event, ctx):
        step = Step(number=1)
        ctx.send_event(step)
        ctx.send_event(step)

    def note(event: Step, ctx):
        seen.append((event.id, event.number))

    AgentHarness(Agent().add_action("send", [InputEvent], send).add_action("note", [Step], note)).feed("a", 1)
    assert len({event_id for event_id, _ in seen}) == 2
    assert [number for _, number in seen] == [1, 1]


def test_one_event_object_shared_by_all_runs_has_an_id_in_each():
    shared, seen = Event(type="shared"), []

    def send(event, ctx):
        ctx.send_event(shared)

    def note(event, ctx):
        seen.append((event.id, event.upstream_event_id))

    harness = AgentHarness(Agent().add_action("send", [InputEvent], send).add_action("note", ["shared"], note))
    for key in ("a", "a", "b"):
        harness.feed(key, 1)
    assert len(set(seen)) == 3
    alone = AgentHarness(Agent().add_action("send", [InputEvent], send).add_action("note", ["shared"], note))
    alone.feed("b", 1)
    assert seen[3] == seen[2]


def test_reading_an_id_before_sending_does_not_change_it():
    ids = []

    def send(event, ctx):
        steps = [Step(number=0), Step(number=1)]
        ids.extend(step.id for step in steps)
        ctx.send_event(steps[1])
        ctx.send_event(steps[0])

    def note(event: Step, ctx):
        assert event.id == ids[event.number - 2]

    harness = AgentHarness(Agent().add_action("send", [InputEvent], send).add_action("note", [Step], note))
    harness.feed("a", 1)
    harness.feed("a", 1)
    assert len(set(ids)) == 4


def test_a_replay_sees_the_event_as_it_was_not_as_the_action_left_it():
    starts = []

    async def act(event, ctx):
        starts.append(dict(event.input))
        text = event.input.pop("text")
        event.input["attempts"] = event.input.get("attempts", 0) + 1
        ctx.send_event(OutputEvent([await ctx.durable_execute_async(fetch, text), event.input["attempts"]]))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", {"text": "hello"})
    restart(harness)
    restart(harness)
    harness.calls[0].run()
    assert starts == [{"text": "hello"}] * 3
    assert harness.outputs == [["hello", 1]]
