"""Agents and registries the tests of external actions share."""

from __future__ import annotations

from typing import Any

from flink_agents_py import Agent, InputEvent, OutputEvent, action
from flink_agents_py.external import ActionFailedEvent, ActionRegistry, ActionSpec
from flink_agents_py.testing import AgentHarness


def one(spec: ActionSpec | None = None, handler: Any = None) -> ActionRegistry:
    """A registry with one action; its handler gives the parameters back."""
    return ActionRegistry().register(spec or ActionSpec(name="do"), handler or echo)


async def echo(call, session):
    return {"did": call.params}


class Caller(Agent):
    """Calls ``do`` with each input as parameter ``n`` and puts out the code."""

    def __init__(self, registry: ActionRegistry) -> None:
        super().__init__()
        self.add_action_registry(registry)

    @action(InputEvent)
    @staticmethod
    async def go(event: InputEvent, ctx) -> None:
        result = await ctx.call("do", {"n": event.input})
        ctx.send_event(OutputEvent(result.code))


class Tracing(Caller):
    """The same with the key as trace id, so that an equal input is the same deed; and it listens to failures."""

    @action(InputEvent)
    @staticmethod
    async def go(event: InputEvent, ctx) -> None:
        result = await ctx.call("do", {"n": event.input}, trace_id=ctx.key)
        ctx.send_event(OutputEvent((result.code, result.deduplicated)))

    @action(ActionFailedEvent)
    @staticmethod
    def failed(event: ActionFailedEvent, ctx) -> None:
        ctx.send_event(OutputEvent(("failed", event.failed.code, event.failed.call.params)))


def harness(registry: ActionRegistry, agent: type[Caller] = Caller, **options: Any) -> AgentHarness:
    return AgentHarness(agent(registry), **options)


def results(harness: AgentHarness) -> list[dict[str, Any]]:
    return harness.side_output("action-results")


def letters(harness: AgentHarness) -> list[dict[str, Any]]:
    return harness.side_output("dead-letters")
