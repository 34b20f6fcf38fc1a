"""The agent of the crash tests: four durable calls in two actions, parallel ones among them, a sleep, and memory.

Each input of a key: ``first``; then ``left`` (coroutine) and ``right`` (thread) at once; a sleep; an event; ``last``.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, Event, InputEvent, OutputEvent, RunnerContext, action
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import key_of, numbers
from tests.support.ledger import append, ask, ask_blocking

CALLS = ("first", "left", "right", "last")


class Answered(Event):
    """What the first action found out."""

    number: int
    answers: list[str]


class ChainAgent(Agent):
    """See the module."""

    @action(InputEvent)
    @staticmethod
    async def question(event: InputEvent, ctx: RunnerContext) -> None:
        key, number = event.input
        about = (key, number, ctx.config.get("ledger"), ctx.config.get("seconds"))
        first = await ctx.durable_execute_async(ask, "first", *about, gate(ctx, "first", number))
        left, right = await ctx.gather(
            ctx.durable_execute_async(ask, "left", *about, gate(ctx, "left", number)),
            ctx.durable_execute_async(ask_blocking, "right", *about, gate(ctx, "right", number)),
        )
        await ctx.sleep(0.02)
        ctx.send_event(Answered(number=number, answers=[first, left, right]))

    @action(Answered)
    @staticmethod
    async def conclude(event: Answered, ctx: RunnerContext) -> None:
        memory = ctx.short_term_memory
        count, total = memory.get("count") or 0, memory.get("total") or 0
        about = (ctx.key, event.number, ctx.config.get("ledger"), ctx.config.get("seconds"))
        last = await ctx.durable_execute_async(ask, "last", *about, gate(ctx, "last", event.number))
        memory.set("count", count + 1)
        memory.set("total", total + event.number)
        if event.number == ctx.config.get("fail-at"):
            fail_once(ctx.config.get("marker"))
        result = {
            "key": ctx.key,
            "sequence": ctx.sequence,
            "number": event.number,
            "count": count + 1,
            "total": total + event.number,
            "answers": [*event.answers, last],
        }
        ctx.send_event(OutputEvent(result))


def gate(ctx: RunnerContext, name: str, number: int) -> str:
    """The gate that holds the call ``name`` of an input: the last one at or before its number, for one of its calls."""
    if CALLS[number % len(CALLS)] != name:
        return ""
    return next((path for first, path in reversed(ctx.config.get("gates")) if number >= first), "")


def fail_once(marker: str) -> None:
    """Raise, unless it was done before; the marker tells."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    append(f"{marker}.threads", threads=background_threads())
    raise ValueError("the one failure of this job")


def background_threads() -> list[str]:
    """Names of the threads the framework has in this process."""
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("flink-agents-py"))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: count, keys, ledger, outputs; per_second, seconds; fail_at, marker; gates; forever; config.

    ``gates`` are pairs of a number and a path: inputs from that number on, up to the next gate's, are held, each in
    another one of its calls, until the file exists.
    """
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    config = agents.get_config()
    config.set("ledger", spec["ledger"])
    config.set("seconds", spec.get("seconds", 0.05))
    config.set("fail-at", spec.get("fail_at", -1))
    config.set("marker", spec.get("marker", ""))
    config.set("gates", spec.get("gates", []))
    for key, value in spec.get("config", {}).items():
        config.set(key, value)
    forever = spec.get("forever", False)
    stream = numbers(env, spec["count"], spec["keys"], spec.get("per_second", 0), forever=forever)
    append_to(agents.from_datastream(stream, key_of).apply(ChainAgent()).to_datastream(), spec["outputs"])
