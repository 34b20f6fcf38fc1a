"""Which actions listen to an event type, resolved once when the operator opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flink_agents_py.events import Event
from flink_agents_py.policies import OnError, RetryPolicy, Timeouts

if TYPE_CHECKING:
    from flink_agents_py.plan.action import PlanAction
    from flink_agents_py.plan.plan import AgentPlan


class Route:
    """An action as the drive loop uses it: everything resolved, nothing to look up."""

    __slots__ = ("call", "config", "event_class", "name", "on_error", "retry", "timeouts")

    def __init__(self, action: PlanAction) -> None:
        self.name: str = action.name
        self.call: Callable[..., Any] = action.callable
        self.event_class: type[Event] | None = action.event_class
        self.config: dict[str, Any] = action.config or {}
        self.on_error: OnError = action.on_error
        self.retry: RetryPolicy = action.retry
        self.timeouts: Timeouts = action.timeouts


def routes_of(plan: AgentPlan) -> tuple[dict[str, Route], dict[str, list[Route]]]:
    """Routes by action name, and by event type in plan order."""
    by_name = {name: Route(action) for name, action in plan.actions.items()}
    by_event = {event: [by_name[name] for name in names] for event, names in plan.actions_by_event.items()}
    return by_name, by_event
