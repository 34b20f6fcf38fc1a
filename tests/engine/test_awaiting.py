"""What an action may await, and what it is told when it awaits something else."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from flink_agents_py.errors import ActionFailedError, AwaitError, WrongThreadError
from flink_agents_py.events import OutputEvent
from flink_agents_py.testing import AgentHarness
from tests.support.agents import agent_of, finish_all, restart


def fetch(x):
    return x


async def fetch_async(x):
    return x


class Awaitable:
    def __await__(self):
        yield "something"


def failure_of(act) -> BaseException:
    """What the action failed with."""
    harness = AgentHarness(agent_of(act), latency=0.01)

    def run():
        harness.feed("a", 1)
        harness.run()

    with pytest.raises(ActionFailedError) as caught:
        run()
    return caught.value.__cause__


async def plain_sleep(ctx):
    await asyncio.sleep(1)


async def sleep_zero(ctx):
    await asyncio.sleep(0)


async def asyncio_future(ctx):
    loop = asyncio.new_event_loop()
    try:
        await loop.create_future()
    finally:
        loop.close()


async def asyncio_wait_for(ctx):
    await asyncio.wait_for(ctx.durable_execute_async(fetch, 1), 1)


async def asyncio_to_thread(ctx):
    await asyncio.to_thread(fetch, 1)


async def own_awaitable(ctx):
    await Awaitable()


@pytest.mark.parametrize(
    "awaiting", [plain_sleep, sleep_zero, asyncio_future, asyncio_wait_for, asyncio_to_thread, own_awaitable]
)
def test_awaiting_something_else_says_what_to_write_instead(awaiting):
    async def act(event, ctx):
        await awaiting(ctx)

    error = failure_of(act)
    assert isinstance(error, AwaitError)
    assert "ctx.durable_execute_async(your_function" in error.fix
    assert "ctx.sleep(seconds)" in error.fix
    assert "no asyncio loop on the operator thread" in str(error)
    assert "action act" in error.where


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("in_thread", [True, False])
def test_asyncio_gather_is_refused_on_whatever_thread(in_thread):
    async def act(event, ctx):
        await asyncio.gather(ctx.durable_execute_async(fetch, 1))

    found = []
    if in_thread:
        thread = threading.Thread(target=lambda: found.append(failure_of(act)))
        thread.start()
        thread.join()
    else:
        found.append(failure_of(act))
    assert isinstance(found[0], AwaitError)


def test_a_coroutine_of_ones_own_is_awaited_through_to_its_durable_calls():
    async def helper(ctx, x):
        return await ctx.durable_execute_async(fetch, x) + await ctx.durable_execute_async(fetch_async, 1)

    async def act(event, ctx):
        ctx.send_event(OutputEvent(await helper(ctx, 1)))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    finish_all(harness)
    assert harness.outputs == [2]


def test_an_action_that_catches_the_refusal_goes_on():
    async def act(event, ctx):
        try:
            await asyncio.sleep(0)
        except AwaitError:
            ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, "instead")))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    finish_all(harness)
    assert harness.outputs == ["instead"]


def test_awaiting_a_call_twice_is_refused():
    async def act(event, ctx):
        call = ctx.durable_execute_async(fetch, 1)
        await call
        await call

    error = failure_of(act)
    assert isinstance(error, AwaitError)
    assert "awaited twice" in str(error)
    assert "keep its result" in error.fix


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")  # a coroutine left behind would warn on top
def test_gather_takes_durable_calls_only():
    async def act(event, ctx):
        await ctx.gather(ctx.durable_execute_async(fetch, 1), fetch_async(2))

    error = failure_of(act)
    assert isinstance(error, AwaitError)
    assert "the coroutine fetch_async()" in str(error)
    assert "ctx.gather(ctx.durable_execute_async(" in error.fix


def test_gather_within_gather_is_refused():
    async def act(event, ctx):
        await ctx.gather(ctx.gather(ctx.durable_execute_async(fetch, 1)))

    assert isinstance(failure_of(act), AwaitError)


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")
@pytest.mark.parametrize("sync", [True, False])
def test_a_coroutine_in_place_of_a_function_is_refused(sync):
    async def act(event, ctx):
        if sync:
            ctx.durable_execute(fetch_async(1))
        else:
            await ctx.durable_execute_async(fetch_async(1))

    error = failure_of(act)
    assert isinstance(error, TypeError)
    assert "not ctx.durable_execute_async(func(arg))" in str(error)


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")
def test_a_coroutine_function_in_a_sync_durable_call_is_refused():
    def act(event, ctx):
        ctx.durable_execute(fetch_async, 1)

    error = failure_of(act)
    assert isinstance(error, TypeError)
    assert "await ctx.durable_execute_async(...)" in str(error)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_sleep_of_no_length_is_refused(seconds):
    async def act(event, ctx):
        await ctx.sleep(seconds)

    assert isinstance(failure_of(act), ValueError)


def test_waiting_for_the_call_of_another_action_is_refused_and_does_not_hang():
    calls = []

    async def first(event, ctx):
        calls.append(ctx.durable_execute_async(fetch, 1))
        await ctx.sleep(1)

    async def second(event, ctx):
        await calls[0]

    harness = AgentHarness(agent_of(first, second), latency=0.01)
    with pytest.raises(ActionFailedError) as caught:
        harness.feed("a", 1)
    assert isinstance(caught.value.__cause__, AwaitError)


# --- the context belongs to its thread and its action ---------------------------------------------------------------

USES = {
    "send_event": lambda ctx: ctx.send_event(OutputEvent(1)),
    "side_output": lambda ctx: ctx.side_output("tag", 1),
    "short-term memory": lambda ctx: ctx.short_term_memory.set("x", 1),
    "sensory memory": lambda ctx: ctx.sensory_memory.get("x"),
    "durable_execute": lambda ctx: ctx.durable_execute(fetch, 1),
    "durable_execute_async": lambda ctx: ctx.durable_execute_async(fetch, 1),
    "gather": lambda ctx: ctx.gather(),
    "sleep": lambda ctx: ctx.sleep(1),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("how", ["worker", "sync durable call", "real thread"])
def test_using_the_context_inside_of_a_call_is_refused(use, how):
    async def act(event, ctx):
        ctx.short_term_memory.get("x")  # memory views made before are no way around

        def call():
            use(ctx)

        if how == "worker":
            await ctx.durable_execute_async(call)
        elif how == "sync durable call":
            ctx.durable_execute(call)
        else:
            caught = []

            def run():
                try:
                    call()
                except WrongThreadError as error:
                    caught.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
            raise caught[0]

    error = failure_of(act)
    assert isinstance(error, WrongThreadError)
    assert "before the durable call" in error.fix


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_using_the_context_after_its_action_is_refused(use):
    kept = []

    def act(event, ctx):
        kept.append(ctx)
        ctx.short_term_memory.set("x", 1)
        ctx.sensory_memory.set("x", 1)

    AgentHarness(agent_of(act)).feed("a", 1)
    with pytest.raises(WrongThreadError, match="after its action had finished"):
        use(kept[0])


def test_a_memory_view_kept_beyond_its_action_is_refused():
    kept = []

    def act(event, ctx):
        kept.append(ctx.short_term_memory.new_object("o"))

    AgentHarness(agent_of(act)).feed("a", 1)
    with pytest.raises(WrongThreadError):
        kept[0].set("x", 1)


# --- never awaited --------------------------------------------------------------------------------------------------


def test_a_call_never_awaited_is_counted_and_reported_by_name(caplog):
    def forgetful(event, ctx):
        ctx.durable_execute_async(fetch, 1)
        ctx.sleep(1)

    harness = AgentHarness(agent_of(forgetful))
    with caplog.at_level(logging.WARNING, "flink_agents_py.engine"):
        harness.feed("a", 1)
    assert harness.stats.never_awaited == 2
    assert harness.calls == []  # and it was not made
    assert "fetch was created and never awaited" in caplog.text
    assert "action forgetful" in caplog.text


def test_a_started_call_that_nobody_awaits_is_cancelled_with_its_action():
    async def act(event, ctx):
        ctx.durable_execute_async(fetch_async, "left behind")
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch_async, "awaited")))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    assert len(harness.calls) == 2
    harness.calls[1].run()
    assert harness.outputs == ["awaited"]
    assert harness.idle
    assert harness.calls == []
    assert harness.stats.never_awaited == 1


def test_awaited_and_gathered_calls_are_not_reported():
    async def act(event, ctx):
        await ctx.gather(ctx.durable_execute_async(fetch, 1), ctx.durable_execute_async(fetch, 2))
        await ctx.durable_execute_async(fetch, 3)
        ctx.durable_execute(fetch, 4)
        await ctx.sleep(0)

    harness = AgentHarness(agent_of(act), latency=0.01)
    harness.feed("a", 1)
    harness.run()
    assert harness.stats.never_awaited == 0


def test_calls_awaited_out_of_a_journal_are_not_reported():
    async def act(event, ctx):
        one, two = ctx.durable_execute_async(fetch, 1), ctx.durable_execute_async(fetch, 2)
        await one
        await two
        await ctx.durable_execute_async(fetch, 3)

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    for call in harness.calls:
        call.run()
    restart(harness)
    finish_all(harness)
    assert harness.stats.never_awaited == 0
    assert harness.stats.journal_hits == 2
