"""One action of a plan: what triggers it, what it runs, how it fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flink_agents_py.events import Event
from flink_agents_py.plan.conditions import Condition, read_condition
from flink_agents_py.plan.functions import PythonFunction
from flink_agents_py.plan.importing import resolve
from flink_agents_py.plan.signature import EventHint, check_signature, event_hint, is_async
from flink_agents_py.plan.triggers import Triggers, triggers_of
from flink_agents_py.plan.values import from_document
from flink_agents_py.policies import NO_RETRY, NO_TIMEOUTS, OnError, RetryPolicy, Timeouts


class PlanAction(BaseModel):
    """An action; its function is resolved when first asked for, so a plan can be read where its code is not."""

    model_config = ConfigDict(extra="forbid", validate_by_name=False, validate_by_alias=True)

    name: str = Field(min_length=1)
    exec: PythonFunction
    trigger_conditions: list[str] = Field(
        min_length=1, description="event types and CEL expressions, any of which triggers the action"
    )
    # Kept as it is in the JSON, so that reading a plan imports none of the classes its values may be of.
    encoded_config: dict[str, Any] = Field(
        default={}, alias="config", description="values for ctx.get_action_config_value, encoded by serde"
    )
    on_error: OnError = "fail"
    retry: RetryPolicy = NO_RETRY
    timeouts: Timeouts = NO_TIMEOUTS
    aliases: list[str] = Field(default=[], description="earlier names, under which interrupted runs know it")

    @cached_property
    def event_types(self) -> list[str]:
        """Event types that trigger the action whatever is in the event, each once."""
        return self._triggers.event_types

    @cached_property
    def conditions(self) -> list[Condition]:
        """Expressions that trigger the action where they are true.

        Raises:
            TriggerError: one is wrong; the message shows the place.
        """
        return [read_condition(source, f"action {self.name!r}") for source in self._triggers.expressions]

    @property
    def heard_types(self) -> list[str] | None:
        """Event types that can trigger the action; ``None``: a condition does not say of which types its events are."""
        types = dict.fromkeys(self.event_types)
        for condition in self.conditions:
            if condition.event_types is None:
                return None
            types.update(dict.fromkeys(condition.event_types))
        return list(types)

    @cached_property
    def _triggers(self) -> Triggers:
        return triggers_of(self.trigger_conditions, f"action {self.name!r}")

    @cached_property
    def config(self) -> dict[str, Any]:
        """Configuration given with the action.

        Raises:
            PlanFormatError: a value is of a class that is not here.
        """
        return from_document(self.encoded_config, f"config of action {self.name!r}")

    @cached_property
    def callable(self) -> Callable[..., Any]:
        """The function of ``(event, ctx)``.

        Raises:
            FunctionNotFoundError: it cannot be imported or unpickled here.
            SignatureError: what is found under its name is no longer an action.
        """
        function = self.exec.as_callable()
        check_signature(function, f"action {self.name!r} ({self.exec.module}:{self.exec.qualname})")
        return function

    @cached_property
    def is_async(self) -> bool:
        """Whether :attr:`callable` is an ``async def``."""
        return is_async(self.callable)

    @cached_property
    def event_class(self) -> type[Event] | None:
        """The one Event subclass the event parameter is annotated with; the engine delivers that type."""
        return self._hint.event_class

    @cached_property
    def event_classes(self) -> tuple[type[Event], ...]:
        """All Event subclasses the annotation names (several in a Union)."""
        return self._hint.classes

    def remember(self, function: Callable[..., Any], hint: EventHint) -> None:
        """Take what the compiler found out, so that a plan runs where it was compiled without loading anything."""
        self.__dict__["callable"] = function
        self.__dict__["_hint"] = hint

    @cached_property
    def _hint(self) -> EventHint:
        if self.exec.pickled_as is not None:
            # Pickled with the function: a string annotation alone would not make the class travel.
            return self.exec.annotated_events()
        return event_hint(self.callable, owner=self._owner())

    def _owner(self) -> type | None:
        owner_name = self.exec.qualname.rpartition(".")[0]
        owner = resolve(self.exec.module, owner_name, what=f"action {self.name!r}") if owner_name else None
        return owner if isinstance(owner, type) else None

    def to_document(self) -> dict[str, Any]:
        """The action in plan JSON; what is at its default is left out, except ``config``."""
        document = self.model_dump(mode="json", by_alias=True, include={"name", "exec", "trigger_conditions"})
        document["config"] = self.encoded_config
        if self.on_error != "fail":
            document["on_error"] = self.on_error
        if self.retry != NO_RETRY:
            document["retry"] = self.retry.model_dump(mode="json")
        if self.timeouts != NO_TIMEOUTS:
            document["timeouts"] = self.timeouts.model_dump(mode="json")
        if self.aliases:
            document["aliases"] = self.aliases
        return document
