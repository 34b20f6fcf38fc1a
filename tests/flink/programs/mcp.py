"""Sums by an MCP server; each output tells which process of it answered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import (
    Agent,
    AgentsExecutionEnvironment,
    InputEvent,
    OutputEvent,
    ResourceDescriptor,
    ResourceName,
    ResourceType,
    RetryPolicy,
    RunnerContext,
    action,
)
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import key_of, numbers

PATIENT = RetryPolicy(max_attempts=40, initial=0.1, factor=1.5, maximum=1.0, retry_on=("ConnectionError",))


async def wait_for(gate: str) -> None:
    """Until the file is there."""
    while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - it is another process that opens it
        await asyncio.sleep(0.05)


class Adder(Agent):
    """Adds a hundred to each number, and asks who did it; numbers from half of them on wait for the gate."""

    @action(InputEvent, retry=PATIENT)
    @staticmethod
    async def add(event: InputEvent, ctx: RunnerContext) -> None:
        server = ctx.get_resource("calculator", ResourceType.MCP_SERVER)
        number = event.input[1]
        if number >= ctx.config.get("half"):
            await ctx.durable_execute_async(wait_for, ctx.config.get("gate"))
        total = await ctx.durable_execute_async(server.acall_tool, "add", {"a": number, "b": 100})
        pid = await ctx.durable_execute_async(server.acall_tool, "pid", {})
        ctx.send_event(OutputEvent({"number": number, "total": total, "server": pid}))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: server (arguments of MCPServer), count, keys, gate, outputs."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    agents.get_config().set("half", spec["count"] // 2)
    agents.get_config().set("gate", spec["gate"])
    server = ResourceDescriptor(ResourceName.MCP_SERVER, **spec["server"])
    agents.add_resource("calculator", ResourceType.MCP_SERVER, server)
    stream = numbers(env, spec["count"], spec["keys"])
    append_to(agents.from_datastream(stream, key_of).apply(Adder()).to_datastream(), spec["outputs"])
