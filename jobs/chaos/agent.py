"""The agent of the chaos job: five durable calls an input in two actions, memory, and failures that are dead letters.

For each input ``(key, number)``: ``first``; then ``left`` (coroutine) and ``right`` (thread) at once; an event; then
``note`` (on the operator thread) and ``last``; an output. Some inputs fail after ``first``.
"""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

from flink_agents_py import Agent, Event, InputEvent, OutputEvent, RunnerContext, action
from flink_agents_py.resources.base import Resource, ResourceType
from jobs.chaos.records import append

CONNECTION = ResourceType.CHAT_MODEL_CONNECTION


def is_bad(number: int) -> bool:
    """Whether the agent fails on that input."""
    return number % 29 == 13  # noqa: PLR2004 - any number would do


class Service(Resource):
    """The world outside, which remembers every call. One object per subtask and attempt of the job."""

    def __init__(self, ledger: str, seconds: float) -> None:
        self.ledger = ledger
        self.seconds = seconds
        self.attempt = uuid4().hex

    async def ask(self, call: str, key: str, number: int, *, idempotency_key: str) -> str:
        """A slow call."""
        self._note(call, key, number, idempotency_key)
        await asyncio.sleep(self.seconds)
        return answer(call, key, number)

    def ask_blocking(self, call: str, key: str, number: int, *, idempotency_key: str) -> str:
        """The same, blocking its thread."""
        self._note(call, key, number, idempotency_key)
        time.sleep(self.seconds)
        return answer(call, key, number)

    def tell(self, call: str, key: str, number: int, *, idempotency_key: str) -> str:
        """A quick call."""
        self._note(call, key, number, idempotency_key)
        return answer(call, key, number)

    def _note(self, call: str, key: str, number: int, idempotency_key: str) -> None:
        identity = {"call": call, "key": key, "number": number, "idempotency_key": idempotency_key}
        append(self.ledger, **identity, attempt=self.attempt)


def answer(call: str, key: str, number: int) -> str:
    """What a call returns."""
    return f"{call}:{key}:{number}"


class Answered(Event):
    """What the first action found out."""

    number: int
    answers: list[str]


class ChaosAgent(Agent):
    """See the module."""

    @action(InputEvent, on_error="dead_letter")
    @staticmethod
    async def question(event: InputEvent, ctx: RunnerContext) -> None:
        """Ask three times."""
        key, number = event.input
        service = ctx.get_resource("service", CONNECTION)
        first = await ctx.durable_execute_async(service.ask, "first", key, number)
        if is_bad(number):
            raise ValueError(f"{number} is bad")
        left, right = await ctx.gather(
            ctx.durable_execute_async(service.ask, "left", key, number),
            ctx.durable_execute_async(service.ask_blocking, "right", key, number),
        )
        ctx.send_event(Answered(number=number, answers=[first, left, right]))

    @action(Answered)
    @staticmethod
    async def conclude(event: Answered, ctx: RunnerContext) -> None:
        """Ask twice more, remember, answer."""
        memory = ctx.short_term_memory
        count, total = (memory.get("count") or 0) + 1, (memory.get("total") or 0) + event.number
        service = ctx.get_resource("service", CONNECTION)
        note = ctx.durable_execute(service.tell, "note", ctx.key, event.number)
        last = await ctx.durable_execute_async(service.ask, "last", ctx.key, event.number)
        memory.set("count", count)
        memory.set("total", total)
        result = {
            "event_id": str(event.id),
            "key": ctx.key,
            "sequence": ctx.sequence,
            "number": event.number,
            "count": count,
            "total": total,
            "answers": [*event.answers, note, last],
        }
        ctx.send_event(OutputEvent(result))
