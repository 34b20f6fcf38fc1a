"""Watermarks on the engine: held by unfinished inputs, by nothing else, and no coarser after a crash (S10)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_agents_py.engine.segments import NO_WATERMARK
from flink_agents_py.events import OutputEvent
from flink_agents_py.testing import AgentHarness, Scenario, crash_everywhere
from tests.support.agents import agent_of, finish_all


async def fetch(number):
    return number


async def slow(event, ctx):
    number = await ctx.durable_execute_async(fetch, event.input)
    ctx.side_output("told", number)
    ctx.send_event(OutputEvent(number))


def fast(event, ctx):
    ctx.send_event(OutputEvent(event.input))


def harness_of(action=slow, config=None):
    return AgentHarness(agent_of(action), config, event_time=True)


def test_a_watermark_waits_for_the_inputs_before_it():
    harness = harness_of()
    harness.feed("a", 1, timestamp=5)
    harness.advance_watermark(10)
    assert harness.released_watermark == NO_WATERMARK
    harness.calls[0].run()
    assert harness.released_watermarks == [10]


def test_fast_inputs_hold_nothing():
    harness = harness_of(fast)
    for number in range(1, 5):
        harness.feed("a", number, timestamp=number)
        harness.advance_watermark(number)
    assert harness.released_watermarks == [1, 2, 3, 4]


def test_an_input_waiting_for_its_key_holds_its_own_watermark_only():
    harness = harness_of()
    harness.advance_watermark(10)
    harness.feed("a", 1, timestamp=15)
    harness.advance_watermark(20)
    harness.feed("a", 2, timestamp=25)  # waits for the first
    harness.advance_watermark(30)
    assert harness.released_watermark == 10
    harness.calls[0].run()
    assert harness.released_watermark == 20
    harness.calls[0].run()
    assert harness.released_watermarks == [10, 20, 30]


def test_another_key_goes_on_and_is_not_released_before_the_slow_one():
    harness = harness_of()
    harness.feed("slow", 1, timestamp=5)
    harness.advance_watermark(10)
    harness.feed("quick", 2, timestamp=15)
    harness.advance_watermark(20)
    harness.calls[1].run()
    assert harness.outputs == [2]
    assert harness.released_watermark == NO_WATERMARK
    harness.calls[0].run()
    assert harness.released_watermarks == [20]


def test_after_a_restore_nothing_is_released_before_every_run_has_been_resumed():
    harness = harness_of()
    harness.feed("slow", 1, timestamp=5)
    harness.advance_watermark(10)
    harness.restore(harness.snapshot())
    harness.advance_watermark(20)
    assert harness.waits_for_resumed
    assert harness.released_watermark == NO_WATERMARK
    harness.advance(10)
    assert not harness.waits_for_resumed
    assert harness.released_watermark == NO_WATERMARK  # resumed and counted, and still unfinished
    harness.calls[0].run()
    assert harness.released_watermark == 20


def test_boundaries_are_as_fine_after_a_restore_as_before():
    harness = harness_of()
    for number in (1, 2, 3):
        harness.feed(f"key {number}", number, timestamp=number * 10 - 5)
        harness.advance_watermark(number * 10)
    harness.restore(harness.snapshot())
    harness.advance(10)
    harness.advance_watermark(40)
    for call in sorted(harness.calls, key=lambda call: call.args[0]):
        call.run()
    assert harness.released_watermarks == [10, 20, 40]


def test_where_nothing_was_unfinished_the_gate_opens_all_the_same():
    harness = harness_of(fast)
    harness.feed("a", 1, timestamp=5)
    harness.advance_watermark(10)
    harness.restore(harness.snapshot())
    harness.advance_watermark(20)
    harness.advance(10)
    assert harness.released_watermarks == [10, 20]


def test_an_input_that_was_late_already_is_let_through():
    harness = harness_of()
    harness.advance_watermark(10)
    harness.feed("a", 1, timestamp=5)
    harness.calls[0].run()
    assert harness.outputs == [1]


def test_a_harness_without_event_time_says_so():
    with pytest.raises(ValueError, match="event_time=True"):
        AgentHarness(agent_of(fast)).advance_watermark(1)


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), st.integers(0, 3)),
        st.tuples(st.just("watermark"), st.integers(1, 5)),
        st.tuples(st.just("finish"), st.integers(0, 20)),
        st.tuples(st.just("wait"), st.integers(1, 3)),
        st.tuples(st.just("crash"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(MOVES)
def test_any_interleaving_releases_exactly_what_is_due(moves):
    """The harness itself refuses an output behind a watermark that has passed it."""
    harness = harness_of()
    fed = watermark = 0
    for move, number in moves:
        if move == "feed":
            fed += 1
            harness.feed(f"key {number}", fed, timestamp=watermark + 1)
        elif move == "watermark":
            watermark += number
            harness.advance_watermark(watermark)
        elif move == "finish" and harness.calls:
            harness.calls[number % len(harness.calls)].run()
        elif move == "wait":
            harness.advance(number)
        elif move == "crash":
            harness.restore(harness.snapshot())
        allowed = min([harness.watermark, *harness.arrivals_of_unfinished()])
        assert harness.released_watermark <= allowed
        if not harness.waits_for_resumed:
            assert harness.released_watermark == allowed
    harness.advance(10)
    finish_all(harness)
    watermark += 1
    harness.advance_watermark(watermark)
    assert sorted(harness.outputs) == list(range(1, fed + 1))
    assert harness.released_watermark == watermark


def test_crashes_at_every_step_release_nothing_early_and_nothing_coarser():
    inputs = [(f"key {number % 3}", number) for number in range(8)]
    report = crash_everywhere(Scenario(lambda: agent_of(slow), inputs, event_time=True))
    assert report.points > 50
