"""Limits of an action: how many at once, how many a second, how many may wait, and when a target is left alone."""

from __future__ import annotations

import pytest

from flink_agents_py import Agent, InputEvent, OutputEvent, action
from flink_agents_py.engine.lanes import HEADROOM
from flink_agents_py.external import (
    ActionRegistry,
    ActionRetry,
    ActionSpec,
    ActionTimeouts,
    CircuitBreaker,
    NetworkUnavailable,
)
from flink_agents_py.testing import AgentHarness
from tests.external.kit import echo, harness, letters, one


class Fan(Agent):
    """Makes as many calls at one time as the input says."""

    def __init__(self, registry: ActionRegistry) -> None:
        super().__init__()
        self.add_action_registry(registry)

    @action(InputEvent)
    @staticmethod
    async def go(event, ctx):
        made = await ctx.gather(*(ctx.call("do", {"n": number}) for number in range(event.input)))
        ctx.send_event(OutputEvent([result.code for result in made]))


class Ledger:
    """When calls began, and how many were in flight."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.most = 0

    def watch(self, registry, inputs, agent=Fan, **options):
        harness = AgentHarness(agent(registry), before_call=lambda call: self.note(harness), **options)
        for key, value in inputs:
            harness.feed(key, value)
            self.look(harness)
        while not harness.idle:
            assert harness.step()
            self.look(harness)
        return harness

    def note(self, harness) -> None:
        self.began.append(harness.clock.now_ms())

    def look(self, harness) -> None:
        self.most = max(self.most, harness.engine.levels().calls_in_flight)

    def most_within(self, ms: int) -> int:
        return max(sum(start <= at < start + ms for at in self.began) for start in self.began)


def test_no_more_calls_at_one_time_than_allowed_over_all_keys():
    ledger = Ledger()
    made = ledger.watch(one(ActionSpec(name="do", max_concurrent=3)), [(f"k{n}", 4) for n in range(10)], latency=0.1)
    assert ledger.most == 3
    assert len(ledger.began) == 40
    assert all(output == ["SUCCESS"] * 4 for output in made.outputs)
    assert ledger.began[-1] - ledger.began[0] < 40 / 3 * 100 + 14 * 20


def test_calls_begin_evenly_below_the_rate_and_at_nine_tenths_of_it_at_least():
    ledger = Ledger()
    ledger.watch(
        one(ActionSpec(name="do", max_concurrent=500, rate_per_s=50)), [(f"k{n}", 1) for n in range(200)], latency=0.1
    )
    assert ledger.most_within(1000) <= 50
    assert ledger.most_within(100) <= 6
    took = (ledger.began[-1] - ledger.began[0]) / 1000
    assert 200 / took >= 0.9 * 50
    assert 200 / took <= 50


def test_a_rate_below_one_a_second_waits_on_a_timer_not_on_the_pump():
    ledger = Ledger()
    made = ledger.watch(one(ActionSpec(name="do", rate_per_s=0.5)), [("k", 3)], latency=0.1)
    gaps = [after - before for before, after in zip(ledger.began, ledger.began[1:], strict=False)]
    assert all(2000 <= gap <= 2000 / HEADROOM + 50 for gap in gaps)
    assert made.outputs == [["SUCCESS"] * 3]


def test_while_a_call_waits_for_its_rate_the_pump_is_quiet():
    agent = harness(one(ActionSpec(name="do", rate_per_s=0.1)), latency=0.01)
    agent.feed("a", 1)
    agent.feed("b", 1)
    agent.advance(0.5)
    steps = 0
    while agent.clock.now_ms() < 1_700_000_000_000 + 9_000 and agent.step():
        steps += 1
    assert steps < 10


def test_limits_can_be_shared_by_all_subtasks():
    from flink_agents_py.engine.lanes import Lane

    spec = ActionSpec(name="do", max_concurrent=10, rate_per_s=100, max_queued=90, divide_by_parallelism=True)
    lane = Lane(spec, parallelism=4)
    assert (lane.max_concurrent, lane.rate_per_s, lane.max_queued) == (2, 25 * HEADROOM, 22)
    whole = Lane(spec.model_copy(update={"divide_by_parallelism": False}), parallelism=4)
    assert (whole.max_concurrent, whole.rate_per_s, whole.max_queued) == (10, 100 * HEADROOM, 90)


def test_what_does_not_fit_into_the_queue_is_refused_and_nothing_is_lost():
    spec = ActionSpec(name="do", max_concurrent=2, max_queued=5)
    agent = AgentHarness(Fan(one(spec)), latency=0.1)
    agent.feed("k", 10)
    agent.run()
    (codes,) = agent.outputs
    assert codes.count("SUCCESS") == 7
    assert codes.count("QUEUE_FULL") == 3
    assert [letter["code"] for letter in letters(agent)] == ["QUEUE_FULL"] * 3


def test_inputs_wait_while_a_queue_is_full():
    spec = ActionSpec(name="do", max_concurrent=1, max_queued=5)
    ledger = Ledger()
    made = ledger.watch(one(spec), [(f"k{n}", 1) for n in range(50)], latency=0.1)
    assert made.outputs == [["SUCCESS"]] * 50


def test_lanes_of_other_actions_go_on_while_one_is_full():
    registry = ActionRegistry()
    registry.register(ActionSpec(name="do", max_concurrent=1), echo)
    registry.register(ActionSpec(name="quick"), echo)

    class Both(Agent):
        @action(InputEvent)
        @staticmethod
        async def go(event, ctx):
            result = await ctx.call(event.input, {"n": 1})
            ctx.send_event(OutputEvent(result.action))

    agent = AgentHarness(Both().add_action_registry(registry), latency=lambda call: 1.0 if call.name == "do" else 0.01)
    for number in range(5):
        agent.feed(f"slow{number}", "do")
    agent.feed("quick", "quick")
    agent.advance(0.1)
    assert agent.outputs == ["quick"]


def test_the_total_timeout_covers_the_queue():
    spec = ActionSpec(name="do", max_concurrent=1, timeouts=ActionTimeouts(total=0.25))
    agent = AgentHarness(Fan(one(spec)), latency=0.1)
    agent.feed("k", 4)
    agent.run()
    assert agent.outputs == [["SUCCESS", "SUCCESS", "TIMEOUT_TOTAL", "TIMEOUT_TOTAL"]]
    assert [letter["attempts"] for letter in letters(agent)] == [1, 0]


def broken(call, session):
    raise NetworkUnavailable("down")


def breaking(**fields):
    return ActionSpec(
        name="do", retry=ActionRetry(max_attempts=1), breaker=CircuitBreaker(failures=3, open_s=10), **fields
    )


def test_a_target_that_keeps_failing_is_left_alone_for_a_while():
    agent = harness(one(breaking(), broken), latency=0.01)
    for number in range(5):
        agent.feed("k", number)
    agent.run()
    assert agent.outputs == ["NETWORK_UNAVAILABLE"] * 3 + ["CIRCUIT_OPEN"] * 2
    assert agent.stats.attempts == 3
    agent.advance(10)
    agent.feed("k", 9)
    agent.run()
    assert agent.outputs[-1] == "NETWORK_UNAVAILABLE"
    agent.feed("k", 10)
    agent.run()
    assert agent.outputs[-1] == "CIRCUIT_OPEN"


def test_one_call_tries_whether_the_target_is_back():
    up = []

    async def handler(call, session):
        if not up:
            raise NetworkUnavailable("down")

    agent = harness(one(breaking(), handler), latency=0.1)
    for number in range(3):
        agent.feed("k", number)
    agent.run()
    up.append(True)
    agent.advance(10)
    agent.feed("a", 1)
    agent.feed("b", 1)
    agent.run()
    assert dict(agent.keyed_outputs[3:]) == {"a": "SUCCESS", "b": "CIRCUIT_OPEN"}
    agent.feed("b", 1)
    agent.run()
    assert agent.outputs[-1] == "SUCCESS"


def test_actions_with_one_target_share_its_breaker():
    registry = ActionRegistry()
    registry.register(breaking(target="crm"), broken)
    registry.register(ActionSpec(name="other", target="crm", breaker=CircuitBreaker(failures=3)), echo)

    class Both(Agent):
        @action(InputEvent)
        @staticmethod
        async def go(event, ctx):
            result = await ctx.call(event.input, {"n": ctx.sequence})
            ctx.send_event(OutputEvent(result.code))

    agent = AgentHarness(Both().add_action_registry(registry), latency=0.01)
    for name in ("do", "do", "do", "other"):
        agent.feed("k", name)
    agent.run()
    assert agent.outputs[-1] == "CIRCUIT_OPEN"


@pytest.mark.parametrize("places", [1, 2])
def test_sync_handlers_take_no_more_threads_than_there_are(places):
    ledger = Ledger()

    def handler(call, session):
        return 1

    spec = ActionSpec(name="do", max_concurrent=100)
    made = ledger.watch(one(spec, handler), [("k", 6)], config={"num-async-threads": places}, latency=0.1)
    assert ledger.most == places
    assert made.outputs == [["SUCCESS"] * 6]


def test_calls_beyond_the_places_of_the_subtask_wait():
    ledger = Ledger()
    ledger.watch(one(ActionSpec(name="do", max_concurrent=100)), [("k", 12)], config={"max-in-flight": 4}, latency=0.1)
    assert ledger.most == 4
