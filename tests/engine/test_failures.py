"""Actions that fail: no key stays stuck, and nothing is lost silently (S14)."""

from __future__ import annotations

import asyncio
import gc
import json
import threading

import pytest

from flink_agents_py.agent import Agent
from flink_agents_py.errors import ActionFailedError
from flink_agents_py.events import Event, InputEvent, OutputEvent
from flink_agents_py.testing import AgentHarness
from tests.support.agents import agent_of, restart


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def fetch(x):
    return x


ERRORS = [
    ValueError("bad"),
    SystemExit(3),
    GeneratorExit(),
    StopIteration("empty"),
    StopAsyncIteration(),
    asyncio.CancelledError(),
    UnspeakableError(),
    RecursionError("deep"),
    BaseException("base"),
]
names = [type(error).__name__ for error in ERRORS]


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@pytest.mark.parametrize("error", ERRORS, ids=names)
@pytest.mark.parametrize("when", ["sync", "async", "resumed"])
def test_a_failing_action_never_leaves_its_key_stuck(error, policy, when):
    def sync_act(event, ctx):
        if event.input == "bad":
            raise error
        ctx.send_event(OutputEvent(event.input))

    async def async_act(event, ctx):
        if when == "resumed":
            await ctx.durable_execute_async(fetch, event.input)
        if event.input == "bad":
            raise error
        ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(agent_of(sync_act if when == "sync" else async_act, on_error=policy))
    for value in ("bad", "good"):
        harness.feed("a", value)
    for _ in range(2 if when == "resumed" else 0):
        harness.calls[0].run()
    assert harness.outputs == ["good"]
    assert harness.idle
    assert harness.stats.skipped + harness.stats.dead_letters == 1
    assert len(harness.side_output("dead-letters")) == (policy == "dead_letter")
    assert harness.stats.actions == 1


@pytest.mark.parametrize("error", ERRORS, ids=names)
def test_fail_raises_with_the_place_and_the_cause(error):
    def act(event, ctx):
        raise error

    with pytest.raises(ActionFailedError, match="action act failed") as caught:
        AgentHarness(agent_of(act)).feed("a", 1)
    assert caught.value.__cause__ is error
    assert "key 'a'" in caught.value.where
    assert "sequence 1" in caught.value.where


def test_a_keyboard_interrupt_is_no_failure_of_the_action():
    def act(event, ctx):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        AgentHarness(agent_of(act, on_error="skip")).feed("a", 1)


def test_a_dead_letter_says_who_where_why_and_what_to_replay():
    class Order(Event):
        number: int

    def send(event, ctx):
        ctx.send_event(Order(number=7))

    def ship(event: Order, ctx):
        raise ValueError("out of stock")

    agent = Agent().add_action("send", [InputEvent], send).add_action("ship", [Order], ship, on_error="dead_letter")
    harness = AgentHarness(agent)
    harness.feed(("tenant", 1), "x", timestamp=99)
    (letter,) = harness.side_output("dead-letters")
    assert letter["agent"] == "Agent"
    assert letter["action"] == "ship"
    assert letter["sequence"] == 1
    assert letter["timestamp"] == 99
    assert letter["event"]["type"] == Order.EVENT_TYPE
    assert letter["event"]["attributes"] == {"number": 7}
    assert letter["error"] == "builtins.ValueError"
    assert letter["message"] == "out of stock"
    assert "in ship" in letter["traceback"]
    json.dumps(letter)  # JSON-like throughout, the tuple key included


def test_a_dead_letter_of_what_cannot_be_encoded_names_it_instead_of_failing_the_job():
    def act(event, ctx):
        raise UnspeakableError

    harness = AgentHarness(agent_of(act, on_error="dead_letter"))
    harness.feed("a", {"lock": threading.Lock(), "n": 1})
    harness.feed("a", "next")
    first, second = harness.side_output("dead-letters")
    assert "lock" in first["event"]["attributes"]["input"]
    assert "__str__ raised RuntimeError" in first["message"]
    assert second["event"]["attributes"] == {"input": "next"}


def test_a_failing_action_stops_neither_its_siblings_nor_what_they_send():
    class Step(Event):
        pass

    def bad(event, ctx):
        ctx.send_event(Step())
        raise ValueError

    def good(event, ctx):
        ctx.send_event(Step())

    def step(event, ctx):
        ctx.send_event(OutputEvent("stepped"))

    agent = Agent().add_action("bad", [InputEvent], bad, on_error="skip")
    agent.add_action("good", [InputEvent], good).add_action("step", [Step], step)
    harness = AgentHarness(agent)
    harness.feed("a", 1)
    assert harness.outputs == ["stepped"]


def test_an_input_that_failed_is_not_tried_again_after_a_restore():
    tried = []

    async def act(event, ctx):
        tried.append(event.input)
        await ctx.durable_execute_async(fetch, 1)
        if event.input == "bad":
            raise ValueError
        await ctx.durable_execute_async(fetch, 2)
        ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(agent_of(act, on_error="dead_letter"))
    harness.feed("a", "bad")
    harness.feed("a", "good")
    harness.calls[0].run()
    restart(harness)
    while harness.calls:
        harness.calls[0].run()
    assert tried == ["bad", "good", "good"]
    assert harness.outputs == ["good"]
    assert len(harness.side_output("dead-letters")) == 1


# --- effects are atomic per action (S3) -----------------------------------------------------------------------------


def test_a_failing_action_leaves_no_memory_no_event_and_no_side_output():
    async def act(event, ctx):
        ctx.short_term_memory.set("x", 1)
        ctx.sensory_memory.set("y", 1)
        ctx.send_event(OutputEvent("early"))
        ctx.side_output("tag", "early")
        await ctx.durable_execute_async(fetch, 1)
        assert ctx.short_term_memory.get("x") == 1  # it sees its own writes
        ctx.short_term_memory.set("z", 1)
        raise ValueError

    harness = AgentHarness(agent_of(act, on_error="skip"))
    harness.feed("a", 1)
    assert harness.outputs == []
    assert harness.short_term_memory("a").get_field_names() == []
    harness.calls[0].run()
    assert harness.outputs == []
    assert harness.side_output("tag") == []
    assert harness.short_term_memory("a").get_field_names() == []


def test_effects_of_a_suspended_action_are_invisible_until_it_finishes_and_after_a_crash():
    starts = []

    async def act(event, ctx):
        starts.append(ctx.short_term_memory.get("n"))
        ctx.short_term_memory.set("n", (ctx.short_term_memory.get("n") or 0) + 1)
        ctx.side_output("tag", ctx.short_term_memory.get("n"))
        await ctx.durable_execute_async(fetch, 1)
        await ctx.durable_execute_async(fetch, 2)

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    harness.calls[0].run()
    assert harness.short_term_memory("a").get("n") is None
    assert harness.side_output("tag") == []
    restart(harness)
    harness.calls[0].run()
    assert starts == [None, None]
    assert harness.short_term_memory("a").get("n") == 1
    assert harness.side_output("tag") == [1]


@pytest.mark.parametrize("crash_between", [False, True])
def test_two_parallel_actions_of_a_run_writing_different_paths_both_survive(crash_between):
    async def left(event, ctx):
        ctx.short_term_memory.set("both.left", await ctx.durable_execute_async(fetch, "l"))
        ctx.sensory_memory.set("left", 1)

    async def right(event, ctx):
        ctx.short_term_memory.set("both.right", await ctx.durable_execute_async(fetch, "r"))

    harness = AgentHarness(agent_of(left, right))
    harness.feed("a", 1)
    harness.calls[1].run()
    if crash_between:
        restart(harness)
    harness.calls[0].run()
    assert {name: harness.short_term_memory("a").get(f"both.{name}") for name in ("left", "right")} == {
        "left": "l",
        "right": "r",
    }


def test_sensory_memory_reaches_the_next_action_of_the_run_across_a_restore_and_no_further():
    class Step(Event):
        pass

    seen = []

    async def first(event, ctx):
        seen.append(ctx.sensory_memory.get("note"))
        ctx.sensory_memory.set("note", {"from": event.input})
        ctx.send_event(Step())

    async def second(event: Step, ctx):
        await ctx.durable_execute_async(fetch, 1)
        seen.append(ctx.sensory_memory.get("note"))

    harness = AgentHarness(Agent().add_action("first", [InputEvent], first).add_action("second", [Step], second))
    harness.feed("a", 1)
    harness.feed("a", 2)
    restart(harness)
    harness.calls[0].run()
    harness.calls[0].run()
    assert seen == [None, {"from": 1}, None, {"from": 2}]
    assert set(harness.state_of("a")) == {"agent.seq"}


def test_closing_the_engine_lets_no_finally_block_touch_the_context():
    leaked = []

    async def act(event, ctx):
        try:
            await ctx.durable_execute_async(fetch, 1)
        finally:
            try:
                ctx.durable_execute(leaked.append, "called")
            except Exception as error:  # noqa: BLE001
                leaked.append(type(error).__name__)

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    harness.crash()
    assert leaked == ["WrongThreadError"]


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")
def test_an_async_action_is_not_begun_with_an_event_that_could_not_be_restored():
    begun = []

    def send(event, ctx):
        ctx.send_event(Event(type="step", attributes={"lock": threading.Lock()}))

    async def step(event, ctx):
        begun.append(event)
        await ctx.durable_execute_async(fetch, 1)

    agent = Agent().add_action("send", [InputEvent], send).add_action("step", ["step"], step, on_error="dead_letter")
    harness = AgentHarness(agent)
    harness.feed("a", 1)
    gc.collect()  # a coroutine left behind would warn
    (letter,) = harness.side_output("dead-letters")
    assert "lock" in letter["message"]
    assert begun == []
    assert harness.idle


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")
def test_what_a_failed_action_does_in_finally_reaches_nobody():
    async def act(event, ctx):
        try:
            await ctx.durable_execute_async(fetch, event.input)
        finally:
            ctx.send_event(OutputEvent("finally"))
            ctx.short_term_memory.set("x", 1)

    paths = iter(["old", "new"])

    async def left(event, ctx):
        try:
            await ctx.durable_execute_async(fetch, next(paths))
        except Exception:  # noqa: BLE001
            try:
                await ctx.sleep(1)
            finally:
                ctx.send_event(OutputEvent("hidden"))

    harness = AgentHarness(agent_of(act, on_error="skip"))
    harness.feed("a", 1)
    harness.calls[0].fail(ValueError())
    assert harness.outputs == []
    assert harness.short_term_memory("a").get("x") is None

    harness = AgentHarness(agent_of(left, on_error="skip"), {"durable.on-mismatch": "fail"})
    harness.feed("a", 1)
    with pytest.raises(ActionFailedError, match="JournalMismatchError"):
        restart(harness)
    gc.collect()
