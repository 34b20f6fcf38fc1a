"""Bounds and backpressure (S13), what keyed state holds, end of input (S11), and the fast path."""

from __future__ import annotations

from collections import Counter, namedtuple
from datetime import date
from decimal import Decimal

import pytest

from flink_agents_py.engine.keys import SequenceCache
from flink_agents_py.errors import EncodeError, StateRecordError
from flink_agents_py.events import OutputEvent
from flink_agents_py.testing import AgentHarness
from tests.support.agents import LONG_S, agent_of, finish_all, restart


def fetch(x):
    return x


async def fetch_async(x):
    return x


def calling(func=fetch_async, times=1):
    async def act(event, ctx):
        for _ in range(times):
            await ctx.gather(*(ctx.durable_execute_async(func, event.input) for _ in range(1)))
        ctx.send_event(OutputEvent(event.input))

    return agent_of(act)


def test_no_more_calls_in_flight_than_allowed_and_feed_goes_on_when_one_is_done():
    harness = AgentHarness(calling(), {"max-in-flight": 3}, latency=0.1)
    for number in range(20):
        harness.feed(f"key {number}", number)
    harness.run()
    assert sorted(harness.outputs) == list(range(20))
    assert harness.stats.in_flight_max == 3


def test_feed_blocks_while_calls_hang():
    harness = AgentHarness(calling(), {"max-in-flight": 2})
    harness.feed("a", 1)
    harness.feed("b", 2)
    with pytest.raises(AssertionError, match="blocked"):
        harness.feed("c", 3)
    harness.calls[0].run()
    harness.feed("c", 3)
    finish_all(harness)
    assert sorted(harness.outputs) == [1, 2, 3]


def test_one_action_may_create_more_calls_than_fit_at_once():
    async def act(event, ctx):
        ctx.send_event(OutputEvent(await ctx.gather(*(ctx.durable_execute_async(fetch_async, n) for n in range(9)))))

    harness = AgentHarness(agent_of(act), {"max-in-flight": 2})
    harness.feed("a", 1)
    assert len(harness.calls) == 2
    finish_all(harness)
    assert harness.outputs == [list(range(9))]
    assert harness.stats.in_flight_max == 2


def test_threaded_calls_are_bounded_by_threads_and_do_not_hold_up_coroutines():
    async def act(event, ctx):
        func = fetch if event.input < 10 else fetch_async
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(func, event.input)))

    harness = AgentHarness(agent_of(act), {"num-async-threads": 2})
    for number in range(5):
        harness.feed(number, number)
    assert [call.args[0] for call in harness.calls] == [0, 1]
    harness.feed(10, 10)
    assert [call.args[0] for call in harness.calls] == [0, 1, 10]
    harness.calls[2].run()
    harness.calls[0].run()
    assert [call.args[0] for call in harness.calls] == [1, 2]
    finish_all(harness)
    assert sorted(harness.outputs) == [0, 1, 2, 3, 4, 10]


def test_waiting_inputs_are_bounded_and_so_is_keyed_state():
    harness = AgentHarness(calling(), {"max-in-flight": 1, "max-queued": 5}, latency=1.0)
    most = 0
    for number in range(30):
        harness.feed("a", number)
        most = max(most, len(harness.state_of("a").get("agent.pending", {})))
    harness.run()
    assert harness.outputs == list(range(30))
    assert most <= 6


def test_waiting_inputs_keep_order_and_event_time_across_crashes():
    seen = []

    async def act(event, ctx):
        seen.append((event.input, ctx.timestamp, ctx.watermark))
        await ctx.durable_execute_async(fetch, event.input)
        ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(agent_of(act))
    for number in range(12):
        harness.feed("a", number, number * 10, number * 10 - 5)
    while not harness.idle:
        restart(harness)
        harness.calls[0].run()
    assert harness.outputs == list(range(12))
    assert list(dict.fromkeys(seen)) == [(number, number * 10, number * 10 - 5) for number in range(12)]


def test_a_missing_waiting_input_fails_loudly():
    harness = AgentHarness(calling())
    for number in range(3):
        harness.feed("a", number)
    harness._store.data["agent.pending"]["a"].pop("1")
    with pytest.raises(StateRecordError, match="waiting input"):
        finish_all(harness)


# --- what is left ---------------------------------------------------------------------------------------------------


def test_a_finished_key_leaves_its_number_and_its_memory_and_nothing_else():
    async def act(event, ctx):
        ctx.sensory_memory.set("gone", 1)
        ctx.short_term_memory.set("stays", event.input)
        await ctx.sleep(3)
        await ctx.durable_execute_async(fetch, 1)

    harness = AgentHarness(agent_of(act), latency=0.1)
    for number in range(3):
        harness.feed("a", number)
    restart(harness)
    harness.run()
    assert set(harness.state_of("a")) == {"agent.seq", "agent.stm"}
    assert harness.state_of("a")["agent.seq"] == 6
    timers = harness.snapshot().timers
    assert [timer for timer in timers if timer[0] == "e"] == []
    harness.advance(LONG_S)  # what is left of processing-time timers finds nothing to do, and is not renewed
    assert harness.snapshot().timers == []
    assert harness.stats.resumed == 1


def test_an_idle_key_without_memory_leaves_its_number_alone():
    harness = AgentHarness(calling(), latency=0.1)
    harness.feed("a", 1)
    assert set(harness.state_of("a")) == {"agent.seq", "agent.run"}
    harness.run()
    assert set(harness.state_of("a")) == {"agent.seq"}


def test_the_sequence_cache_forgets_the_oldest_and_numbers_go_on_from_state():
    cache = SequenceCache(2)
    for token in ("a", "b", "c"):
        cache.put(token, 1)
    assert [cache.get(token) for token in ("a", "b", "c")] == [None, 1, 1]

    def act(event, ctx):
        ctx.send_event(OutputEvent(ctx.sequence))

    harness = AgentHarness(agent_of(act), {"state.sequence-cache-size": 1})
    for _ in range(3):
        for key in ("a", "b", "c"):
            harness.feed(key, 1)
    assert harness.outputs == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_an_evicted_number_does_not_hide_an_unfinished_run():
    harness = AgentHarness(calling(), {"state.sequence-cache-size": 1})
    harness.feed("a", 1)
    for key in range(5):
        harness.feed(key, key)
    harness.feed("a", 2)
    assert [call.args[0] for call in harness.calls] == [1, 0, 1, 2, 3, 4]
    harness.restore(harness.snapshot())
    harness.feed("a", 3)
    finish_all(harness)
    harness.advance(LONG_S)
    finish_all(harness)
    assert [value for key, value in harness.keyed_outputs if key == "a"] == [1, 2, 3]


# --- end of input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restored", [False, True])
def test_the_end_of_input_completes_everything_unfinished(restored):
    async def act(event, ctx):
        await ctx.durable_execute_async(fetch, event.input)
        await ctx.sleep(60)
        ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(agent_of(act), latency=0.5)
    for number in range(12):
        harness.feed(f"key {number % 4}", number)
    if restored:
        harness.restore(harness.snapshot())  # and no timer has resumed anything yet
    harness.end_of_input()
    assert sorted(harness.outputs) == list(range(12))
    assert harness.idle
    assert [timer for timer in harness.snapshot().timers if timer[0] == "e"] == []


def test_at_the_end_of_input_all_keys_work_at_the_same_time():
    harness = AgentHarness(calling(times=3), latency=1.0)
    for number in range(10):
        harness.feed(number, number)
    harness.restore(harness.snapshot())
    began = harness.clock.now_ms()
    harness.end_of_input()
    assert len(harness.outputs) == 10
    assert harness.clock.now_ms() - began < 5_000  # not ten times three seconds


def test_the_end_of_input_finishes_a_run_that_was_over_its_time_budget():
    def act(event, ctx):
        harness.clock.budget_used_s += 1
        left = event.get_attr("left") or 0
        from flink_agents_py.events import Event

        ctx.send_event(OutputEvent("end") if left > 4 else Event(type="again", attributes={"left": left + 1}))

    agent = agent_of(act)
    agent.add_action("again", ["again"], act)
    harness = AgentHarness(agent)
    harness.feed("a", 1)
    assert not harness.idle
    harness.end_of_input()
    assert harness.outputs == ["end"]


def test_the_end_of_input_without_anything_unfinished_is_nothing():
    harness = AgentHarness(calling(), latency=0.1)
    harness.end_of_input()
    harness.feed("a", 1)
    harness.run()
    harness.end_of_input()
    assert harness.outputs == [1]


# --- the fast path --------------------------------------------------------------------------------------------------


class Counting:
    """Counts what is asked of a state port."""

    def __init__(self, port, name: str, counts: Counter) -> None:
        self._port, self._name, self._counts = port, name, counts

    def __getattr__(self, operation: str):
        method = getattr(self._port, operation)

        def counted(*args):
            self._counts[f"{self._name}.{operation}"] += 1
            return method(*args)

        return counted


def count_operations(harness: AgentHarness) -> Counter:
    counts: Counter = Counter()
    for name in ("sequence", "run", "pending", "memory"):
        setattr(harness._store, name, Counting(getattr(harness._store, name), name, counts))
    for name in ("processing_time", "event_time"):
        method = getattr(harness._timers, name)

        def counted(timestamp, method=method, name=name):
            counts[name] += 1
            method(timestamp)

        setattr(harness._timers, name, counted)
    return counts


def test_a_synchronous_run_touches_its_number_and_its_memory_and_nothing_else():
    def act(event, ctx):
        if event.input == "memory":
            ctx.short_term_memory.set("n", (ctx.short_term_memory.get("n") or 0) + 1)
        ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(agent_of(act))
    counts = count_operations(harness)
    harness.feed("a", "plain")
    assert counts == {"sequence.get": 1, "sequence.put": 1}
    harness.feed("a", "plain")
    assert counts == {"sequence.get": 1, "sequence.put": 2}  # the number is read once per key and attempt
    counts.clear()
    harness.feed("a", "memory")
    harness.feed("a", "memory")
    assert {operation for operation in counts if not operation.startswith("memory")} == {"sequence.put"}
    counts.clear()
    harness.feed("a", "memory")
    assert counts == {"sequence.put": 1, "memory.put": 1}  # what the last run knew is not read again


def test_a_suspended_run_is_written_once_per_callback():
    harness = AgentHarness(calling(times=2))
    counts = count_operations(harness)
    harness.feed("a", 1)
    assert counts["run.put"] == 1
    harness.advance(1)  # many ticks of the pump
    assert counts["run.put"] == 1
    harness.calls[0].run()
    assert counts["run.put"] == 2
    harness.calls[0].run()
    assert counts["run.put"] == 2
    assert counts["run.clear"] == 1


# --- keys -----------------------------------------------------------------------------------------------------------

Named = namedtuple("Named", "a b")  # noqa: PYI024
KEYS = [
    1, True, 1.0, "1", b"1", (1,), ("1",), (1, ("a", None)), None, "", "a_b", "a/b", '"', "\u00e4\U0001f600", -1, 2**70,
    0, False, 0.0, -0.0, date(2026, 1, 1), Decimal(1), Decimal("1.0"), Decimal("1.00"), Named(1, 2), (1, 2),
    '{"$t":"tuple","v":[1]}', "true", "null",
]  # fmt: skip


def test_keys_that_flink_keeps_apart_never_meet():
    async def act(event, ctx):
        await ctx.durable_execute_async(fetch, 1)
        memory = ctx.short_term_memory
        memory.set("n", (memory.get("n") or 0) + 1)
        ctx.send_event(OutputEvent((ctx.sequence, memory.get("n"), type(ctx.key).__name__, repr(ctx.key))))

    harness = AgentHarness(agent_of(act))
    for _ in range(2):
        for key in KEYS:
            harness.feed(key, "x")
    assert len(harness.calls) == len(KEYS)
    restart(harness)
    finish_all(harness)
    expected = [(n, n, type(key).__name__, repr(key)) for n in (1, 2) for key in KEYS]
    assert sorted(harness.outputs) == sorted(expected)


def test_rows_are_keys():
    Row = pytest.importorskip("pyflink.common").Row  # noqa: N806
    harness = AgentHarness(calling())
    harness.feed(Row("a", 1), 1)
    harness.feed(Row("a", 1), 2)
    harness.feed(Row("a", 2), 3)
    assert [call.args for call in harness.calls] == [(1,), (3,)]
    restart(harness)
    finish_all(harness)
    assert sorted(harness.outputs) == [1, 2, 3]


def test_a_key_without_a_stable_form_is_refused():
    with pytest.raises(EncodeError):
        AgentHarness(calling()).feed(object(), 1)
