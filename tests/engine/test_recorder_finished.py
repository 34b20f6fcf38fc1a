"""With an action state store: actions that finished since the checkpoint are not run again (S5, S9)."""

from __future__ import annotations

import pytest

from flink_agents_py.events import OutputEvent
from flink_agents_py.testing import AgentHarness
from flink_agents_py.testing.failpoints import FailpointError, failpoint
from tests.support.agents import LONG_S, agent_of, finish_all
from tests.support.recorded import Made, bodies, everything, fetch, keyed_state, replay
from tests.support.stores import StoreOfJob


def test_bodies_of_finished_actions_are_not_run_again_and_their_effects_are_the_same(store):
    harness = AgentHarness(everything(), store=store.open)
    beginning = harness.snapshot()
    inputs = [("a", 1), ("b", 2), ("a", 3), ("a", 4)]
    for key, value in inputs:
        harness.feed(key, value)
        finish_all(harness)
    done = (harness.keyed_outputs, harness.all_side_outputs(), keyed_state(harness, "a"), keyed_state(harness, "b"))
    assert len(harness.outputs) == 8
    assert bodies == {"start": 4, "made": 8}

    for _ in range(2):
        harness.restore(beginning)
        for key, value in inputs:
            harness.feed(key, value)
        assert harness.calls == []
        assert bodies == {"start": 4, "made": 8}
        assert harness.stats.recalled == 12
        again = (
            harness.keyed_outputs,
            harness.all_side_outputs(),
            keyed_state(harness, "a"),
            keyed_state(harness, "b"),
        )
        assert again == done


def test_what_comes_after_the_replay_goes_on_from_it(store):
    harness = AgentHarness(everything(), store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 1)
    finish_all(harness)
    replay(harness, beginning, ("a", 1), ("a", 2))
    assert bodies == {"start": 2, "made": 4}
    assert harness.short_term_memory("a").get("seen.n2") == {"input": 2}
    assert not harness.short_term_memory("a").is_exist("profile")


def test_a_crash_between_two_actions_of_a_run_repeats_neither(store):
    harness = AgentHarness(everything(), store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 1)
    with failpoint("after-record", hits=2), pytest.raises(FailpointError):
        finish_all(harness)  # the outcome of the call is written, then what the actions did
    replay(harness, beginning, ("a", 1))
    assert bodies == {"start": 1, "made": 2}
    assert len(harness.outputs) == 2


@pytest.mark.parametrize("point", ["call-made", "before-record", "after-record", "before-emit"])
@pytest.mark.parametrize("hits", range(1, 6))
def test_a_failure_at_any_point_changes_no_effect_and_repeats_no_recorded_call(store, point, hits):
    undisturbed = AgentHarness(everything(), store=StoreOfJob().open)
    undisturbed.feed("a", 1)
    finish_all(undisturbed)

    made = []
    harness = AgentHarness(everything(), store=store.open, before_call=lambda call: made.append(call.idempotency_key))
    checkpoint, emitted = harness.snapshot(), 0
    with failpoint(point, hits=hits) as _:
        try:
            harness.feed("a", 1)
            finish_all(harness)
        except FailpointError:
            emitted = len(harness.outputs)
            assert emitted == 0, "effects left the operator although the callback failed"
            outcome_known = any(record.slot == -1 or '"r"' in record.value for record in store.records)
            replay(harness, checkpoint, ("a", 1))
            assert len(made) <= 2 - outcome_known
    assert len(set(made)) == 1
    assert harness.keyed_outputs == undisturbed.keyed_outputs
    assert harness.all_side_outputs() == undisturbed.all_side_outputs()
    assert keyed_state(harness, "a") == keyed_state(undisturbed, "a")


@pytest.mark.parametrize("first", ["left", "right"])
def test_actions_that_write_the_same_field_finish_in_the_order_they_had(store, first):
    async def left(event, ctx):
        await ctx.durable_execute_async(fetch, "left")
        ctx.short_term_memory.set("who", "left")
        ctx.send_event(Made(number=1))

    async def right(event, ctx):
        await ctx.durable_execute_async(fetch, "right")
        ctx.short_term_memory.set("who", "right")
        ctx.send_event(Made(number=2))

    async def made(event: Made, ctx):
        await ctx.durable_execute_async(fetch, event.number)
        ctx.send_event(OutputEvent([event.number, ctx.short_term_memory.get("who")]))

    agent = agent_of(left, right).add_action("made", [Made], made)
    harness = AgentHarness(agent, store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 0)
    snapshots = [beginning, harness.snapshot()]
    (next(call for call in harness.calls if call.args == (first,))).complete()
    snapshots.append(harness.snapshot())
    next(call for call in harness.calls if call.args in [(1,), (2,)]).complete()  # its child, before the other parent
    snapshots.append(harness.snapshot())
    finish_all(harness)
    who, outputs = harness.short_term_memory("a").get("who"), harness.outputs
    assert who == {"left": "right", "right": "left"}[first]
    for index, snapshot in enumerate(snapshots):
        harness.restore(snapshot)
        if index == 0:
            harness.feed("a", 0)
        harness.advance(LONG_S)
        assert harness.calls == []
        assert harness.outputs == outputs
        assert harness.short_term_memory("a").get("who") == who


def test_an_unfinished_action_beside_finished_ones_goes_on_with_what_they_did(store):
    async def slow(event, ctx):
        bodies["slow"] += 1
        first = await ctx.durable_execute_async(fetch, "slow")
        ctx.send_event(OutputEvent([first, await ctx.durable_execute_async(fetch, "slow again")]))

    async def quick(event, ctx):
        bodies["quick"] += 1
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, "quick")))

    harness = AgentHarness(agent_of(slow, quick), store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 0)
    harness.calls[1].run()
    harness.calls[0].run()
    assert harness.outputs == ["got quick"]
    harness.restore(beginning)
    harness.feed("a", 0)
    assert harness.outputs == ["got quick"]
    assert [call.args for call in harness.calls] == [("slow again",)]
    finish_all(harness)
    assert bodies == {"slow": 2, "quick": 1}


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_a_failure_that_was_dealt_with_is_not_tried_again(store, policy):
    async def act(event, ctx):
        bodies["act"] += 1
        ctx.short_term_memory.set("never", 1)
        ctx.side_output("audit", "never")
        await ctx.durable_execute_async(fetch, event.input)
        raise ValueError("odd")

    harness = AgentHarness(agent_of(act, on_error=policy), store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 1)
    finish_all(harness)
    letters = harness.all_side_outputs()
    assert [tag for tag, _ in letters] == (["dead-letters"] if policy == "dead_letter" else [])
    replay(harness, beginning, ("a", 1))
    assert bodies == {"act": 1}
    assert harness.all_side_outputs() == letters
    assert keyed_state(harness, "a") == (None, 2)
    assert store.of("act") == [-1]


def test_events_about_memory_come_back_once(store):
    async def act(event, ctx):
        bodies["act"] += 1
        ctx.short_term_memory.set("x", event.input)
        await ctx.durable_execute_async(fetch, event.input)

    def watch(event, ctx):
        bodies["watch"] += 1
        ctx.send_event(OutputEvent([event.value, event.id]))

    agent = agent_of(act).add_action("watch", ["_short_term_write_event"], watch)
    harness = AgentHarness(agent, store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 1)
    finish_all(harness)
    outputs = harness.outputs
    assert len(outputs) == 1
    replay(harness, beginning, ("a", 1))
    assert bodies == {"act": 1, "watch": 1}
    assert harness.outputs == outputs
