"""Agents of every shape, crashed after every callback: the invariants of durable calls and order, all at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from flink_agents_py.agent import Agent
from flink_agents_py.events import Event, InputEvent, OutputEvent
from flink_agents_py.policies import RetryPolicy, Timeouts
from flink_agents_py.testing import Scenario
from tests.support.agents import agent_of
from tests.support.stores import in_memory

RETRY = RetryPolicy(max_attempts=6, initial=0.1, factor=1.5, maximum=0.3)

attempts: Counter = Counter()
"""The outside world: how often each call was made, by idempotency key."""


def fetch(x):
    return f"got {x}"


async def fetch_async(x):
    return [x, x]


def refuse(x):
    raise LookupError("refused", x)


def fail_twice(x, *, idempotency_key):
    attempts[idempotency_key] += 1
    if attempts[idempotency_key] <= 2:
        raise ConnectionError("not yet")
    return f"{x} at last"


def shaky_async(x, *, idempotency_key):
    async def call():
        return fail_twice(x, idempotency_key=idempotency_key)

    return call()


class Step(Event):
    number: int


class Done(Event):
    text: str


def sequential() -> Agent:
    async def act(event, ctx):
        out = []
        for number in range(3):
            out.append(await ctx.durable_execute_async(fetch, [event.input, number]))  # noqa: PERF401
        ctx.send_event(OutputEvent(out))

    return agent_of(act)


def parallel() -> Agent:
    async def act(event, ctx):
        calls = [ctx.durable_execute_async(fetch if n % 2 else fetch_async, (event.input, n)) for n in range(4)]
        ctx.send_event(OutputEvent(await ctx.gather(*calls)))

    return agent_of(act)


def awaited_apart() -> Agent:
    async def act(event, ctx):
        one, two = (
            ctx.durable_execute_async(fetch, (1, event.input)),
            ctx.durable_execute_async(fetch, (2, event.input)),
        )
        first = await two
        three = ctx.durable_execute_async(fetch, (3, first))
        ctx.send_event(OutputEvent([await one, await three]))

    return agent_of(act)


def sleeping() -> Agent:
    async def act(event, ctx):
        await ctx.sleep(0.1)
        results = await ctx.gather(ctx.sleep(0.25), ctx.durable_execute_async(fetch, event.input), ctx.sleep(0))
        await ctx.sleep(15)  # longer than a restart takes
        ctx.send_event(OutputEvent(results))

    return agent_of(act)


def retrying() -> Agent:
    async def act(event, ctx):
        first = await ctx.durable_execute_async(fail_twice, event.input, retry=RETRY)
        second = await ctx.durable_execute_async(shaky_async, event.input, retry=RETRY)
        ctx.send_event(OutputEvent([first, second]))

    return agent_of(act)


def giving_up() -> Agent:
    async def act(event, ctx):
        try:
            await ctx.durable_execute_async(refuse, event.input)
        except LookupError as error:
            ctx.send_event(OutputEvent(list(error.args)))
            ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, error.args[1])))

    return agent_of(act, retry=RetryPolicy(max_attempts=3, initial=0.1))


def timing_out() -> Agent:
    async def act(event, ctx):
        try:
            await ctx.durable_execute_async(fetch_async, ("slow", event.input), timeouts=Timeouts(attempt=0.2))
        except TimeoutError as error:
            ctx.send_event(OutputEvent(type(error).__name__))
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, event.input)))

    return agent_of(act)


def chain() -> Agent:
    async def start(event, ctx):
        ctx.sensory_memory.set("input", event.input)
        for number in range(2):
            ctx.send_event(Step(number=number))

    async def step(event: Step, ctx):
        text = await ctx.durable_execute_async(fetch, (ctx.sensory_memory.get("input"), event.number))
        ctx.sensory_memory.set(f"seen.{event.number}", text)
        ctx.send_event(Done(text=text))

    def done(event: Done, ctx):
        # With every id: lineage must not depend on crashes.
        ctx.send_event(OutputEvent([event.text, str(event.id), str(event.upstream_event_id)]))

    agent = Agent().add_action("start", [InputEvent], start).add_action("step", [Step], step)
    return agent.add_action("done", [Done], done)


def two_listeners() -> Agent:
    async def left(event, ctx):
        ctx.short_term_memory.set(f"left.n{ctx.sequence}", await ctx.durable_execute_async(fetch, ("l", event.input)))
        ctx.send_event(OutputEvent("left"))

    async def right(event, ctx):
        await ctx.durable_execute_async(fetch, ("r", event.input))
        ctx.short_term_memory.set(f"right.n{ctx.sequence}", await ctx.durable_execute_async(fetch_async, event.input))
        ctx.send_event(OutputEvent("right"))

    return agent_of(left, right)


def counting() -> Agent:
    async def act(event, ctx):
        memory = ctx.short_term_memory
        count = (memory.get("count") or 0) + 1
        memory.set("count", count)
        memory.set("last", {"input": event.input})
        await ctx.durable_execute_async(fetch, count)
        memory.set("total.sum", (memory.get("total.sum") or 0) + event.input)
        ctx.send_event(OutputEvent([count, memory.get("total.sum")]))

    return agent_of(act)


def sync_and_async() -> Agent:
    async def act(event, ctx):
        if event.input % 2:
            ctx.send_event(OutputEvent(ctx.durable_execute(fetch, event.input)))
            return
        before = ctx.durable_execute(fetch, ("before", event.input))
        middle = await ctx.durable_execute_async(fetch, before)
        after = ctx.durable_execute(fetch, ("after", middle))
        await ctx.sleep(0.05)
        ctx.send_event(OutputEvent(after))

    def quick(event, ctx):
        ctx.short_term_memory.set("quick", event.input)

    return agent_of(act, quick)


def side_outputs() -> Agent:
    async def act(event, ctx):
        ctx.side_output("audit", ["before", event.input])
        result = await ctx.durable_execute_async(fetch, event.input)
        ctx.side_output("audit", ["after", result])

    return agent_of(act)


def failing(policy: str):
    def make() -> Agent:
        async def bad(event, ctx):
            ctx.short_term_memory.set("never", 1)
            ctx.send_event(OutputEvent("never"))
            await ctx.durable_execute_async(fetch, event.input)
            if event.input % 2:
                raise ValueError(f"odd: {event.input}")
            ctx.send_event(OutputEvent(event.input))

        return agent_of(bad, on_error=policy)

    return make


def looping() -> Agent:
    async def act(event, ctx):
        todo, seen = [event.input], []
        while todo:
            item = todo.pop(0)
            seen.append(await ctx.durable_execute_async(fetch_async, item))
            if item > 0:
                todo += [item - 1] * (item % 2 + 1)
        ctx.send_event(OutputEvent(len(seen)))

    return agent_of(act)


def forwarding() -> Agent:
    async def act(event, ctx):
        times = ctx.sensory_memory.get("times") or 0
        ctx.sensory_memory.set("times", times + 1)
        text = await ctx.durable_execute_async(fetch, (event.input, times))
        if times < 2:
            ctx.send_event(event)  # the received event once more
        else:
            ctx.send_event(OutputEvent([text, str(event.id), event.upstream_action_name]))

    return agent_of(act)


def mutating() -> Agent:
    async def act(event, ctx):
        text = event.input.pop("text")
        event.input["n"] += 1
        ctx.send_event(
            OutputEvent([await ctx.durable_execute_async(fetch, (text, event.input["n"])), event.input["n"]])
        )

    return agent_of(act)


def never_awaited() -> Agent:
    async def act(event, ctx):
        ctx.sleep(100)
        await ctx.durable_execute_async(fetch, event.input)
        ctx.send_event(OutputEvent(event.input))

    return agent_of(act)


def reconciling() -> Agent:
    async def act(event, ctx):
        result = await ctx.durable_execute_async(fetch, event.input, reconciler=lambda: f"got {event.input}")
        second = await ctx.durable_execute_async(fetch_async, result, reconciler=lambda: [result, result])
        ctx.send_event(OutputEvent(second))

    return agent_of(act)


NUMBERS = [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5)]
SCENARIOS = {
    "calls one after another": Scenario(sequential, NUMBERS),
    "calls in parallel": Scenario(parallel, NUMBERS[:3]),
    "awaitables of one action awaited apart": Scenario(awaited_apart, NUMBERS[:3]),
    "sleeps": Scenario(sleeping, NUMBERS[:3]),
    "retries that succeed": Scenario(retrying, NUMBERS[:3], reset=attempts.clear),
    "retries that do not": Scenario(giving_up, NUMBERS[:3]),
    "timeouts": Scenario(timing_out, NUMBERS[:3], latency=lambda call: 0.5 if call.name == "fetch_async" else 0.05),
    "a chain of actions": Scenario(chain, NUMBERS[:3]),
    "two actions on one event": Scenario(two_listeners, NUMBERS[:4], ordered=False),
    "memory": Scenario(counting, NUMBERS),
    "sync and async": Scenario(sync_and_async, NUMBERS),
    "side outputs": Scenario(side_outputs, NUMBERS),
    "failures that are skipped": Scenario(failing("skip"), NUMBERS),
    "calls whose number depends on results": Scenario(looping, [("a", 2), ("b", 1), ("a", 0)]),
    "forwarded events": Scenario(forwarding, NUMBERS[:3]),
    "changed inputs": Scenario(mutating, [(key, {"text": str(n), "n": n}) for key, n in NUMBERS[:3]]),
    "a call never awaited": Scenario(never_awaited, NUMBERS[:3]),
    "reconcilers": Scenario(reconciling, NUMBERS[:3]),
    "many inputs behind a slow one": Scenario(
        sequential, [("a", n) for n in range(6)], interval=0.001, config={"max-queued": 50}
    ),
    "backpressure": Scenario(
        parallel,
        [(f"key {n}", n) for n in range(3)],
        interval=0.001,
        config={"max-in-flight": 2, "num-async-threads": 1},
    ),
    "other kinds of keys": Scenario(sequential, [((1, "x"), 1), (1, 2), ("1", 3), (True, 4), (b"1", 5), (1.0, 6)]),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_anywhere_changes_nothing(name, crash):
    report = crash(SCENARIOS[name], depth=5)
    assert report.points >= 5 * report.steps - 10


@pytest.mark.parametrize("name", SCENARIOS)
def test_several_crashes_in_a_row_change_nothing(name, crash):
    assert crash(SCENARIOS[name], depth=2, crashes=3, sample=40).points >= 10


@pytest.mark.parametrize("name", SCENARIOS)
def test_with_a_store_nothing_known_is_done_again_however_old_the_checkpoint(name, crash):
    crash(replace(SCENARIOS[name], store=in_memory), depth=9, sample=60)


@pytest.mark.parametrize("name", SCENARIOS)
def test_with_a_store_several_crashes_in_a_row_change_nothing(name, crash):
    assert crash(replace(SCENARIOS[name], store=in_memory), depth=9, crashes=4, sample=25, seed=1).points == 25


def test_dead_letters_survive_crashes_and_come_once(crash):
    def make() -> Agent:
        async def bad(event, ctx):
            await ctx.durable_execute_async(fetch, event.input)
            ctx.side_output("reached", event.input)
            if event.input % 2:
                raise ValueError(f"odd: {event.input}")

        return agent_of(bad, on_error="dead_letter")

    crash(Scenario(make, NUMBERS))
