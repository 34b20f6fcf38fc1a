"""Deeds that are remembered in keyed state, and an agent that had no external actions when its state was written."""

from __future__ import annotations

from typing import Any

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from flink_agents_py.external import ActionCall, ActionRegistry, ActionSession, ActionSpec
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import ROW, key_of, silence
from tests.support.ledger import append


async def do(call: ActionCall, session: ActionSession) -> Any:
    append(call.params["ledger"], deed=session.idempotency_key)
    return {"pong": call.params["trace"]}


class Doer(Agent):
    """One deed for each key, asked for with each of its inputs."""

    def __init__(self, registry: ActionRegistry | None) -> None:
        super().__init__()
        if registry is not None:
            self.add_action_registry(registry)

    @action(InputEvent)
    @staticmethod
    async def go(event: InputEvent, ctx: RunnerContext) -> None:
        key, number = event.input
        said = {"key": key, "number": number, "sequence": ctx.sequence, "mode": ctx.config.get("doing")}
        if ctx.config.get("doing"):
            result = await ctx.call("do", {"ledger": ctx.config.get("ledger"), "trace": key}, trace_id=key)
            said.update(code=result.code, value=result.value, deduplicated=result.deduplicated)
        ctx.send_event(OutputEvent(said))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: keys, round, doing, ledger, outputs, audit."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    for name in ("doing", "ledger"):
        agents.get_config().set(name, spec[name])
    registry = ActionRegistry().register(ActionSpec(name="do"), do) if spec["doing"] else None
    # Under another uid in each round, so that it does not go on where that of the round before ended.
    inputs = [Row(f"key {number}", number) for number in range(spec["keys"])]
    source = env.from_collection(inputs, ROW).uid(f"inputs of round {spec['round']}")
    stream = source.union(silence(env))
    builder = agents.from_datastream(stream, key_of, Types.STRING(), event_time=False).apply(Doer(registry))
    append_to(builder.to_datastream(), spec["outputs"])
    if registry is not None:
        append_to(builder.side_output("action-audit"), spec["audit"], "audit")
