"""Attempts, timeouts and sleeps, under the virtual clock and across restarts (S8)."""

from __future__ import annotations

import pytest

from flink_agents_py.errors import CallTimeoutError
from flink_agents_py.events import OutputEvent
from flink_agents_py.policies import RetryPolicy, Timeouts
from flink_agents_py.testing import AgentHarness, PendingCall
from tests.support.agents import LONG_S, agent_of, restart

STEADY = RetryPolicy(max_attempts=4, initial=1, factor=2, maximum=3, jitter=0)


def fetch(x):
    return x


async def fetch_async(x):
    return x


class LimitedError(Exception):
    def __init__(self, retry_after):
        super().__init__("slow down")
        self.retry_after = retry_after


class ResponseError(Exception):
    def __init__(self, **headers):
        super().__init__("slow down")
        self.response = type("Response", (), {"headers": {k.replace("_", "-"): v for k, v in headers.items()}})()


class HostileError(Exception):
    @property
    def response(self):
        raise RuntimeError("not read yet")


class ListedError(Exception):
    response = type("Response", (), {"headers": [("retry-after", "9")]})()


def calling(func=fetch, **options):
    async def act(event, ctx):
        try:
            ctx.send_event(OutputEvent(await ctx.durable_execute_async(func, 1, **options)))
        except Exception as error:  # noqa: BLE001
            ctx.send_event(OutputEvent(type(error).__name__))

    return agent_of(act)


def start(**options) -> AgentHarness:
    harness = AgentHarness(calling(**options))
    harness.feed("a", 1)
    return harness


def seconds_until_call(harness: AgentHarness, limit_s: float = 100) -> float:
    """How long it takes until an attempt is made."""
    before = harness.clock.now_ms()
    while not harness.calls:
        assert harness.clock.now_ms() - before < limit_s * 1000
        assert harness.step()
    return (harness.clock.now_ms() - before) / 1000


def test_attempts_back_off_exponentially_up_to_the_maximum_and_end_with_the_last_error():
    harness = start(retry=STEADY)
    waits = []
    for _ in range(3):
        harness.calls[0].fail(ValueError("again"))
        waits.append(seconds_until_call(harness))
    harness.calls[0].fail(LookupError("last"))
    assert waits == [1, 2, 3]
    assert harness.outputs == ["LookupError"]
    assert harness.stats.retries == 3
    assert harness.stats.attempts == 4
    assert harness.calls == []


def test_a_later_attempt_may_succeed():
    harness = start(retry=STEADY)
    harness.calls[0].fail(ValueError())
    seconds_until_call(harness)
    harness.calls[0].run()
    assert harness.outputs == [1]


def test_without_a_policy_there_is_one_attempt_and_the_action_may_set_the_default():
    harness = start()
    harness.calls[0].fail(ValueError())
    assert harness.outputs == ["ValueError"]

    async def act(event, ctx):
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, 1)))

    harness = AgentHarness(agent_of(act, retry=STEADY))
    harness.feed("a", 1)
    harness.calls[0].fail(ValueError())
    assert seconds_until_call(harness) == 1


def test_errors_of_the_wrong_class_are_not_retried():
    harness = start(retry=STEADY.model_copy(update={"retry_on": ("OSError",), "give_up_on": ("FileNotFoundError",)}))
    harness.calls[0].fail(ConnectionError())  # a subclass
    seconds_until_call(harness)
    harness.calls[0].fail(FileNotFoundError())
    assert harness.outputs == ["FileNotFoundError"]


def test_jitter_is_drawn_from_the_call_id_so_that_a_replay_waits_as_long():
    policy = RetryPolicy(max_attempts=2, initial=10, jitter=1)

    def wait(key, *, crash=False):
        harness = AgentHarness(calling(retry=policy))
        harness.feed(key, 1)
        snapshot = harness.snapshot()
        if crash:
            harness.restore(snapshot)
            harness.advance(LONG_S)
        harness.calls[0].fail(ValueError())
        return seconds_until_call(harness)

    waits = {key: wait(key) for key in "abcdef"}
    assert all(10 <= seconds <= 20 for seconds in waits.values())
    assert len(set(waits.values())) == 6
    assert wait("a", crash=True) == waits["a"]


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (LimitedError(7), 7),
        (LimitedError("7.5"), 7.5),
        (LimitedError(0.1), 1),  # the policy's own delay is longer
        (LimitedError("tomorrow"), 1),
        (LimitedError(-5), 1),
        (LimitedError(float("inf")), 1),
        (LimitedError(10**400), 1),
        (HostileError(), 1),
        (ListedError(), 1),
        (ResponseError(retry_after="9"), 9),
        (ResponseError(Retry_After="9"), 9),
        (ResponseError(retry_after_ms="2500"), 2.5),
        (ResponseError(retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), 1),
    ],
)
def test_an_error_may_ask_for_a_longer_wait(error, seconds):
    harness = start(retry=STEADY)
    harness.calls[0].fail(error)
    assert seconds_until_call(harness) == seconds


def test_the_retry_budget_survives_restarts_in_backoff_and_in_flight():
    harness = start(retry=STEADY)
    harness.calls[0].fail(ValueError())
    restart(harness)  # in backoff: one attempt used
    assert len(harness.calls) == 1
    restart(harness)  # in flight: made again, not used up
    for _ in range(2):
        harness.calls[0].fail(ValueError())
        seconds_until_call(harness)
        restart(harness)
    harness.calls[0].fail(LookupError())
    assert harness.outputs == ["LookupError"]


def test_a_backoff_is_not_started_anew_by_a_restart():
    harness = start(retry=STEADY.model_copy(update={"initial": 60.0, "maximum": 60.0}))
    harness.calls[0].fail(ValueError())
    due = harness.clock.now_ms() + 60_000
    harness.advance(20)
    harness.restore(harness.snapshot())
    harness.advance(25)
    assert harness.calls == []
    seconds_until_call(harness)
    assert harness.clock.now_ms() == due


# --- timeouts -------------------------------------------------------------------------------------------------------


def test_a_total_timeout_ends_the_call_and_names_it():
    harness = start(timeouts=5)
    call = harness.calls[0]
    harness.advance(4.999)
    assert harness.outputs == []
    harness.advance(0.001)
    assert harness.outputs == ["CallTimeoutError"]
    assert harness.stats.timeouts == 1
    assert call.cancelled


def test_a_timeout_error_is_recorded_and_replayed():
    seen = []

    async def act(event, ctx):
        try:
            await ctx.durable_execute_async(fetch, 1, timeouts=5)
        except CallTimeoutError as error:
            seen.append(str(error))
        await ctx.durable_execute_async(fetch, 2)

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    harness.advance(5)
    restart(harness)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert "total timeout of 5 s" in seen[0]
    assert ":fetch" in seen[0]
    assert [call.args for call in harness.calls] == [(2,)]


def test_an_attempt_timeout_is_worth_another_attempt():
    harness = start(func=fetch_async, timeouts=Timeouts(attempt=5), retry=STEADY)
    harness.advance(5)
    assert harness.calls == []
    assert seconds_until_call(harness) == 1
    harness.calls[0].run()
    assert harness.outputs == [1]
    assert (harness.stats.timeouts, harness.stats.retries) == (1, 1)


def test_the_last_attempt_timeout_is_the_outcome():
    harness = start(func=fetch_async, timeouts=Timeouts(attempt=5), retry=STEADY)
    harness.advance(5 + 1 + 5 + 2 + 5 + 3 + 5)
    assert harness.outputs == ["CallTimeoutError"]
    assert harness.stats.attempts == 4


def test_the_total_timeout_covers_attempts_and_waits():
    harness = start(timeouts=Timeouts(total=10), retry=STEADY.model_copy(update={"max_attempts": 99}))
    began = harness.clock.now_ms()
    while not harness.outputs:
        if harness.calls:
            harness.calls[0].fail(ValueError())
        else:
            harness.step()
    # Attempts at 0, 1, 3, 6, 9; the next would come at 12, too late: the error is reported at once.
    assert harness.stats.attempts == 5
    assert harness.outputs == ["ValueError"]
    assert harness.clock.now_ms() - began == 9_000


def test_the_total_timeout_covers_queueing():
    async def act(event, ctx):
        try:
            await ctx.durable_execute_async(fetch_async, event.input, timeouts=5)
        except CallTimeoutError:
            ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(agent_of(act), {"max-in-flight": 1})
    harness.feed("a", 1)
    harness._store.switch("b")
    harness.engine.process("b", 2)  # past feed(), which would wait for a free place
    assert [call.args for call in harness.calls] == [(1,)]
    harness.advance(5)
    assert sorted(harness.outputs) == [1, 2]
    assert harness.stats.attempts == 1  # the queued one was never made


def test_a_total_deadline_survives_restarts_and_no_attempt_is_made_after_it():
    made: list[PendingCall] = []
    harness = AgentHarness(calling(timeouts=20), before_call=made.append)
    harness.feed("a", 1)
    harness.advance(15)
    harness.restore(harness.snapshot())
    harness.clock.advance_to(harness.clock.now_ms() + 6_000)  # the job was down meanwhile
    harness._executor._latency = lambda call: 0.1
    harness.advance(LONG_S)
    assert harness.outputs == ["CallTimeoutError"]
    assert made == []


def test_no_attempt_follows_a_backoff_that_ended_after_the_deadline():
    # The timers of the retry and of the deadline are both overdue when the operator gets to look at them.
    harness = start(timeouts=5, retry=STEADY.model_copy(update={"initial": 3.0, "maximum": 3.0}))
    harness.calls[0].fail(ValueError())
    harness.clock.advance_to(harness.clock.now_ms() + 10_000)
    harness.pump()
    assert harness.outputs == ["CallTimeoutError"]
    assert harness.stats.attempts == 1


def test_no_attempt_is_made_after_the_action_ended():
    async def act(event, ctx):
        ctx.durable_execute_async(fetch, "left", retry=STEADY)
        await ctx.sleep(10)

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    harness.advance(9.5)
    harness.calls[0].fail(ValueError())  # the next attempt would be at 10.5
    harness.advance(LONG_S)
    assert harness.idle
    assert harness.calls == []
    assert harness.stats.attempts == 1


@pytest.mark.parametrize("late", ["complete", "fail"])
def test_a_completion_after_the_timeout_is_ignored_and_frees_its_place_only_then(late):
    async def act(event, ctx):
        try:
            ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, event.input, timeouts=5)))
        except CallTimeoutError:
            ctx.send_event(OutputEvent("timeout"))

    harness = AgentHarness(agent_of(act), {"max-in-flight": 1})
    harness.feed("a", 1)
    hanging = harness.calls[0]
    harness.advance(5)
    assert harness.outputs == ["timeout"]
    assert harness.idle
    harness._store.switch("b")
    harness.engine.process("b", 2)
    harness.pump()
    assert harness.calls == []  # the thread of the first one is still busy
    hanging.complete("late") if late == "complete" else hanging.fail(ValueError())
    (call,) = harness.calls
    call.run()
    assert harness.outputs == ["timeout", 2]
    assert harness.stats.in_flight_max == 1


def test_a_late_completion_of_an_attempt_is_not_taken_for_that_of_the_next():
    harness = start(timeouts=Timeouts(attempt=5), retry=STEADY)
    first = harness.calls[0]
    harness.advance(5)
    seconds_until_call(harness)
    first.complete("late")
    assert harness.outputs == []
    harness.calls[0].complete("second")
    assert harness.outputs == ["second"]


# --- sleep ----------------------------------------------------------------------------------------------------------


def sleeping(seconds):
    async def act(event, ctx):
        await ctx.sleep(seconds)
        ctx.send_event(OutputEvent("awake"))

    return agent_of(act)


def test_a_sleep_ends_on_time_without_input():
    harness = AgentHarness(sleeping(2.5))
    harness.feed("a", 1)
    harness.advance(2.499)
    assert harness.outputs == []
    harness.advance(0.001)
    assert harness.outputs == ["awake"]


@pytest.mark.parametrize("crashes", [1, 3])
def test_a_sleep_is_not_started_anew_by_restarts(crashes):
    harness = AgentHarness(sleeping(100))
    harness.feed("a", 1)
    due = harness.clock.now_ms() + 100_000
    for _ in range(crashes):
        harness.advance(30)
        harness.restore(harness.snapshot())
    while not harness.outputs:
        harness.step()
    assert harness.clock.now_ms() == due


def test_a_sleep_that_ended_while_the_job_was_down_is_over():
    harness = AgentHarness(sleeping(100))
    harness.feed("a", 1)
    harness.restore(harness.snapshot())
    harness.clock.advance_to(harness.clock.now_ms() + 200_000)
    harness.step()
    assert harness.outputs == ["awake"]


def test_sleeps_run_beside_calls():
    async def act(event, ctx):
        ctx.send_event(OutputEvent(await ctx.gather(ctx.sleep(5), ctx.durable_execute_async(fetch, 1))))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    harness.calls[0].run()
    harness.advance(5)
    assert harness.outputs == [[None, 1]]
