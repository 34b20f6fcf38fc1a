"""An agent that shows the framework's threads in its process, and fails once while blocking calls are in flight."""

from __future__ import annotations

from typing import Any

from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from tests.flink.programs.chain import background_threads, fail_once
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import key_of, numbers
from tests.support.ledger import ask_blocking

THREADS = 4


class ThreadsAgent(Agent):
    """Four blocking calls at once for each input."""

    @action(InputEvent)
    @staticmethod
    async def look(event: InputEvent, ctx: RunnerContext) -> None:
        key, number = event.input
        before = background_threads()
        ledger = ctx.config.get("ledger")
        calls = [
            ctx.durable_execute_async(ask_blocking, f"call {index}", key, number, ledger, 0.1)
            for index in range(THREADS)
        ]
        await ctx.gather(*calls)
        if number == ctx.config.get("fail-at"):
            fail_once(ctx.config.get("marker"))
        result = {
            "key": key,
            "sequence": ctx.sequence,
            "number": number,
            "about": {"before": before, "threads": background_threads()},
        }
        ctx.send_event(OutputEvent(result))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: ledger, outputs, marker, fail_at."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    config = agents.get_config()
    config.set("num-async-threads", THREADS)
    for name in ("ledger", "marker"):
        config.set(name, spec[name])
    config.set("fail-at", spec["fail_at"])
    stream = numbers(env, 20, 20, per_second=50)
    append_to(agents.from_datastream(stream, key_of).apply(ThreadsAgent()).to_datastream(), spec["outputs"])
