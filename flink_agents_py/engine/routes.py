"""Which actions listen to an event type, resolved once when the operator opens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flink_agents_py.events import Event, InputEvent, OutputEvent, reference_of
from flink_agents_py.plan.signature import function_of
from flink_agents_py.policies import NO_RETRY, NO_TIMEOUTS, RetryPolicy, Timeouts

if TYPE_CHECKING:
    from flink_agents_py.engine.versions import PlanVersion
    from flink_agents_py.plan.action import PlanAction
    from flink_agents_py.plan.plan import AgentPlan


class Route:
    """An action as the drive loop uses it: everything resolved, nothing to look up."""

    __slots__ = ("call", "config", "event_class", "executed", "name", "on_error", "retry", "timeouts", "version")

    version: PlanVersion

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.executed = 0  # how often it has finished
        self.call = call
        self.event_class: type[Event] | None = None
        self.config: dict[str, Any] = {}
        self.on_error: str = "fail"  # or, of a missing action, what plan.on-missing-action says
        self.retry: RetryPolicy = NO_RETRY
        self.timeouts: Timeouts = NO_TIMEOUTS

    @classmethod
    def of(cls, action: PlanAction) -> Route:
        """The route of an action.

        Raises:
            FlinkAgentsError: its function, or a class that it needs, is not here.
        """
        route = cls(action.name, action.callable)
        route.event_class = action.event_class
        route.config = action.config or {}
        route.on_error = action.on_error
        route.retry = action.retry
        route.timeouts = action.timeouts
        return route


def event_classes_of(actions: Iterable[PlanAction]) -> dict[str, type[Event]]:
    """Event classes by reference, for reading events from state.

    Those the actions are annotated with, and those they can name: an action without annotation receives what another
    one has sent, after a restore as before it. The second kind matters for classes that cannot be imported here, those
    of a script: they came along with the functions that name them.
    """
    classes: dict[str, type[Event]] = {reference_of(InputEvent): InputEvent, reference_of(OutputEvent): OutputEvent}
    annotated: dict[str, type[Event]] = {}
    for action in actions:
        annotated.update((reference_of(cls), cls) for cls in action.event_classes)
        function = inspect.unwrap(function_of(action.callable))
        for thing in _names_of(function):
            if isinstance(thing, type) and issubclass(thing, Event) and thing is not Event:
                classes[reference_of(thing)] = thing
    return classes | annotated


def _names_of(function: Any) -> Iterator[Any]:
    yield from getattr(function, "__globals__", {}).values()
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # not assigned yet
            yield cell.cell_contents


def routes_of(
    plan: AgentPlan, route: Callable[[PlanAction], Route] = Route.of
) -> tuple[dict[str, Route], dict[str, list[Route]]]:
    """Routes by action name, and by event type in plan order.

    Args:
        route: makes the route of an action.
    """
    by_name = {name: route(action) for name, action in plan.actions.items()}
    by_event = {event: [by_name[name] for name in names] for event, names in plan.actions_by_event.items()}
    return by_name, by_event
