"""The harness as a user of the package sees it."""

from __future__ import annotations

import pytest

from flink_agents_py.agent import Agent
from flink_agents_py.errors import StateRecordError
from flink_agents_py.events import InputEvent, OutputEvent
from flink_agents_py.testing import AgentHarness, VirtualClock
from tests.support.agents import agent_of


def fetch(x):
    return f"got {x}"


async def fetch_async(x):
    return f"got {x}"


def leave(x):
    raise SystemExit(x)


async def act(event, ctx):
    try:
        result = await ctx.durable_execute_async(fetch, event.input)
    except LookupError as error:
        result = f"failed: {error}"
    ctx.short_term_memory.set("last", result)
    ctx.side_output("seen", event.input)
    ctx.send_event(OutputEvent(result))


def test_calls_wait_for_the_test_which_completes_fails_or_makes_them():
    harness = AgentHarness(agent_of(act))
    for key in "abc":
        harness.feed(key, 1)
    one, two, three = harness.calls
    assert (one.name, one.args, one.kwargs, one.threaded) == ("fetch", (1,), {}, True)
    assert repr(one) == "<pending fetch(1,)>"
    assert len({call.idempotency_key for call in harness.calls}) == 3
    one.complete("by hand")
    two.fail(LookupError("by hand"))
    three.run()
    assert harness.keyed_outputs == [("a", "by hand"), ("b", "failed: by hand"), ("c", "got 1")]
    assert harness.outputs == ["by hand", "failed: by hand", "got 1"]
    assert harness.side_output("seen") == [1, 1, 1]
    assert harness.all_side_outputs() == [("seen", 1)] * 3
    assert harness.short_term_memory("b").get("last") == "failed: by hand"
    assert harness.idle
    assert harness.stats.runs == 3


def test_a_call_has_one_outcome():
    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    call = harness.calls[0]
    call.complete()
    with pytest.raises(ValueError, match="finished already"):
        call.complete()


def test_a_call_of_before_the_crash_has_no_outcome_any_more():
    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    call = harness.calls[0]
    snapshot = harness.snapshot()
    harness.restore(snapshot)
    assert harness.calls == []
    with pytest.raises(ValueError, match="lost in a crash"):
        call.complete("too late")


def test_with_a_latency_calls_are_made_at_once_and_their_outcome_arrives_later():
    made = []
    harness = AgentHarness(agent_of(act), latency=lambda call: call.args[0], before_call=made.append)
    harness.feed("a", 2.0)
    harness.feed("b", 1.0)
    assert [call.args for call in made] == [(2.0,), (1.0,)]
    harness.advance(1.0)
    assert harness.outputs == ["got 1.0"]
    harness.run()
    assert harness.outputs == ["got 1.0", "got 2.0"]


def test_the_ledger_hears_of_sync_durable_calls_too():
    def sync(event, ctx):
        ctx.send_event(OutputEvent(ctx.durable_execute(fetch, event.input)))

    made = []
    harness = AgentHarness(agent_of(sync), before_call=made.append)
    harness.feed("a", 1)
    assert [(call.name, call.args) for call in made] == [("fetch", (1,))]
    assert harness.outputs == ["got 1"]


def fetch_later(x):
    return fetch_async(x)


@pytest.mark.parametrize("func", [fetch_async, fetch_later])
def test_coroutines_are_run_to_their_end(func):
    async def act(event, ctx):
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(func, 1)))

    harness = AgentHarness(agent_of(act), latency=0.1)
    harness.feed("a", 1)
    harness.run()
    assert harness.outputs == ["got 1"]


def test_a_call_that_exits_is_an_outcome():
    async def act(event, ctx):
        try:
            await ctx.durable_execute_async(leave, 3)
        except SystemExit as error:
            ctx.send_event(OutputEvent(error.code))

    harness = AgentHarness(agent_of(act), latency=0.1)
    harness.feed("a", 1)
    harness.run()
    assert harness.outputs == [3]


def test_run_says_what_the_agent_waits_for():
    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    with pytest.raises(AssertionError, match=r"waits for \[<pending fetch"):
        harness.run()


def test_restoring_takes_outputs_of_after_the_checkpoint_back():
    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    harness.calls[0].complete("first")
    snapshot = harness.snapshot()
    harness.feed("a", 2)
    harness.calls[0].complete("second")
    harness.restore(snapshot)
    assert harness.outputs == ["first"]
    assert harness.side_output("seen") == [1]
    assert harness.short_term_memory("a").get("last") == "first"
    harness.feed("a", 2)
    harness.calls[0].complete("again")
    assert harness.outputs == ["first", "again"]


def test_writing_to_the_memory_shown_is_not_kept():
    harness = AgentHarness(agent_of(act))
    harness.short_term_memory("a").set("x", 1)
    assert harness.short_term_memory("a").get("x") is None


def test_a_changed_agent_takes_over_and_leaves_interrupted_runs_what_they_began_with():
    async def second_version(event, ctx):
        result = await ctx.durable_execute_async(fetch, event.input)
        ctx.send_event(OutputEvent(f"{result}, version 2"))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    snapshot = harness.snapshot()
    harness.upgrade(Agent().add_action("act", [InputEvent], second_version))
    harness.restore(snapshot)
    harness.advance(20)
    harness.feed("a", 2)
    harness.calls[0].run()
    harness.calls[0].run()
    assert harness.outputs == ["got 1", "got 2, version 2"]


def test_an_action_that_is_gone_while_runs_are_inside_of_it_is_refused_by_name(monkeypatch):
    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    snapshot = harness.snapshot()
    successor = Agent().add_action("renamed", [InputEvent], act)
    monkeypatch.delitem(globals(), "act")
    harness.upgrade(successor)
    harness.restore(snapshot)
    with pytest.raises(StateRecordError, match="inside action 'act'"):
        harness.advance(20)


def test_the_clock_moves_on_only():
    clock = VirtualClock(5)
    clock.advance_to(7)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance_to(6)
    assert clock.now_ms() == 7
    assert clock.monotonic_s() == 0.007


def test_advance_fires_timers_in_time_order_and_ends_at_the_time_asked_for():
    async def sleeper(event, ctx):
        await ctx.sleep(event.input)
        ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(agent_of(sleeper))
    began = harness.clock.now_ms()
    for key, seconds in (("a", 3), ("b", 1), ("c", 2), ("d", 9)):
        harness.feed(key, seconds)
    harness.advance(4)
    assert harness.outputs == [1, 2, 3]
    assert harness.clock.now_ms() == began + 4_000
