"""What a user writes: an :class:`Agent` with actions and resources.

::

    class Greeter(Agent):
        @action(InputEvent)
        def greet(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(f"hello {event.input}"))

An action is a function of ``(event, ctx)``: a static method (with or without ``@staticmethod``), a method with
``self``, or any callable given to :meth:`Agent.add_action`. It may be ``async def``. Nothing is checked here beyond
types; the compiler (:mod:`flink_agents_py.plan`) checks the whole agent at once and names every mistake.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from flink_agents_py.errors import DuplicateNameError, TriggerError
from flink_agents_py.events import Event
from flink_agents_py.policies import NO_RETRY, NO_TIMEOUTS, OnError, RetryPolicy, Timeouts
from flink_agents_py.resources.base import ResourceDescriptor, ResourceType, SerializableResource
from flink_agents_py.resources.injection import INJECTED_ATTRIBUTE, InjectedArg, injected_args_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from flink_agents_py.external.registry import ActionRegistry


F = TypeVar("F", bound=Callable[..., Any])

ACTION_ATTRIBUTE = "__flink_agents_action__"
RESOURCE_ATTRIBUTE = "__flink_agents_resource__"

Trigger = str | type[Event]


@dataclass(frozen=True)
class ActionMarker:
    """What ``@action`` notes on a function, and what :meth:`Agent.add_action` keeps."""

    triggers: tuple[str, ...]
    on_error: OnError = "fail"
    retry: RetryPolicy = NO_RETRY
    timeouts: Timeouts = NO_TIMEOUTS
    config: dict[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class AddedAction:
    """An action registered by :meth:`Agent.add_action`."""

    name: str
    func: Any
    marker: ActionMarker
    place: str | None = None
    """Where it is declared, if that is a file: ``agents.yaml:12:9 (...)``."""


def action(
    *triggers: Trigger,
    on_error: OnError = "fail",
    retry: RetryPolicy = NO_RETRY,
    timeouts: Timeouts = NO_TIMEOUTS,
    aliases: Iterable[str] = (),
    **config: Any,
) -> Callable[[F], F]:
    """Mark a function as an action.

    Args:
        triggers: event types it listens to: names (``EventType.InputEvent``, ``"my-event"``) or Event subclasses.
        on_error: what becomes of the input if the action raises: ``fail`` | ``dead_letter`` | ``skip``.
        retry: default retry policy of the action's durable calls.
        timeouts: default timeouts of the action's durable calls.
        aliases: earlier names of the action, so that runs that were interrupted inside it go on under the new one.
        config: values the action reads with ``ctx.get_action_config_value``.

    Raises:
        TriggerError: a trigger is neither a string nor an Event subclass.
    """
    marker = ActionMarker(trigger_names(triggers), on_error, retry, timeouts, config, alias_names(aliases))

    def mark(func: F) -> F:
        # Works on a plain function as on a staticmethod object, so the order of the two decorators does not matter.
        setattr(func, ACTION_ATTRIBUTE, marker)
        return func

    return mark


def alias_names(aliases: Iterable[str]) -> tuple[str, ...]:
    """Earlier names of an action; one of them may be given by itself."""
    return (aliases,) if isinstance(aliases, str) else tuple(aliases)


def trigger_names(triggers: Iterable[Any]) -> tuple[str, ...]:
    """Event-type names of triggers given as names or classes."""
    names: list[str] = []
    for trigger in triggers:
        if isinstance(trigger, str):
            names.append(trigger)
        elif inspect.isclass(trigger) and issubclass(trigger, Event) and trigger.EVENT_TYPE:
            names.append(trigger.EVENT_TYPE)
        else:
            raise TriggerError(
                f"{trigger!r} is no trigger",
                where="@action(...) or add_action(...)",
                fix="give an event type name such as EventType.InputEvent, or a subclass of Event",
            )
    return tuple(names)


class Agent:
    """Base class of agents. Subclass it and decorate methods, or build one with ``add_action`` / ``add_resource``."""

    def __init__(self) -> None:
        self._actions: dict[str, AddedAction] = {}
        self._resources: dict[ResourceType, dict[str, ResourceDescriptor | SerializableResource]] = {}
        self._registries: list[ActionRegistry] = []
        self._agents: dict[str, Agent] = {}

    @property
    def actions(self) -> dict[str, AddedAction]:
        """Actions added by :meth:`add_action` (decorated ones are found by the compiler)."""
        # A subclass may forget super().__init__(); reading must not punish it.
        actions: dict[str, AddedAction] = self.__dict__.setdefault("_actions", {})
        return actions

    @property
    def resources(self) -> dict[ResourceType, dict[str, ResourceDescriptor | SerializableResource]]:
        """Resources added by :meth:`add_resource`."""
        resources: dict[ResourceType, dict[str, ResourceDescriptor | SerializableResource]]
        resources = self.__dict__.setdefault("_resources", {})
        return resources

    def add_action(
        self,
        name: str,
        trigger_conditions: Iterable[Trigger],
        func: Callable[..., Any],
        *,
        on_error: OnError = "fail",
        retry: RetryPolicy = NO_RETRY,
        timeouts: Timeouts = NO_TIMEOUTS,
        aliases: Iterable[str] = (),
        **config: Any,
    ) -> Self:
        """Add an action under ``name``; see :func:`action` for the arguments.

        Raises:
            DuplicateNameError: the name is taken in this agent.
        """
        if name in self.actions:
            raise DuplicateNameError(
                f"action {name!r} is added twice",
                where=f"{type(self).__qualname__}.add_action",
                fix="give each action of an agent its own name",
            )
        triggers = (trigger_conditions,) if isinstance(trigger_conditions, (str, type)) else tuple(trigger_conditions)
        marker = ActionMarker(trigger_names(triggers), on_error, retry, timeouts, config, alias_names(aliases))
        self.actions[name] = AddedAction(name, func, marker)
        return self

    def add_resource(
        self, name: str, resource_type: ResourceType, instance: ResourceDescriptor | SerializableResource
    ) -> Self:
        """Add a resource under ``name``.

        Raises:
            DuplicateNameError: a resource of that type and name exists in this agent.
        """
        of_type = self.resources.setdefault(resource_type, {})
        if name in of_type:
            raise DuplicateNameError(
                f"{resource_type.value} {name!r} is added twice",
                where=f"{type(self).__qualname__}.add_resource",
                fix="give each resource of one type its own name",
            )
        of_type[name] = instance
        return self

    @property
    def action_registries(self) -> list[ActionRegistry]:
        """Registries added by :meth:`add_action_registry`."""
        registries: list[ActionRegistry] = self.__dict__.setdefault("_registries", [])
        return registries

    @property
    def agents(self) -> dict[str, Agent]:
        """Agents added by :meth:`add_agent`."""
        agents: dict[str, Agent] = self.__dict__.setdefault("_agents", {})
        return agents

    def add_agent(self, name: str, agent: Agent) -> Self:
        """Let actions of this agent call another one: by ``ctx.call_agent``, by an event, or as a tool of a model.

        It becomes part of this agent's plan and job. Its resources are its own and the environment's.

        Raises:
            DuplicateNameError: there is one of that name.
        """
        if name in self.agents:
            raise DuplicateNameError(
                f"agent {name!r} is added twice",
                where=f"{type(self).__qualname__}.add_agent",
                fix="give each agent that is called its own name",
            )
        self.agents[name] = agent
        return self

    def add_action_registry(self, registry: ActionRegistry) -> Self:
        """Let the agent call the external actions of a registry: ``await ctx.call(name, params)``."""
        if registry not in self.action_registries:
            self.action_registries.append(registry)
        return self


def _resource_decorator(resource_type: ResourceType) -> Callable[[F], F]:
    def mark(func: F) -> F:
        setattr(func, RESOURCE_ATTRIBUTE, resource_type)
        return func

    mark.__name__ = resource_type.value
    mark.__doc__ = (
        f"Mark a function without arguments that returns the {resource_type.value.replace('_', ' ')} "
        "as a ResourceDescriptor or a SerializableResource; it runs once, when the agent is compiled."
    )
    return mark


def tool(func: Any = None, *, injected_args: Mapping[str, InjectedArg | dict[str, Any]] | None = None) -> Any:
    """Mark a function as a tool; ``@tool`` or ``@tool(injected_args={"tenant": InjectedArg.from_config("tenant")})``.

    In an agent class it becomes a resource of the agent under its own name. What a model is told of it comes from its
    signature, annotations and docstring.

    Args:
        injected_args: parameters the model does not see, and where their values come from.

    Raises:
        SignatureError: one of those is no parameter of the function.
    """

    def mark(target: F) -> F:
        inner = getattr(target, "__func__", target)
        setattr(inner, INJECTED_ATTRIBUTE, injected_args_of(inner, injected_args))
        setattr(target, RESOURCE_ATTRIBUTE, ResourceType.TOOL)
        return target

    return mark if func is None else mark(func)


prompt = _resource_decorator(ResourceType.PROMPT)
chat_model_connection = _resource_decorator(ResourceType.CHAT_MODEL_CONNECTION)
chat_model_setup = _resource_decorator(ResourceType.CHAT_MODEL)
embedding_model_connection = _resource_decorator(ResourceType.EMBEDDING_MODEL_CONNECTION)
embedding_model_setup = _resource_decorator(ResourceType.EMBEDDING_MODEL)
vector_store = _resource_decorator(ResourceType.VECTOR_STORE)
mcp_server = _resource_decorator(ResourceType.MCP_SERVER)
skills = _resource_decorator(ResourceType.SKILLS)
