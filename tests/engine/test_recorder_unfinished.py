"""With an action state store: calls with an outcome are answered, whatever checkpoint is restored (S5, S9)."""

from __future__ import annotations

from collections import Counter

import pytest

from flink_agents_py.errors import ActionFailedError
from flink_agents_py.events import OutputEvent
from flink_agents_py.policies import RetryPolicy
from flink_agents_py.testing import AgentHarness
from flink_agents_py.testing.failpoints import failpoint
from tests.support.agents import LONG_S, agent_of, finish_all
from tests.support.recorded import fetch, replay, three_calls


@pytest.mark.parametrize("checkpoint", range(4))
@pytest.mark.parametrize("crash", range(4))
def test_calls_with_an_outcome_are_answered_whatever_checkpoint_is_restored(store, checkpoint, crash):
    made = Counter()
    harness = AgentHarness(three_calls(), store=store.open, before_call=lambda call: made.update([call.args]))
    snapshots = [harness.snapshot()]
    harness.feed("a", "x")
    for _ in range(crash):
        snapshots.append(harness.snapshot())
        harness.calls[0].run()
    at = min(checkpoint, crash)
    replay(harness, snapshots[at], *([("a", "x")] if at == 0 else []))
    assert harness.outputs == [["got ('x', 0)", "got ('x', 1)", "got ('x', 2)"]]
    assert set(made.values()) == {1}


def test_parallel_calls_keep_their_places_when_a_later_one_finished_first(store):
    async def act(event, ctx):
        ctx.send_event(OutputEvent(await ctx.gather(*(ctx.durable_execute_async(fetch, n) for n in range(3)))))

    made = Counter()
    harness = AgentHarness(agent_of(act), store=store.open, before_call=lambda call: made.update(call.args))
    beginning = harness.snapshot()
    harness.feed("a", 0)
    harness.calls[2].run()
    replay(harness, beginning, ("a", 0))
    assert harness.outputs == [["got 0", "got 1", "got 2"]]
    assert made == {0: 1, 1: 1, 2: 1}


def test_a_call_made_in_front_of_one_nobody_awaits_yet_is_not_repeated(store):
    async def act(event, ctx):
        later = ctx.durable_execute_async(fetch, "later")
        now = ctx.durable_execute(fetch, "now")
        ctx.send_event(OutputEvent([now, await later]))

    made = Counter()
    harness = AgentHarness(agent_of(act), store=store.open, before_call=lambda call: made.update(call.args))
    beginning = harness.snapshot()
    with failpoint("after-record", hits=2), pytest.raises(ActionFailedError):
        harness.feed("a", 0)
    assert made == {"now": 1}
    replay(harness, beginning, ("a", 0))
    assert made == {"now": 1, "later": 1}
    assert harness.outputs == [["got now", "got later"]]


def test_a_run_that_began_before_there_was_a_store_is_recorded_from_where_it_is(store):
    made = Counter()

    def before(call):
        made.update([call.args])

    without = AgentHarness(three_calls(), before_call=before)
    without.feed("a", "x")
    without.calls[0].run()
    savepoint = without.snapshot()

    harness = AgentHarness(three_calls(), store=store.open, before_call=before)
    harness.restore(savepoint)
    harness.advance(LONG_S)
    harness.calls[0].run()
    replay(harness, savepoint)
    assert harness.outputs == [["got ('x', 0)", "got ('x', 1)", "got ('x', 2)"]]
    assert set(made.values()) == {1}


def test_a_call_in_flight_is_made_again_with_its_key_or_reconciled(store):
    keys = []

    async def act(event, ctx):
        reconciler = (lambda: "reconciled") if event.input == "reconciler" else None
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, event.input, reconciler=reconciler)))

    harness = AgentHarness(
        agent_of(act), store=store.open, before_call=lambda call: keys.append((call.name, call.idempotency_key))
    )
    beginning = harness.snapshot()
    inputs = [("a", "plain"), ("b", "reconciler")]
    for key, value in inputs:
        harness.feed(key, value)
    flying = [call.idempotency_key for call in harness.calls]
    keys += [("fetch", key) for key in flying]  # made, and their outcome is lost
    replay(harness, beginning, *inputs)
    assert harness.outputs == ["got plain", "reconciled"]
    assert [key for name, key in keys if name == "fetch"] == [flying[0], flying[1], flying[0]]
    assert harness.stats.reconciled == 1


def test_the_retry_budget_and_the_waiting_time_are_the_stores(store):
    def refuse(x):
        raise ConnectionError(x)

    async def act(event, ctx):
        try:
            await ctx.durable_execute_async(refuse, 1, retry=RetryPolicy(max_attempts=3, initial=100, jitter=0))
        except ConnectionError:
            ctx.send_event(OutputEvent("given up"))

    made = Counter()
    harness = AgentHarness(agent_of(act), store=store.open, before_call=lambda call: made.update([call.name]))
    harness.feed("a", 0)
    flying = harness.snapshot()  # keyed state: the first attempt is in flight
    harness.calls[0].run()
    harness.restore(flying)
    harness.advance(LONG_S)
    assert harness.calls == []  # the store: it has failed, the second one is due in 100 s
    for _ in range(20):
        harness.advance(100)
        finish_all(harness)
    assert harness.outputs == ["given up"]
    assert made == {"refuse": 3}
