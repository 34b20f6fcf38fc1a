"""A stream of calls as a pipeline: the agent that makes them, and what its builder gives back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flink_agents_py.agent import Agent, action
from flink_agents_py.context import RunnerContext
from flink_agents_py.events import InputEvent, OutputEvent
from flink_agents_py.external.events import ActionFailedEvent
from flink_agents_py.external.records import ActionCall, ActionResult, FailedAction
from flink_agents_py.serde import from_plain

if TYPE_CHECKING:
    from flink_agents_py.external.registry import ActionRegistry


class ActionStage(Agent):
    """Makes the calls it gets as inputs; its outputs are the failures, as ``FailedAction.to_plain()``.

    An input is an :class:`ActionCall`, the dictionary or the JSON text of one. Whatever is none ends as a dead letter
    of the phase ``validate``. The calls of one key are made one after the other.
    """

    def __init__(self, registry: ActionRegistry) -> None:
        super().__init__()
        self.add_action_registry(registry)

    @action(InputEvent)
    @staticmethod
    async def execute(event: InputEvent, ctx: RunnerContext) -> None:
        """Make one call."""
        call = read_call(event.input)
        await ctx.call(call.action, call.params, trace_id=call.trace_id, sequence=call.sequence)

    @action(ActionFailedEvent)
    @staticmethod
    def report(event: ActionFailedEvent, ctx: RunnerContext) -> None:
        """Pass a failure on."""
        ctx.send_event(OutputEvent(event.failed.to_plain()))


def read_call(value: Any) -> ActionCall:
    """A call from what a stream holds; what does not fit stays in it, for the validation to name."""
    if isinstance(value, ActionCall):
        return value
    document = value
    if isinstance(value, (str, bytes)):
        try:
            document = json.loads(value)
        except ValueError:
            document = None
    if not isinstance(document, dict):
        return ActionCall("", "", {"input": value})
    return ActionCall(
        document.get("trace_id", ""),
        document.get("action", ""),
        from_plain(document.get("params", {}), allow_pickle=False),
        document.get("sequence", 0),
    )


@dataclass(frozen=True)
class ActionStreams:
    """What ``execute_actions`` gives on Flink: ``DataStream`` of dictionaries each.

    Args:
        results: ``ActionResult.to_plain()`` of every call.
        dead_letters: ``FailedAction.to_plain()`` of every call that failed.
        audit: what was done when under which spec.
        events: the failures, as the agent's main output: what an agent behind the stage decides on.
    """

    results: Any
    dead_letters: Any
    audit: Any
    events: Any


@dataclass(frozen=True)
class ActionRecords:
    """What ``execute_actions`` gives without Flink: the same as lists."""

    results: list[ActionResult]
    dead_letters: list[FailedAction]
    audit: list[dict[str, Any]]
    events: list[FailedAction]
