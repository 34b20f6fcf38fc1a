"""Calls that hang for long on some keys, while other keys flow."""

from __future__ import annotations

from typing import Any

from pyflink.common import Row
from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import ROW, key_of, numbers
from tests.support.ledger import ask


class HangingAgent(Agent):
    """One call; a long one for the keys called ``hanging N``."""

    @action(InputEvent)
    @staticmethod
    async def call(event: InputEvent, ctx: RunnerContext) -> None:
        key, number = event.input
        gate = ctx.config.get("gate") if key.startswith("hanging") else ""
        answer = await ctx.durable_execute_async(ask, "call", key, number, ctx.config.get("ledger"), 0.02, gate)
        result = {"key": key, "sequence": ctx.sequence, "number": number, "answers": [answer]}
        ctx.send_event(OutputEvent(result))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: ledger, outputs, hanging (keys, the first inputs), gate (until it exists), flowing (inputs after those)."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    agents.get_config().set("ledger", spec["ledger"])
    agents.get_config().set("gate", spec["gate"])
    hanging, flowing = spec["hanging"], spec["flowing"]

    def name(record: Any) -> Row:
        number = record[1]
        return Row(f"hanging {number}" if number < hanging else f"flowing {number % 10}", number)

    stream = (
        numbers(env, hanging + flowing, 1, spec["per_second"], forever=True)
        .map(name, ROW)
        .set_parallelism(1)
        .uid("name")
    )
    append_to(agents.from_datastream(stream, key_of).apply(HangingAgent()).to_datastream(), spec["outputs"])
