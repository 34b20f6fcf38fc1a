"""When records are written to an action state store, what it costs, and what comes of a store that fails (S5)."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from flink_agents_py.errors import FencedError, StoreError
from flink_agents_py.events import OutputEvent
from flink_agents_py.testing import AgentHarness
from tests.support.agents import agent_of, finish_all
from tests.support.recorded import everything, fetch, replay, three_calls

seen: list = []
stores_looked_at: list = []


@pytest.fixture(autouse=True)
def _nothing_seen():
    seen.clear()
    stores_looked_at.clear()


# --- order of writing, calling and going on ---------------------------------------------------------------------------


def look(slot):
    """What the store knows of a call, seen from within it or from the action."""
    (status,) = [json.loads(r.value)["call"][2] for r in stores_looked_at[-1].records if r.slot == slot]
    seen.append((slot, status))


def test_a_call_is_written_as_pending_before_it_is_made_and_its_outcome_before_the_action_goes_on(store):
    async def act(event, ctx):
        ctx.durable_execute(look, 0)
        look(0)
        await ctx.gather(ctx.durable_execute_async(look, 1), ctx.durable_execute_async(look, 2))
        look(1)
        look(2)
        await ctx.durable_execute_async(look, 3)
        look(3)

    stores_looked_at.append(store)
    harness = AgentHarness(agent_of(act), store=store.open, latency=0.1)
    harness.feed("a", 0)
    harness.run()
    assert seen == [(0, "p"), (0, "r"), (1, "p"), (2, "p"), (1, "r"), (2, "r"), (3, "p"), (3, "r")]
    assert store.of("act") == [-1]


def test_one_callback_writes_once_for_all_its_keys(store):
    harness = AgentHarness(three_calls(), store=store.open, latency=0.1)
    for number in range(10):
        harness.feed(f"key {number}", number)
    puts = store.handles[0].calls.count("put")
    assert puts == 10
    harness.advance(0.15)  # ten outcomes in one callback: one put for them, one for the calls that follow
    assert store.handles[0].calls.count("put") == puts + 2


# --- a store that fails -----------------------------------------------------------------------------------------------


def test_if_the_store_fails_nothing_is_called_and_nothing_emitted(store):
    made = []
    harness = AgentHarness(three_calls(), store=store.open, before_call=made.append, latency=0.1)
    harness.feed("a", 0)
    (first,) = made
    store.plan.down_after_puts = 1  # what has come of the first call is written, the second one is not
    with pytest.raises(StoreError):
        harness.run()
    assert made == [first]
    store.plan.down = False
    with pytest.raises(StoreError):
        harness.feed("b", 0)  # this attempt is over, whatever becomes of the store
    assert (made, harness.outputs) == ([first], [])


def test_if_an_action_cannot_be_recorded_its_effects_do_not_leave(store):
    def act(event, ctx):
        ctx.side_output("audit", 1)
        ctx.send_event(OutputEvent(1))

    harness = AgentHarness(agent_of(act), store=store.open)
    beginning = harness.snapshot()
    store.plan.down_after_puts = 0
    with pytest.raises(StoreError):
        harness.feed("a", 0)
    assert (harness.outputs, harness.all_side_outputs(), store.records) == ([], [], [])
    store.plan.down, store.plan.down_after_puts = False, None
    replay(harness, beginning, ("a", 0))
    assert harness.outputs == [1]


def bring_back_the_store():
    plan = stores_looked_at[-1].plan
    plan.down, plan.down_after_puts = False, None


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@pytest.mark.parametrize("fault", ["before the call", "after the call"])
def test_neither_on_error_nor_an_except_goes_on_after_a_failed_write(store, policy, fault):
    def act(event, ctx):
        if event.input == "catch":
            try:
                ctx.durable_execute(fetch, 1)
            except StoreError:
                bring_back_the_store()
        else:
            ctx.durable_execute(fetch, 1)
        ctx.send_event(OutputEvent("went on"))

    stores_looked_at.append(store)
    for value in ("catch", "let through"):
        harness = AgentHarness(agent_of(act, on_error=policy), store=store.open)
        beginning = harness.snapshot()
        store.plan.down_after_puts = 0 if fault == "before the call" else 1
        with pytest.raises(StoreError):
            harness.feed("a", value)
        assert (harness.outputs, harness.all_side_outputs()) == ([], [])
        assert store.of("act") in ([], [0])
        store.plan.down, store.plan.down_after_puts = False, None
        replay(harness, beginning, ("a", value))
        assert harness.outputs == ["went on"]
        store.handles[-1].forget(b'"a"', 1)


def test_what_was_written_but_reported_as_failed_is_not_done_again(store):
    made = Counter()
    harness = AgentHarness(three_calls(), store=store.open, before_call=lambda call: made.update([call.args]))
    beginning = harness.snapshot()
    harness.feed("a", "x")
    store.plan.lose_acknowledgements = 1
    with pytest.raises(StoreError):
        harness.calls[0].run()
    replay(harness, beginning, ("a", "x"))
    assert set(made.values()) == {1}
    assert len(harness.outputs) == 1


def test_an_attempt_that_was_given_up_can_neither_write_nor_emit(store):
    zombie = AgentHarness(three_calls(), store=store.open)
    zombie.feed("a", "x")
    successor = AgentHarness(three_calls(), store=store.open)
    successor.feed("a", "x")
    with pytest.raises(FencedError):
        finish_all(zombie)
    assert zombie.outputs == []
    finish_all(successor)
    assert len(successor.outputs) == 1


def test_what_an_attempt_that_was_given_up_wrote_before_is_seen_by_its_successor(store):
    made = Counter()

    def before(call):
        made.update([call.args])

    zombie = AgentHarness(three_calls(), store=store.open, before_call=before)
    successor = AgentHarness(three_calls(), store=store.open, before_call=before)  # the store is empty at this moment
    zombie.feed("a", "x")
    zombie.calls[0].run()
    successor.feed("a", "x")
    finish_all(successor)
    assert set(made.values()) == {1}


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_without_a_store_there_is_no_recorder():
    assert AgentHarness(three_calls()).engine.recorder is None


def test_a_key_is_claimed_once_an_attempt_and_not_for_what_is_over(store):
    harness = AgentHarness(everything(), store=store.open)
    for number in range(5):
        harness.feed("a", number)
        finish_all(harness)
    assert store.handles[-1].calls.count("claim") == 1
    late = harness.snapshot()
    harness.feed("a", 5)
    finish_all(harness)
    replay(harness, late, ("a", 5), ("a", 6))
    assert store.handles[-1].calls.count("claim") == 1
    assert harness.engine.recorder._history == {}
