"""An agent that gives every metric something to show: retries, dead letters, calls that hang, tokens, side outputs."""

from __future__ import annotations

import asyncio
from typing import Any

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import (
    Agent,
    AgentsExecutionEnvironment,
    Event,
    InputEvent,
    OutputEvent,
    RetryPolicy,
    RunnerContext,
    action,
)
from tests.flink.programs.sinks import append_to, discard
from tests.flink.programs.sources import ROW, key_of, numbers

_seen: set[int] = set()


async def look_up(number: int) -> int:
    """Fails the first time for every third number; the last one hangs."""
    if number % 3 == 0 and number not in _seen:
        _seen.add(number)
        raise ConnectionError("refused")
    if number >= 29:
        await asyncio.sleep(3600)
    return number * 2


class ObservedAgent(Agent):
    """Looks a number up, and keeps a second action busy."""

    @action(InputEvent, retry=RetryPolicy(max_attempts=3, initial=0.01, jitter=0.0), on_error="dead_letter")
    @staticmethod
    async def look(event: InputEvent, ctx: RunnerContext) -> None:
        number = event.input[1]
        answer = await ctx.durable_execute_async(look_up, number)
        ctx.record_usage("small-model", prompt_tokens=10, completion_tokens=5, cost=0.002)
        ctx.agent_metric_group.get_counter("lookedUp").inc()
        ctx.agent_metric_group.get_meter("lookedUpPerSec").mark()
        ctx.action_metric_group.get_histogram("answer").update(answer)
        ctx.action_metric_group.get_gauge("newest").update(number)
        if number % 10 == 9:
            raise ValueError(f"no luck with {number}")
        ctx.send_event(Event(type="found", attributes={"answer": answer, "text": "x" * 100}))

    @action("found")
    @staticmethod
    def tell(event: Event, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(Row(str(ctx.key), event.get_attr("answer"))))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: options (of the agents), log (of the side output), event_time."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    for key, value in spec["options"].items():
        agents.get_config().set(key, value)
    stream = numbers(env, 30, 5, forever=True)
    result = agents.from_datastream(stream, key_of, str, event_time=False).apply(ObservedAgent())
    discard(result.to_datastream(ROW))
    lines = result.side_output("event-log").map(lambda line: {"line": line}, Types.PICKLED_BYTE_ARRAY())
    append_to(lines, spec["log"])
