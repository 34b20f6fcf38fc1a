"""Hosts whose timers a restore loses: unfinished keys are listed in keyed state, and resumed from there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flink_agents_py.engine.segments import NO_WATERMARK
from flink_agents_py.events import OutputEvent
from flink_agents_py.testing import AgentHarness, Scenario, crash_everywhere
from tests.support.agents import agent_of
from tests.support.stores import in_memory


async def fetch(number):
    return number


async def twice(event, ctx):
    first = await ctx.durable_execute_async(fetch, event.input)
    await ctx.sleep(0.05)
    ctx.send_event(OutputEvent(first + await ctx.durable_execute_async(fetch, event.input)))


def harness_of(**options):
    return AgentHarness(agent_of(twice), timers_survive=False, **options)


def listed(harness):
    return [key for entries in harness.snapshot().state["agent.unfinished"].values() for key in entries]


def test_a_restored_run_goes_on_without_timers_and_without_new_input():
    harness = harness_of(latency=0.1)
    harness.feed("a", 1)
    harness.feed("a", 2)
    harness.feed("bb", 3)
    snapshot = harness.snapshot()
    harness.restore(snapshot)
    harness.run()
    assert sorted(harness.outputs) == [2, 4, 6]


def test_without_the_list_it_would_not():
    harness = harness_of(latency=0.1)
    harness.feed("a", 1)
    snapshot = harness.snapshot()
    snapshot.state["agent.unfinished"].clear()
    harness.restore(snapshot)
    with pytest.raises(AssertionError, match="waits for nothing that will ever happen"):
        harness.run()


def test_keys_are_listed_while_they_are_unfinished_only():
    harness = harness_of(latency=0.1)
    for key in ("a", "bb", ("c", 1), 4, b"five"):
        harness.feed(key, 1)
    assert len(listed(harness)) == 5
    harness.run()
    assert listed(harness) == []


def test_a_run_that_ends_in_its_first_callback_is_never_listed():
    harness = AgentHarness(agent_of(lambda event, ctx: ctx.send_event(OutputEvent(event.input))), timers_survive=False)
    harness.feed("a", 1)
    assert listed(harness) == []
    assert harness.outputs == [1]


def test_the_end_of_input_finishes_what_was_restored():
    harness = harness_of(latency=0.1)
    harness.feed("a", 1)
    harness.feed("bb", 2)
    harness.restore(harness.snapshot())
    harness.end_of_input()
    assert sorted(harness.outputs) == [2, 4]


def test_nothing_is_released_until_all_lists_have_been_read():
    harness = harness_of(event_time=True)
    while harness.waits_for_resumed:
        harness.step()
    harness.feed("a", 1, timestamp=5)
    harness.restore(harness.snapshot())
    harness.advance_watermark(10)
    assert harness.waits_for_resumed
    assert harness.released_watermark == NO_WATERMARK
    while harness.waits_for_resumed:
        harness.step()
    harness.advance_watermark(11)
    assert harness.released_watermark == NO_WATERMARK  # the run came before it
    harness.calls[0].run()
    harness.advance(0.1)
    harness.calls[0].run()
    harness.advance_watermark(12)
    assert harness.released_watermark == 12


INPUTS = [("a", 1), ("bb", 2), ("a", 3), ("a", 4), ("bb", 5)]


@pytest.mark.parametrize("event_time", [False, True], ids=["without event time", "with event time"])
def test_a_crash_anywhere_changes_nothing(event_time):
    scenario = Scenario(lambda: agent_of(twice), INPUTS, event_time=event_time, timers_survive=False)
    report = crash_everywhere(scenario, depth=4)
    assert report.points > 3 * report.steps
    crash_everywhere(scenario, depth=2, crashes=3, sample=40)
    crash_everywhere(replace(scenario, store=in_memory), depth=6, crashes=2, sample=40)
