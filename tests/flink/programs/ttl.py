"""An agent whose short-term memory expires between its inputs, or while they wait."""

from __future__ import annotations

from typing import Any

from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import key_of, numbers


class ForgettingAgent(Agent):
    """Sleeps, tells what is there, and sets it anew (or, if asked to, sets it the first time alone)."""

    @action(InputEvent)
    @staticmethod
    async def tell(event: InputEvent, ctx: RunnerContext) -> None:
        number = event.input[1]
        sleeps = ctx.config.get("sleeps")
        if sleeps[number]:
            await ctx.sleep(sleeps[number])
        memory = ctx.short_term_memory
        found = {"value": memory.get("user.name"), "object": memory.is_exist("user"), "names": memory.get_field_names()}
        if number == 0 or not ctx.config.get("once"):
            memory.set("user.name", number)
        ctx.send_event(OutputEvent({"number": number, **found}))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: outputs, sleeps (seconds by input), once, per_second, config."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    config = agents.get_config()
    for key, value in {"sleeps": spec["sleeps"], "once": spec.get("once", False), **spec["config"]}.items():
        config.set(key, value)
    stream = numbers(env, len(spec["sleeps"]), 1, spec.get("per_second", 0))
    append_to(agents.from_datastream(stream, key_of).apply(ForgettingAgent()).to_datastream(), spec["outputs"])
