"""Failures of attempts: their codes, what is tried again, and when."""

from __future__ import annotations

import socket

import pytest

from flink_agents_py.external import (
    ActionCode,
    ActionError,
    ActionRetry,
    ActionSpec,
    ActionTimeouts,
    BusinessRejected,
    BusinessRetryable,
    ConnectTimeout,
    NetworkUnavailable,
    ReadTimeout,
)
from tests.external.kit import harness, letters, one, results


class Script:
    """Raises what it was given, one a call, and notes when."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.clock = None
        self.at = []
        self.keys = []

    async def handle(self, call, session):
        self.at.append(self.clock.now_ms())
        self.keys.append((session.idempotency_key, session.attempt))
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return "done"

    def run(self, spec=None, latency=0.0):
        agent = harness(one(spec, self), latency=latency)
        self.clock = agent.clock
        agent.feed("k", 1)
        agent.run()
        return agent

    @property
    def waits(self):
        return [round((after - before) / 1000, 2) for before, after in zip(self.at, self.at[1:], strict=False)]


@pytest.mark.parametrize(
    ("error", "code", "attempts"),
    [
        (BusinessRejected("no"), "BUSINESS_REJECTED", 1),
        (BusinessRetryable("later"), "BUSINESS_RETRYABLE", 3),
        (NetworkUnavailable("refused"), "NETWORK_UNAVAILABLE", 3),
        (ConnectTimeout("3 s"), "TIMEOUT_CONNECT", 3),
        (ReadTimeout("30 s"), "TIMEOUT_READ", 3),
        (ConnectionResetError("reset"), "NETWORK_UNAVAILABLE", 3),
        (socket.gaierror(-2, "unknown name"), "NETWORK_UNAVAILABLE", 3),
        (TimeoutError(), "TIMEOUT_READ", 3),
        (KeyError("a bug"), "UNKNOWN", 1),
        (SystemExit(1), "UNKNOWN", 1),
        (ActionError("garbage"), "UNKNOWN", 1),
    ],
)
def test_each_failure_has_its_code_and_its_number_of_attempts(error, code, attempts):
    script = Script(error, error, error, error)
    agent = script.run()
    assert agent.outputs == [code]
    (letter,) = letters(agent)
    assert (letter["code"], letter["attempts"], len(letter["errors"])) == (code, attempts, attempts)
    assert letter["message"]


def test_attempts_wait_longer_each_time_with_jitter_and_one_key():
    script = Script(*[NetworkUnavailable("refused")] * 5)
    agent = script.run(ActionSpec(name="do", retry=ActionRetry(max_attempts=4)))
    first, second, third = script.waits
    assert 1.0 <= first <= 1.52
    assert 2.0 <= second <= 3.02
    assert 4.0 <= third <= 6.02
    assert len({key for key, _ in script.keys}) == 1
    assert [attempt for _, attempt in script.keys] == [1, 2, 3, 4]
    assert agent.outputs == ["NETWORK_UNAVAILABLE"]


def test_calls_that_failed_together_do_not_come_back_together():
    from flink_agents_py.external import ActionCall

    policy = ActionRetry().policy
    delays = {policy.delay_s(1, ActionCall("t", "do", {"n": n}).idempotency_key) for n in range(20)}
    assert len(delays) == 20
    assert all(1.0 <= delay <= 1.5 for delay in delays)


def test_what_the_target_asks_to_wait_is_waited_for():
    script = Script(BusinessRetryable("busy", retry_after=7))
    agent = script.run()
    (wait,) = script.waits
    assert 7.0 <= wait <= 7.02
    (result,) = results(agent)
    assert (result["code"], result["attempts"]) == ("SUCCESS", 2)
    assert [error["code"] for error in result["errors"]] == ["BUSINESS_RETRYABLE"]
    assert letters(agent) == []


def test_a_wait_beyond_the_total_timeout_ends_the_call_at_once():
    script = Script(BusinessRetryable("busy", retry_after=61))
    agent = script.run()
    assert agent.outputs == ["BUSINESS_RETRYABLE"]
    assert len(script.at) == 1
    assert letters(agent)[0]["failed_ms"] - letters(agent)[0]["started_ms"] < 100


def test_the_total_timeout_cuts_an_attempt_off_and_tells_of_those_before():
    script = Script(NetworkUnavailable("refused"))
    spec = ActionSpec(name="do", timeouts=ActionTimeouts(total=5))
    agent = script.run(spec, latency=lambda call: 0.1 if len(script.at) == 0 else 60.0)
    assert agent.outputs == ["TIMEOUT_TOTAL"]
    (letter,) = letters(agent)
    assert [error["code"] for error in letter["errors"]] == ["NETWORK_UNAVAILABLE", "TIMEOUT_TOTAL"]
    assert letter["attempts"] == 2
    assert 5000 <= letter["failed_ms"] - letter["started_ms"] <= 5020


def test_a_spec_says_which_codes_are_worth_another_attempt():
    spec = ActionSpec(name="do", retry=ActionRetry(on=(ActionCode.UNKNOWN,)))
    script = Script(KeyError("x"), NetworkUnavailable("refused"))
    agent = script.run(spec)
    assert agent.outputs == ["NETWORK_UNAVAILABLE"]
    assert len(script.at) == 2


def test_the_session_knows_what_is_left_of_the_total_timeout():
    left = []

    class Handler(Script):
        async def handle(self, call, session):
            left.append(session.remaining_s())
            return await super().handle(call, session)

    Handler(BusinessRetryable("busy", retry_after=10)).run()
    assert left[0] == pytest.approx(60, abs=1)
    assert left[1] == pytest.approx(50, abs=1)
