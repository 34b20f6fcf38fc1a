"""Events about memory: who gets them, when, and what is in them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from flink_agents_py import (
    Agent,
    AgentRunBeginEvent,
    Event,
    EventType,
    InputEvent,
    MemoryEvent,
    OutputEvent,
    RunnerContext,
    SensoryReadEvent,
    SensoryWriteEvent,
    ShortTermReadEvent,
    ShortTermWriteEvent,
)
from flink_agents_py.testing import AgentHarness, Scenario, crash_everywhere
from tests.support.stores import in_memory

CLASSES = {
    EventType.ShortTermWriteEvent: ShortTermWriteEvent,
    EventType.ShortTermReadEvent: ShortTermReadEvent,
    EventType.SensoryWriteEvent: SensoryWriteEvent,
    EventType.SensoryReadEvent: SensoryReadEvent,
    EventType.AgentRunBeginEvent: AgentRunBeginEvent,
}
WRITES_AND_READS = list(CLASSES)[:4]


@dataclass
class Point:
    x: int
    y: int


def tell(event: Event, ctx: RunnerContext) -> None:
    ctx.send_event(OutputEvent((event.type, event.get_attr("key"), dict(event.get_attr("value")))))


def agent_that(does: Callable[[InputEvent, RunnerContext], Any], *listens: str) -> Agent:
    agent = Agent()
    agent.add_action("act", [EventType.InputEvent], does)
    if listens:
        agent.add_action("tell", list(listens), tell)
    return agent


def told(
    does: Callable[[InputEvent, RunnerContext], Any],
    *listens: str,
    config: dict[str, Any] | None = None,
    key: Any = "k",
) -> list[Any]:
    harness = AgentHarness(agent_that(does, *listens), config)
    harness.feed(key, "x")
    harness.run()
    return harness.outputs


def use_everything(event: InputEvent, ctx: RunnerContext) -> None:
    ctx.short_term_memory.set("user.name", "x")
    ctx.sensory_memory.set("n", 1)
    ctx.short_term_memory.get("user.name")
    ctx.sensory_memory.get("n")


# --- which ------------------------------------------------------------------------------------------------------------


def test_the_constants_are_the_types_of_the_classes():
    for event_type, cls in CLASSES.items():
        assert event_type == cls.EVENT_TYPE == getattr(EventType, cls.__name__)


def test_listening_to_a_kind_switches_on_that_kind():
    for event_type in WRITES_AND_READS:
        assert [output[0] for output in told(use_everything, event_type)] == [event_type]


def test_nobody_who_listens_means_no_events_and_no_watched_memory():
    harness = AgentHarness(agent_that(use_everything))
    harness.feed("k", "x")
    assert harness.engine.observer is None
    assert harness.stats.events == 1


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"memory.generate-event": False}, []),
        ({"memory.generate-event.short-term-write": False}, WRITES_AND_READS[1:]),
        (
            {"memory.generate-event": False, "memory.generate-event.sensory-read": True},
            [EventType.SensoryReadEvent],
        ),
        ({}, WRITES_AND_READS),
    ],
)
def test_options_switch_kinds_off_whoever_listens(config, expected):
    outputs = told(use_everything, *WRITES_AND_READS, config=config)
    assert sorted(output[0] for output in outputs) == sorted(expected)


def test_options_switch_kinds_on_for_whoever_looks_at_the_events(caplog):
    harness = AgentHarness(agent_that(use_everything), {"memory.generate-event": True, "agent-run.begin-event": True})
    with caplog.at_level(logging.WARNING):
        harness.feed("k", "x")
    assert harness.stats.events == 6
    assert harness.stats.unhandled == 0
    assert not caplog.records, "that nobody listens is no mistake of the user's"


def test_an_action_without_memory_causes_none():
    assert told(lambda event, ctx: None, *WRITES_AND_READS) == []


# --- what -------------------------------------------------------------------------------------------------------------


def test_a_write_event_has_the_last_value_of_each_path():
    def act(event, ctx):
        memory = ctx.short_term_memory
        memory.set("a.b", 1)
        memory.get("a").set("b", 2)
        memory.set("point", Point(1, 2))
        memory.set("raw", b"\x00")
        memory.new_object("empty")
        memory.set(r"example\.com", None)

    ((event_type, key, value),) = told(act, EventType.ShortTermWriteEvent, key=7)
    assert (event_type, key) == (EventType.ShortTermWriteEvent, "7")
    assert value == {"a.b": 2, "point": Point(1, 2), "raw": b"\x00", "empty": None, r"example\.com": None}


def test_a_write_event_says_what_was_deleted():
    def act(event, ctx):
        memory = ctx.short_term_memory
        if event.input == 1:
            memory.set("user.name", "x")
            memory.set("n", 1)
        else:
            memory.delete("user")
            memory.set("fleeting", 1)
            memory.delete("fleeting")
            memory.delete("n")
            memory.set("n", 2)

    def deleted(event: ShortTermWriteEvent, ctx):
        ctx.send_event(OutputEvent((event.value, event.deleted)))

    agent = agent_that(act)
    agent.add_action("deleted", [EventType.ShortTermWriteEvent], deleted)
    harness = AgentHarness(agent)
    harness.feed("k", 1)
    harness.feed("k", 2)
    assert harness.outputs == [({"user.name": "x", "n": 1}, []), ({"n": 2}, ["user"])]


def test_a_read_event_has_the_values_that_were_there_and_no_objects():
    def act(event, ctx):
        memory = ctx.short_term_memory
        memory.set("user.name", "x")
        memory.set("user.tags", ["a"])
        memory.set("n", 1)
        memory.set("unread", 1)
        memory.get("user").get_fields()
        memory.get("user").get_field_names()
        memory.get("nothing")
        memory.is_exist("unread")
        memory.get("n")
        memory.set("n", 2)
        assert memory.get("n") == 2

    ((_, _, value),) = told(act, EventType.ShortTermReadEvent)
    assert value == {"user.name": "x", "user.tags": ["a"], "n": 2}


def test_an_action_that_fails_causes_none():
    def act(event, ctx):
        ctx.short_term_memory.set("a", 1)
        raise ValueError

    agent = Agent()
    agent.add_action("act", [EventType.InputEvent], act, on_error="skip")
    agent.add_action("tell", [EventType.ShortTermWriteEvent], tell)
    harness = AgentHarness(agent)
    harness.feed("k", "x")
    assert harness.outputs == []


# --- when -------------------------------------------------------------------------------------------------------------


def test_memory_events_come_after_what_the_action_sent_and_point_to_it():
    seen = []

    def act(event, ctx):
        ctx.short_term_memory.set("a", 1)
        ctx.send_event(Event(type="mine"))

    def note(event, ctx):
        seen.append((event.type, event.upstream_action_name, event.upstream_event_id is not None))

    agent = Agent()
    agent.add_action("act", [EventType.InputEvent], act)
    agent.add_action("note", ["mine", EventType.ShortTermWriteEvent], note)
    AgentHarness(agent).feed("k", "x")
    assert seen == [("mine", "act", True), (EventType.ShortTermWriteEvent, "act", True)]


def test_listening_to_writes_and_writing_does_not_go_on_for_ever():
    def count(event: ShortTermWriteEvent, ctx):
        memory = ctx.short_term_memory
        memory.set("writes", (memory.get("writes") or 0) + 1)
        ctx.send_event(OutputEvent(memory.get("writes")))

    agent = agent_that(use_everything)
    agent.add_action("count", [EventType.ShortTermWriteEvent], count)
    harness = AgentHarness(agent)
    harness.feed("k", "x")
    harness.feed("k", "y")
    assert harness.outputs == [1, 2]


async def slow(value: int) -> int:
    return value


class WatchedAgent(Agent):
    """Suspends with memory events on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.add_action("act", [EventType.InputEvent], self.act)
        self.add_action("watch", [*WRITES_AND_READS, EventType.AgentRunBeginEvent], self.watch)

    @staticmethod
    async def act(event, ctx):
        memory = ctx.short_term_memory
        before = memory.get("total") or 0
        ctx.sensory_memory.set("added", await ctx.durable_execute_async(slow, event.input))
        memory.set("total", before + event.input)

    @staticmethod
    async def watch(event, ctx):
        await ctx.durable_execute_async(slow, 0)
        ctx.send_event(OutputEvent((str(event.id), event.type, event.key, event.value)))


@pytest.mark.parametrize("store", [None, in_memory], ids=["", "with a store"])
def test_memory_events_are_the_same_after_a_crash_at_any_step(store):
    """With a store, what a recorded action sent comes from the record, the memory events too: once, not twice."""
    scenario = Scenario(WatchedAgent, [("a", 1), ("a", 2), ("b", 3)], {"agent-run.begin-event": True}, store=store)
    report = crash_everywhere(scenario)
    assert report.points > 20


# --- typed ------------------------------------------------------------------------------------------------------------


def test_memory_event_finds_the_class_of_a_plain_event():
    plain = Event(type=EventType.SensoryWriteEvent, attributes={"key": "k", "value": {"a": 1}})
    event = MemoryEvent.from_event(plain)
    assert isinstance(event, SensoryWriteEvent)
    assert (event.key, event.value, event.deleted) == ("k", {"a": 1}, [])
    assert MemoryEvent.from_event(event) is event
    assert MemoryEvent.is_memory_type(EventType.SensoryWriteEvent)
    assert not MemoryEvent.is_memory_type(EventType.AgentRunBeginEvent)
    with pytest.raises(ValueError, match="no memory event"):
        MemoryEvent.from_event(OutputEvent(1))
    with pytest.raises(TypeError, match="make one of those"):
        MemoryEvent(key="k", value={})


def test_a_memory_event_survives_json():
    event = ShortTermWriteEvent(key="k", value={"a": b"x"}, deleted=["b"])
    again = ShortTermWriteEvent.from_json(event.model_dump_json())
    assert (again.id, again.key, again.value, again.deleted) == (event.id, "k", {"a": b"x"}, ["b"])


# --- the begin of a run -----------------------------------------------------------------------------------------------


def remember(event: InputEvent, ctx: RunnerContext) -> None:
    ctx.short_term_memory.set(f"seen.{event.input}", ctx.sequence)
    ctx.short_term_memory.new_object("empty")
    ctx.send_event(OutputEvent(event.input))


def test_a_run_begins_with_all_of_short_term_memory_if_asked_to():
    harness = AgentHarness(agent_that(remember, EventType.AgentRunBeginEvent), {"agent-run.begin-event": True})
    harness.feed("k", "a")
    harness.feed("k", "b")
    assert harness.outputs == [
        (EventType.AgentRunBeginEvent, "k", {}),
        "a",
        (EventType.AgentRunBeginEvent, "k", {"seen.a": 1}),
        "b",
    ]


def test_listening_alone_does_not_switch_it_on():
    harness = AgentHarness(agent_that(remember, EventType.AgentRunBeginEvent))
    harness.feed("k", "a")
    assert harness.outputs == ["a"]


def test_it_comes_from_the_input_by_an_action_nobody_wrote():
    def check(event: AgentRunBeginEvent, ctx):
        ctx.send_event(OutputEvent((event.upstream_action_name, event.upstream_event_id)))

    def input_id(event, ctx):
        ctx.send_event(OutputEvent(event.id))

    agent = agent_that(input_id)
    agent.add_action("check", [EventType.AgentRunBeginEvent], check)
    harness = AgentHarness(agent, {"agent-run.begin-event": True})
    harness.feed("k", "a")
    (name, upstream), input_event_id = harness.outputs
    assert name == "agent_run_begin_action"
    assert upstream == input_event_id


def test_it_keeps_nothing_alive():
    agent = agent_that(remember, EventType.AgentRunBeginEvent)
    harness = AgentHarness(agent, {"agent-run.begin-event": True, "short-term-memory.state-ttl.ms": 1000})
    for name in ("a", "b", "c"):
        harness.feed("k", name)
        harness.advance(0.6)
    assert harness.outputs[::2][-1] == (EventType.AgentRunBeginEvent, "k", {"seen.b": 2})
