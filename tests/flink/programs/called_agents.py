"""An agent that is called by another one, and remembers how often."""

from __future__ import annotations

from typing import Any

from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from tests.flink.programs.chain import fail_once
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import key_of, numbers
from tests.support.ledger import ask


class Counter(Agent):
    """Asks, and counts its calls for each key of the caller's."""

    @action(InputEvent)
    @staticmethod
    async def count(event: InputEvent, ctx: RunnerContext) -> None:
        answer = await ctx.durable_execute_async(ask, "inner", ctx.key, event.input, ctx.config.get("ledger"), 0.05, "")
        count = (ctx.short_term_memory.get("count") or 0) + 1
        ctx.short_term_memory.set("count", count)
        ctx.send_event(OutputEvent({"answer": answer, "inner": count}))


class Caller(Agent):
    """Calls it, and counts too, under the same name."""

    @action(InputEvent)
    @staticmethod
    async def call(event: InputEvent, ctx: RunnerContext) -> None:
        number = event.input[1]
        (told,) = await ctx.call_agent("counter", number)
        if number == ctx.config.get("fail-at"):
            fail_once(ctx.config.get("marker"))
        outer = (ctx.short_term_memory.get("count") or 0) + 1
        ctx.short_term_memory.set("count", outer)
        ctx.send_event(OutputEvent({"key": ctx.key, "number": number, "outer": outer, **told}))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: count, keys, per_second, ledger, outputs; fail_at, marker."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    config = agents.get_config()
    for option in ("ledger", "fail_at", "marker"):
        config.set(option.replace("_", "-"), spec[option])
    stream = agents.from_datastream(numbers(env, spec["count"], spec["keys"], spec["per_second"]), key_of)
    append_to(stream.apply(Caller().add_agent("counter", Counter())).to_datastream(), spec["outputs"])
