"""Functions that YAML files of tests name."""

from __future__ import annotations

from pydantic import BaseModel

from flink_agents_py import Event, InputEvent, OutputEvent, RunnerContext


def shout(event: InputEvent, ctx: RunnerContext) -> None:
    ctx.send_event(OutputEvent(str(event.input).upper() + ctx.action_config.get("mark", "!")))


def count(event: Event, ctx: RunnerContext) -> None:
    ctx.send_event(OutputEvent(f"{ctx.get_action_config_value('name')} {event.type}"))


def look_up(word: str, tenant: str) -> str:
    """Look a word up.

    Args:
        word: to be looked up
    """
    return f"{word} of {tenant}"


def not_an_action() -> None: ...


class Refund(BaseModel):
    order: int


async def refund(call, session):
    return {"paid": call.params["order"]}


async def pay(event: InputEvent, ctx: RunnerContext) -> None:
    result = await ctx.call("refund", {"order": event.input})
    ctx.send_event(OutputEvent(result.value if result.ok else result.code))


async def ask_shouter(event: InputEvent, ctx: RunnerContext) -> None:
    ctx.send_event(OutputEvent(await ctx.call_agent("loud", event.input)))


class Answer(BaseModel):
    text: str
