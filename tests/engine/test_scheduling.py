"""Which run, action and event is next (S1, S2, S4)."""

from __future__ import annotations

import logging

import pytest

from flink_agents_py.agent import Agent
from flink_agents_py.errors import ActionFailedError, DecodeError
from flink_agents_py.events import Event, InputEvent, OutputEvent
from flink_agents_py.testing import AgentHarness, VirtualClock
from tests.support.agents import LONG_S, agent_of, finish_all, restart


def fetch(x):
    return x


class Scored(Event):
    score: float


class Step(Event):
    number: int


def test_second_input_of_a_key_waits_for_all_actions_the_first_caused():
    log = []

    async def first(event, ctx):
        log.append(f"first {event.input}")
        await ctx.durable_execute_async(fetch, event.input)
        ctx.send_event(Step(number=event.input))

    async def second(event: Step, ctx):
        log.append(f"second {event.number}")
        await ctx.durable_execute_async(fetch, event.number)
        ctx.send_event(OutputEvent(event.number))

    harness = AgentHarness(Agent().add_action("first", [InputEvent], first).add_action("second", [Step], second))
    harness.feed("a", 1)
    harness.feed("a", 2)
    assert log == ["first 1"]
    harness.calls[0].complete()
    assert log == ["first 1", "second 1"]
    harness.calls[0].complete()
    assert log == ["first 1", "second 1", "first 2"]
    finish_all(harness)
    assert harness.outputs == [1, 2]
    assert log[-1] == "second 2"


def test_two_keys_interleave():
    async def act(event, ctx):
        await ctx.durable_execute_async(fetch, event.input)
        ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    harness.feed("b", 2)
    assert [call.args for call in harness.calls] == [(1,), (2,)]
    harness.calls[1].complete()
    assert harness.keyed_outputs == [("b", 2)]
    harness.feed("b", 3)
    harness.calls[1].complete()
    harness.calls[0].complete()
    assert harness.keyed_outputs == [("b", 2), ("b", 3), ("a", 1)]


def test_a_synchronous_input_behind_a_suspended_one_of_its_key_waits_too():
    async def act(event, ctx):
        if event.input == "slow":
            await ctx.durable_execute_async(fetch, 1)
        ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(agent_of(act))
    for value in ("slow", "quick", "quicker"):
        harness.feed("a", value)
    assert harness.outputs == []
    harness.calls[0].complete()
    assert harness.outputs == ["slow", "quick", "quicker"]


def test_events_are_handled_in_the_order_sent_after_the_action_that_sent_them():
    log = []

    def start(event, ctx):
        for number in range(3):
            ctx.send_event(Step(number=number))
        log.append("start ends")

    def one(event: Step, ctx):
        log.append(f"one {event.number}")
        if event.number < 2:
            ctx.send_event(Step(number=event.number + 10))

    def other(event: Step, ctx):
        log.append(f"other {event.number}")

    agent = Agent().add_action("start", [InputEvent], start)
    agent.add_action("one", [Step], one).add_action("other", [Step], other)
    AgentHarness(agent).feed("a", 1)
    assert log == ["start ends"] + [f"{name} {number}" for number in (0, 1, 2, 10, 11) for name in ("one", "other")]


def test_an_action_is_finished_before_the_events_it_sent_are_handled():
    started = []

    async def first(event, ctx):
        started.append("first")
        await ctx.durable_execute_async(fetch, 1)
        ctx.short_term_memory.set("first", "done")
        ctx.send_event(Step(number=1))

    async def second(event: Step, ctx):
        assert ctx.short_term_memory.get("first") == "done"
        started.append("second")
        await ctx.durable_execute_async(fetch, 2)

    harness = AgentHarness(Agent().add_action("first", [InputEvent], first).add_action("second", [Step], second))
    harness.feed("a", 1)
    harness.calls[0].complete()
    restart(harness)
    assert started == ["first", "second", "second"]  # the finished one is not begun again


def test_a_continued_action_is_started_once_however_often_it_resumes():
    started = []

    async def act(event, ctx):
        started.append(event.input)
        for number in range(20):
            await ctx.durable_execute_async(fetch, number)
        await ctx.sleep(1)
        ctx.send_event(OutputEvent("end"))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    finish_all(harness)
    harness.advance(1.1)
    assert harness.outputs == ["end"]
    assert started == [1]
    assert harness.stats.actions == 1


def test_after_a_restore_a_run_is_resumed_once_by_timer_alone():
    started = []

    async def act(event, ctx):
        started.append(event.input)
        await ctx.durable_execute_async(fetch, 1)
        ctx.send_event(OutputEvent(1))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    restart(harness)
    harness.advance(10 * LONG_S)  # every resume timer there is
    assert started == [1, 1]
    assert harness.stats.resumed == 1
    assert len(harness.calls) == 1
    harness.calls[0].complete()
    assert harness.outputs == [1]


def test_after_a_restore_an_input_of_the_key_resumes_its_run_and_waits_behind_it():
    async def act(event, ctx):
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, event.input)))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    harness.restore(harness.snapshot())
    harness.feed("a", 2)
    assert [call.args for call in harness.calls] == [(1,)]
    finish_all(harness)
    assert harness.outputs == [1, 2]


# --- time budget ----------------------------------------------------------------------------------------------------


class Slow(Event):
    left: int


def busy_agent(clock: VirtualClock, log: list):
    def start(event, ctx):
        log.append(("start", event.input))
        ctx.send_event(Slow(left=5))

    def slow(event: Slow, ctx):
        clock.budget_used_s += 0.06
        log.append(("slow", event.left))
        ctx.send_event(Slow(left=event.left - 1) if event.left else OutputEvent("end"))

    return Agent().add_action("start", [InputEvent], start).add_action("slow", [Slow], slow)


def test_a_callback_over_its_time_budget_yields_and_goes_on_without_new_input():
    clock, log = VirtualClock(), []
    harness = AgentHarness(busy_agent(clock, log), clock=clock)
    harness.feed("a", 1)
    seen = len(log)
    assert seen <= 3
    assert harness.engine.has_work
    assert harness.next_due_ms() == clock.now_ms()
    while harness.outputs == []:
        assert harness.step()
        assert len(log) - seen <= 2  # a step, and what it brings
        seen = len(log)
    assert harness.outputs == ["end"]
    assert log == [("start", 1)] + [("slow", left) for left in (5, 4, 3, 2, 1, 0)]


def test_a_run_that_yielded_survives_a_crash():
    clock, log = VirtualClock(), []
    harness = AgentHarness(busy_agent(clock, log), clock=clock)
    harness.feed("a", 1)
    restart(harness)
    harness.run()
    assert harness.outputs == ["end"]
    assert log.count(("start", 1)) == 1


def test_waiting_inputs_behind_a_run_share_its_time_budget():
    clock, log = VirtualClock(), []

    async def act(event, ctx):
        if event.input == "wait":
            await ctx.durable_execute_async(fetch, 1)
        clock.budget_used_s += 0.06
        log.append(event.input)  # and sends nothing: between two runs there is no event at which to look at the clock

    harness = AgentHarness(agent_of(act), clock=clock)
    harness.feed("a", "wait")
    for number in range(10):
        harness.feed("a", number)
    harness.calls[0].complete()
    assert len(log) <= 2
    restart(harness)
    harness.run()
    assert log == ["wait", *range(10)]


def test_other_keys_get_their_turn_while_one_is_over_budget():
    clock, log = VirtualClock(), []
    harness = AgentHarness(busy_agent(clock, log), clock=clock)
    harness.feed("a", 1)
    harness.feed("b", 2)
    harness.run()
    firsts = [entry for entry in log if entry[0] == "start"]
    assert firsts == [("start", 1), ("start", 2)]
    assert log.index(("start", 2)) < len(log) - 6  # b began before a was through
    assert sorted(harness.keyed_outputs) == [("a", "end"), ("b", "end")]


# --- delivery -------------------------------------------------------------------------------------------------------


def test_an_annotated_event_is_delivered_as_its_class_however_it_was_sent():
    seen = []

    def send(event, ctx):
        ctx.send_event(Scored(score=0.5))
        ctx.send_event(Event(type=Scored.EVENT_TYPE, attributes={"score": 1, "extra": "kept"}))

    def use(event: Scored, ctx):
        seen.append((type(event), event.score, event.get_attr("extra")))

    AgentHarness(Agent().add_action("send", [InputEvent], send).add_action("use", [Scored], use)).feed("a", 1)
    assert seen == [(Scored, 0.5, None), (Scored, 1.0, "kept")]


def test_an_event_that_does_not_fit_the_annotation_fails_the_action_and_names_the_field():
    def send(event, ctx):
        ctx.send_event(Event(type=Scored.EVENT_TYPE, attributes={"score": "high"}))

    def use(event: Scored, ctx):
        raise AssertionError("never reached")

    harness = AgentHarness(Agent().add_action("send", [InputEvent], send).add_action("use", [Scored], use))
    with pytest.raises(ActionFailedError, match="score") as caught:
        harness.feed("a", 1)
    assert isinstance(caught.value.__cause__, DecodeError)


def test_an_action_without_annotation_gets_the_same_class_before_and_after_a_restore():
    class Local(Event):
        score: float

    seen = []

    def send(event, ctx):
        ctx.send_event(Local(score=0.5))
        ctx.send_event(Scored(score=1.5))

    async def use(event, ctx):
        seen.append((type(event), event.score))
        await ctx.durable_execute_async(fetch, 1)

    agent = Agent().add_action("send", [InputEvent], send).add_action("use", [Local, Scored], use)
    harness = AgentHarness(agent)
    harness.feed("a", 1)
    before = seen.copy()
    seen.clear()
    restart(harness)
    assert seen == before == [(Local, 0.5), (Scored, 1.5)]


def test_an_event_nobody_listens_to_is_counted_and_said_once_per_type(caplog):
    def send(event, ctx):
        ctx.send_event(Event(type="stray"))
        ctx.send_event(Event(type="stray"))
        ctx.send_event(Event(type="lost"))

    harness = AgentHarness(agent_of(send))
    with caplog.at_level(logging.WARNING, "flink_agents_py.engine"):
        harness.feed("a", 1)
        harness.feed("b", 1)
    assert harness.stats.unhandled == 6
    assert len([record for record in caplog.records if "'stray'" in record.getMessage()]) == 1
    assert len([record for record in caplog.records if "'lost'" in record.getMessage()]) == 1


def test_context_tells_key_sequence_timestamp_and_watermark_of_the_input():
    seen = []

    async def act(event, ctx):
        seen.append((ctx.key, ctx.sequence, ctx.timestamp, ctx.watermark))
        if event.input == "wait":
            await ctx.durable_execute_async(fetch, 1)

    harness = AgentHarness(agent_of(act))
    harness.feed("a", "wait", 10, 5)
    harness.feed("a", "x", 20, 15)
    harness.feed("b", "x")
    restart(harness)
    finish_all(harness)
    assert seen == [("a", 1, 10, 5), ("b", 1, None, None), ("a", 1, 10, 5), ("a", 2, 20, 15)]
