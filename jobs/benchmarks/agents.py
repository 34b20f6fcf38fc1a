"""The workloads as agents."""

# ruff: noqa: D102 - the methods are named by Flink or say what they do; their classes say the rest

from __future__ import annotations

from pyflink.common import Row

from flink_agents_py import Agent, Event, InputEvent, OutputEvent, RunnerContext, action
from jobs.benchmarks import gauge
from jobs.benchmarks.calls import call_async, call_blocking
from jobs.benchmarks.workloads import MEMORY_FIELDS


class EchoAgent(Agent):
    """One action: the input goes out again."""

    @action(InputEvent)
    @staticmethod
    def echo(event: InputEvent, ctx: RunnerContext) -> None:
        gauge.tick()
        ctx.send_event(OutputEvent(event.input))


class First(Event):
    """From the first action of the chain to the second."""

    record: Row


class Second(Event):
    """From the second action of the chain to the third."""

    record: Row


class ChainAgent(Agent):
    """Three actions through two custom events."""

    @action(InputEvent)
    @staticmethod
    def one(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(First(record=event.input))

    @action(First)
    @staticmethod
    def two(event: First, ctx: RunnerContext) -> None:
        ctx.send_event(Second(record=event.record))

    @action(Second)
    @staticmethod
    def three(event: Second, ctx: RunnerContext) -> None:
        gauge.tick()
        ctx.send_event(OutputEvent(event.record))


class CounterAgent(Agent):
    """Reads and writes one field of short-term memory."""

    @action(InputEvent)
    @staticmethod
    def count(event: InputEvent, ctx: RunnerContext) -> None:
        memory = ctx.short_term_memory
        count = (memory.get("count") or 0) + 1
        memory.set("count", count)
        gauge.tick()
        ctx.send_event(OutputEvent(Row(event.input[0], count)))


class Memory10Agent(Agent):
    """Writes ten nested fields of short-term memory and reads them back."""

    @action(InputEvent)
    @staticmethod
    def update(event: InputEvent, ctx: RunnerContext) -> None:
        memory = ctx.short_term_memory
        name, number = event.input[0], event.input[1]
        for field in MEMORY_FIELDS:
            memory.set(field, number)
        total = sum(memory.get(field) for field in MEMORY_FIELDS)
        gauge.tick()
        ctx.send_event(OutputEvent(Row(name, total)))


class IoAgent(Agent):
    """One durable call of 100 ms a record, on the event loop."""

    @action(InputEvent)
    @staticmethod
    async def call(event: InputEvent, ctx: RunnerContext) -> None:
        name, number = event.input[0], event.input[1]
        started = gauge.call_started()
        answer = await ctx.durable_execute_async(call_async, number)
        gauge.call_finished(started)
        ctx.send_event(OutputEvent(Row(name, answer)))


class IoPoolAgent(Agent):
    """One durable call of 100 ms a record, on the thread pool."""

    @action(InputEvent)
    @staticmethod
    async def call(event: InputEvent, ctx: RunnerContext) -> None:
        name, number = event.input[0], event.input[1]
        started = gauge.call_started()
        answer = await ctx.durable_execute_async(call_blocking, number)
        gauge.call_finished(started)
        ctx.send_event(OutputEvent(Row(name, answer)))


AGENTS: dict[str, type[Agent]] = {
    "echo": EchoAgent,
    "chain3": ChainAgent,
    "counter": CounterAgent,
    "memory10": Memory10Agent,
    "io": IoAgent,
    "io_sync_pool": IoPoolAgent,
}
