"""Random agents, crashed at random: programs of calls, waits, memory, events and failures, drawn by Hypothesis."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flink_agents_py.agent import Agent
from flink_agents_py.events import Event, InputEvent, OutputEvent
from flink_agents_py.policies import RetryPolicy
from flink_agents_py.testing import Scenario

RETRY = RetryPolicy(max_attempts=8, initial=0.02, factor=1.2, maximum=0.1)
attempts: Counter = Counter()


class Part(Event):
    """A part of a program, run as an action task of its own."""

    program: list
    where: str


class ProgramError(Exception):
    pass


def on_thread(x: Any) -> int:
    return len(repr(x))


async def on_loop(x: Any) -> int:
    return len(repr(x)) + 1


def refusing(x: Any) -> None:
    raise LookupError(f"refused {x!r}", x)


def shaky(x: Any, *, idempotency_key: str) -> int:
    attempts[idempotency_key] += 1
    if attempts[idempotency_key] <= len(repr(x)) % 3:
        raise ConnectionError("not yet")
    return len(repr(x)) + 2


FUNCTIONS = {"thread": on_thread, "loop": on_loop, "refusing": refusing, "shaky": shaky}


def build() -> Agent:
    async def start(event, ctx):
        await run_program(event.input, "", ctx)

    async def part(event: Part, ctx):
        await run_program(event.program, event.where, ctx)

    agent = Agent().add_action("start", [InputEvent], start, on_error="skip", retry=RETRY)
    return agent.add_action("part", [Part], part, on_error="skip", retry=RETRY)


async def run_program(program: list, where: str, ctx: Any) -> None:  # noqa: C901 - an interpreter is one long list
    """Interpret one program; ``where`` tells its variables from those of others of the run."""
    value = 0
    for number, (operation, argument) in enumerate(program):
        place = f"{where}/{number}"
        if operation == "call":
            value += await call(ctx, argument, place, value)
        elif operation == "sync":
            value += ctx.durable_execute(on_thread, (place, value))
        elif operation == "gather":
            calls = [ctx.durable_execute_async(FUNCTIONS[name], (place, i)) for i, name in enumerate(argument)]
            results = await ctx.gather(*calls, return_exceptions=True)
            value += sum(result if isinstance(result, int) else -1 for result in results)
        elif operation == "apart":
            calls = [ctx.durable_execute_async(on_loop, (place, i)) for i in range(argument)]
            for later in reversed(calls):
                value += await later
        elif operation == "sleep":
            await ctx.sleep(argument)
        elif operation == "loop":
            for i in range(value % (argument + 1)):
                value += await ctx.durable_execute_async(on_loop, (place, i, value))
        elif operation == "memory":
            path = f"variables.{ctx.short_term_memory.escape(place)}.sum"
            value += (ctx.short_term_memory.get(path) or 0) + 1
            ctx.short_term_memory.set(path, value)
        elif operation == "sensory":
            ctx.sensory_memory.set(f"at.{place}", value)
            value += ctx.sensory_memory.get(f"at.{place}") + len(ctx.sensory_memory.get_field_names())
        elif operation == "send":
            ctx.send_event(Part(program=argument, where=place))
        elif operation == "output":
            ctx.send_event(OutputEvent([place, value, ctx.sequence]))
        elif operation == "side":
            ctx.side_output("side", [place, value])
        elif operation == "raise" and value % 2 == argument:
            raise ProgramError(place)


async def call(ctx: Any, name: str, place: str, value: int) -> int:
    try:
        return await ctx.durable_execute_async(FUNCTIONS[name], (place, value))
    except LookupError as error:
        return -len(error.args)


names = st.sampled_from(sorted(FUNCTIONS))
leaves = st.one_of(
    st.tuples(st.just("call"), names),
    st.tuples(st.just("sync"), st.none()),
    st.tuples(st.just("gather"), st.lists(names, max_size=4)),
    st.tuples(st.just("apart"), st.integers(1, 3)),
    st.tuples(st.just("sleep"), st.sampled_from([0, 0.01, 0.1, 1.0, 20.0])),
    st.tuples(st.just("loop"), st.integers(1, 3)),
    st.tuples(st.just("memory"), st.none()),
    st.tuples(st.just("sensory"), st.none()),
    st.tuples(st.just("output"), st.none()),
    st.tuples(st.just("side"), st.none()),
    st.tuples(st.just("raise"), st.integers(0, 1)),
)
programs = st.recursive(
    st.lists(leaves, max_size=5),
    lambda parts: st.lists(st.one_of(leaves, st.tuples(st.just("send"), parts)), max_size=5),
    max_leaves=6,
)
inputs = st.lists(st.tuples(st.sampled_from(["a", "b"]), programs), min_size=1, max_size=4)
configs = st.fixed_dictionaries(
    {},
    optional={
        "max-in-flight": st.sampled_from([1, 3]),
        "num-async-threads": st.sampled_from([1, 2]),
        "state.sequence-cache-size": st.just(1),
    },
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(inputs=inputs, config=configs, crashes=st.integers(1, 3), interval=st.sampled_from([0.001, 0.03]))
def test_a_random_program_survives_random_crashes(inputs, config, crashes, interval, crash):
    scenario = Scenario(build, inputs, config=config, interval=interval, reset=attempts.clear, ordered=False)
    crash(scenario, sample=12, depth=4, crashes=crashes)
