"""An attempt that a restart interrupted is made again, and counts once however many restarts there are."""

from __future__ import annotations

from flink_agents_py import Agent, InputEvent, OutputEvent, RetryPolicy, action
from flink_agents_py.testing import AgentHarness


def hang() -> None:
    """Is left in flight."""


def fail() -> None:
    """Is failed by the test."""


class Both(Agent):
    @action(InputEvent)
    @staticmethod
    async def go(event, ctx):
        retry = RetryPolicy(max_attempts=2, initial=0.1)
        calls = ctx.durable_execute_async(hang), ctx.durable_execute_async(fail, retry=retry)
        made = await ctx.gather(*calls, return_exceptions=True)
        ctx.send_event(OutputEvent([type(each).__name__ for each in made]))


def restart(harness, max_in_flight):
    snapshot = harness.snapshot()
    harness.upgrade(Both(), {"max-in-flight": max_in_flight})
    harness.restore(snapshot)
    harness.advance(30)


def named(harness, name):
    (call,) = [call for call in harness.calls if call.name == name]
    return call


def test_an_interrupted_attempt_that_waits_for_its_place_is_not_given_back_by_the_next_restart():
    harness = AgentHarness(Both())
    harness.feed("k", 1)
    named(harness, "fail").fail(ValueError("first"))
    harness.advance(1)
    assert len(harness.calls) == 2  # the second attempt is in flight
    restart(harness, max_in_flight=1)
    assert [call.name for call in harness.calls] == ["hang"]  # and now waits behind the other call
    restart(harness, max_in_flight=2)
    named(harness, "fail").fail(ValueError("second"))
    harness.advance(10)
    assert [call.name for call in harness.calls] == ["hang"]
    named(harness, "hang").complete()
    assert harness.outputs == [["NoneType", "ValueError"]]
