"""Which actions listen to an event type, resolved once when the operator opens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flink_agents_py.events import Event, InputEvent, OutputEvent, reference_of
from flink_agents_py.plan.signature import function_of
from flink_agents_py.policies import OnError, RetryPolicy, Timeouts

if TYPE_CHECKING:
    from flink_agents_py.plan.action import PlanAction
    from flink_agents_py.plan.plan import AgentPlan


class Route:
    """An action as the drive loop uses it: everything resolved, nothing to look up."""

    __slots__ = ("call", "config", "event_class", "executed", "name", "on_error", "retry", "timeouts")

    def __init__(self, action: PlanAction) -> None:
        self.name: str = action.name
        self.executed = 0  # how often it has finished
        self.call: Callable[..., Any] = action.callable
        self.event_class: type[Event] | None = action.event_class
        self.config: dict[str, Any] = action.config or {}
        self.on_error: OnError = action.on_error
        self.retry: RetryPolicy = action.retry
        self.timeouts: Timeouts = action.timeouts


def event_classes_of(plan: AgentPlan) -> dict[str, type[Event]]:
    """Event classes by reference, for reading events from state.

    Those the actions are annotated with, and those they can name: an action without annotation receives what another
    one has sent, after a restore as before it. The second kind matters for classes that cannot be imported here, those
    of a script: they came along with the functions that name them.
    """
    classes: dict[str, type[Event]] = {reference_of(InputEvent): InputEvent, reference_of(OutputEvent): OutputEvent}
    for action in plan.actions.values():
        function = inspect.unwrap(function_of(action.callable))
        for thing in _names_of(function):
            if isinstance(thing, type) and issubclass(thing, Event) and thing is not Event:
                classes[reference_of(thing)] = thing
    return classes | plan.event_classes()


def _names_of(function: Any) -> Iterator[Any]:
    yield from getattr(function, "__globals__", {}).values()
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # not assigned yet
            yield cell.cell_contents


def routes_of(plan: AgentPlan) -> tuple[dict[str, Route], dict[str, list[Route]]]:
    """Routes by action name, and by event type in plan order."""
    by_name = {name: Route(action) for name, action in plan.actions.items()}
    by_event = {event: [by_name[name] for name in names] for event, names in plan.actions_by_event.items()}
    return by_name, by_event
