"""Crashes: what was done is not done again, what is in doubt is asked about or repeated with the same key."""

from __future__ import annotations

from collections import Counter

import pytest

from flink_agents_py import Agent, InputEvent, OutputEvent, action
from flink_agents_py.external import (
    ActionFailedEvent,
    ActionRegistry,
    ActionRetry,
    ActionSpec,
    BusinessRejected,
    BusinessRetryable,
    NotExecuted,
)
from flink_agents_py.testing import Scenario, crash_everywhere
from tests.external.kit import Caller, Tracing, harness, letters, one, results
from tests.support.stores import in_memory


class Asked:
    """A handler that can be asked what became of a call."""

    def __init__(self, answer):
        self.answer = answer
        self.log = []

    async def handle(self, call, session):
        self.log.append("handle")
        return "made"

    async def reconcile(self, call, session):
        self.log.append("reconcile")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def crashed_in_flight(handler, spec=None):
    agent = harness(one(spec, handler))
    agent.feed("k", 1)
    (call,) = agent.calls
    agent.restore(agent.snapshot())
    agent.advance(30)
    (again,) = agent.calls
    assert again.idempotency_key == call.idempotency_key
    return agent, again


@pytest.mark.parametrize(
    ("answer", "log", "code", "value"),
    [
        ("it was done", ["reconcile"], "SUCCESS", "it was done"),
        (NotExecuted(), ["reconcile", "handle"], "SUCCESS", "made"),
        (BusinessRejected("no"), ["reconcile"], "BUSINESS_REJECTED", None),
    ],
)
def test_a_call_in_doubt_is_asked_about(answer, log, code, value):
    handler = Asked(answer)
    agent, call = crashed_in_flight(handler)
    call.run()
    assert handler.log == log
    assert agent.outputs == [code]
    (result,) = results(agent)
    assert (result["value"], result["attempts"]) == (value, 1)
    assert agent.stats.reconciled == 1


def test_a_call_that_waited_for_its_next_attempt_is_not_in_doubt():
    handler = Asked("never asked")
    agent = harness(one(handler=handler))
    agent.feed("k", 1)
    agent.calls[0].fail(BusinessRetryable("busy", retry_after=20))
    agent.restore(agent.snapshot())
    agent.advance(40)
    agent.calls[0].run()
    assert handler.log == ["handle"]
    (result,) = results(agent)
    assert result["attempts"] == 2
    assert [error["message"] for error in result["errors"]] == ["busy"]


def test_asking_that_fails_for_now_is_followed_by_the_call():
    handler = Asked(BusinessRetryable("busy"))
    agent, call = crashed_in_flight(handler)
    call.run()
    agent.advance(5)
    agent.calls[0].run()
    assert handler.log == ["reconcile", "handle"]


def test_a_dead_letter_after_a_restart_knows_the_attempts_before_it():
    spec = ActionSpec(name="do", retry=ActionRetry(max_attempts=2))
    agent = harness(one(spec))
    agent.feed("k", 1)
    agent.calls[0].fail(BusinessRetryable("first"))
    agent.restore(agent.snapshot())
    agent.advance(30)
    agent.calls[0].fail(BusinessRetryable("second"))
    (letter,) = letters(agent)
    assert [error["message"] for error in letter["errors"]] == ["first", "second"]


def test_calls_that_waited_for_their_turn_are_made_after_a_restart_even_if_the_queue_is_smaller_now():
    class Fan(Caller):
        @action(InputEvent)
        @staticmethod
        async def go(event, ctx):
            made = await ctx.gather(*(ctx.call("do", {"n": number}) for number in range(8)))
            ctx.send_event(OutputEvent(Counter(result.code for result in made)))

    agent = harness(one(ActionSpec(name="do", max_concurrent=1, max_queued=10)), Fan, latency=0.1)
    agent.feed("k", 1)
    before = agent.snapshot()
    agent.upgrade(Fan(one(ActionSpec(name="do", max_concurrent=1, max_queued=2))))
    agent.restore(before)
    agent.run()
    assert agent.outputs == [{"SUCCESS": 8}]


def test_an_action_taken_out_of_the_registry_ends_calls_that_were_in_flight():
    agent = harness(one())
    agent.feed("k", 1)
    before = agent.snapshot()
    agent.upgrade(Caller(ActionRegistry()))
    agent.restore(before)
    agent.advance(30)
    assert agent.outputs == ["UNKNOWN_ACTION"]
    assert letters(agent)[0]["phase"] == "execute"


def test_a_savepoint_from_before_there_were_external_actions_restores():
    agent = harness(one(), Tracing, latency=0.1)
    before = agent.snapshot()
    for name in ("agent.idem", "agent.audit"):
        del before.state[name]
    agent.restore(before)
    agent.feed("k", 1)
    agent.run()
    assert agent.outputs == [("SUCCESS", False)]


def test_a_success_is_remembered_across_a_restart_and_forgotten_in_time():
    agent = harness(one(ActionSpec(name="do", idempotency_ttl_s=60)), Tracing, latency=0.1)
    agent.feed("k", 1)
    agent.run()
    agent.restore(agent.snapshot())
    agent.feed("k", 1)
    agent.run()
    assert agent.outputs[-1] == ("SUCCESS", True)
    agent.advance(80)
    assert "agent.idem" not in agent.state_of("k")


# --- crashes everywhere ---------------------------------------------------------------------------------------------


def flaky(call, session):
    """Fails by content and attempt alone, so that a crash makes no difference."""
    number = call.params["n"]
    if number % 3 == 1 and session.attempt < 2:
        raise BusinessRetryable("busy")
    if number % 3 == 2:
        raise BusinessRejected("no")
    return {"n": number}


class Busy(Agent):
    """Two calls at a time, one of them the same in each run of a key; decides on failures with another call."""

    def __init__(self) -> None:
        super().__init__()
        spec = ActionSpec(
            name="do", max_concurrent=2, rate_per_s=40, retry=ActionRetry(max_attempts=2, initial=0.1), max_queued=50
        )
        self.add_action_registry(ActionRegistry().register(spec, flaky))

    @action(InputEvent)
    @staticmethod
    async def go(event, ctx):
        made = await ctx.gather(
            ctx.call("do", {"n": event.input}),
            ctx.call("do", {"n": 0}, trace_id=ctx.key),
            ctx.call("nothing"),
        )
        last = await ctx.call("do", {"n": event.input + 3})
        ctx.send_event(OutputEvent([result.code for result in (*made, last)]))

    @action(ActionFailedEvent)
    @staticmethod
    async def decide(event, ctx):
        if event.failed.code == "BUSINESS_REJECTED":
            other = await ctx.call("do", {"n": event.failed.call.params["n"] * 3})
            ctx.send_event(OutputEvent(other.value))


INPUTS = [("a", 1), ("b", 2), ("a", 2), ("a", 3)]


@pytest.mark.parametrize("store", [None, in_memory])
def test_nothing_depends_on_crashes_and_no_deed_is_repeated_once_its_result_is_recorded(store):
    report = crash_everywhere(
        Scenario(Busy, INPUTS, store=store, config={"pump-interval": 50}, ordered=False), depth=4, sample=40
    )
    assert report.points == 40
    assert report.replayed_calls > 0
    if store is None:
        assert report.repeated_calls > 0


def test_crashes_during_recovery_make_no_difference_either():
    report = crash_everywhere(Scenario(Busy, INPUTS[:2], config={"pump-interval": 50}, ordered=False), crashes=3)
    assert report.points > 40


@pytest.mark.parametrize("store", [None, in_memory])
def test_a_deed_of_a_trace_is_done_once_over_runs_and_crashes(store):
    made = Counter()

    def count(call, session):
        made[call.idempotency_key] += 1

    def agent():
        return Tracing(one(ActionSpec(name="do"), count))

    crash_everywhere(Scenario(agent, [("t", 1), ("t", 1), ("u", 1), ("t", 2)], store=store, reset=made.clear), depth=1)
    assert set(made.values()) <= {1, 2}
