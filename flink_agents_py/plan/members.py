"""What an agent declares: its actions and resources, inherited ones included, in the order they were written."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

from flink_agents_py.agent import ACTION_ATTRIBUTE, RESOURCE_ATTRIBUTE, ActionMarker, AddedAction, Agent
from flink_agents_py.errors import AgentDefinitionError, DuplicateNameError, FlinkAgentsError, NotSerializableError
from flink_agents_py.plan.functions import PythonFunction, qualname_of
from flink_agents_py.plan.importing import found_elsewhere
from flink_agents_py.resources.base import ResourceType
from flink_agents_py.resources.tools import Tool

_SELF_EVENT_CTX = 3
_BOOKKEEPING = frozenset({"_actions", "_agents", "_registries", "_resources"})


@dataclass(frozen=True)
class DeclaredAction:
    """An action as the agent declares it."""

    name: str
    function: Callable[..., Any]
    """To be called as ``(event, ctx)``: already bound where it is a method."""
    marker: ActionMarker
    where: str
    owner: type | None
    """The class whose body holds it."""
    reference: PythonFunction | None
    """How other processes find it; ``None`` if it has to be pickled."""


@dataclass(frozen=True)
class DeclaredResource:
    """A resource as the agent declares it; ``make`` gives the descriptor or the data."""

    name: str
    type: ResourceType
    make: Callable[[], Any]
    where: str


class Receiver:
    """The object that methods with ``self`` are bound to: never the agent the user holds, which stays as it is.

    A class that can be imported elsewhere, made without arguments, and whose instance holds nothing of its own, is made
    anew on the worker. Anything else is copied here and travels by value.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        cls = type(agent)
        self.by_reference = (
            found_elsewhere(cls.__module__, cls.__qualname__, cls)
            and not set(vars(agent)) - _BOOKKEEPING
            and not any(vars(base).get("__slots__") for base in cls.__mro__)
            and _takes_no_arguments(cls)
        )
        self._instance: Any = None

    def bind(self, name: str) -> Callable[..., Any]:
        """The bound method of that name.

        Raises:
            NotSerializableError: the agent's state cannot be copied.
        """
        if self._instance is None:
            self._instance = type(self._agent)() if self.by_reference else self._copy()
        bound: Callable[..., Any] = getattr(self._instance, name)
        return bound

    def _copy(self) -> Any:
        shell = copy.copy(self._agent)
        for name in _BOOKKEEPING:
            vars(shell).pop(name, None)
        try:
            return copy.deepcopy(shell)
        except Exception as error:
            raise NotSerializableError(
                f"the agent object holds something that cannot travel to the workers: {type(error).__name__}: {error}",
                where=f"{type(self._agent).__qualname__}, attributes {', '.join(sorted(vars(shell)))}",
                fix="keep plain values on the agent; put clients, locks and open files into a Resource",
            ) from error


def declared_actions(agent: Agent, report: Callable[[FlinkAgentsError], None]) -> list[DeclaredAction]:
    """All actions: decorated ones from the base classes down, then added ones.

    A subclass that redefines an action replaces it in its place; without a decorator of its own the redefinition keeps
    the triggers and options of the one it replaces, and ``name = None`` removes the action.

    Args:
        report: receives mistakes; the member is left out.
    """
    receiver = Receiver(agent)
    found: dict[str, DeclaredAction] = {}
    for name, value, marker, owner in _decorated(type(agent), ACTION_ATTRIBUTE):
        try:
            found[name] = _decorated_action(type(agent), name, value, marker, owner, receiver)
        except FlinkAgentsError as error:
            report(error)
    for name, added in agent.actions.items():
        where = added.place or f"{type(agent).__qualname__}.add_action({name!r})"
        if name in found:
            report(
                DuplicateNameError(
                    f"action {name!r} is both decorated ({found[name].where}) and added",
                    where=where,
                    fix="give each action of an agent its own name",
                )
            )
            continue
        try:
            found[name] = _added_action(agent, name, added, where, receiver)
        except FlinkAgentsError as error:
            report(error)
    return list(found.values())


def declared_resources(agent: Agent, report: Callable[[FlinkAgentsError], None]) -> list[DeclaredResource]:
    """All resources: decorated ones from the base classes down, then added ones."""
    found: dict[tuple[ResourceType, str], DeclaredResource] = {}
    for name, value, kind, owner in _decorated(type(agent), RESOURCE_ATTRIBUTE):
        where = f"{owner.__qualname__}.{name}"
        make = (
            _tool_maker(agent, name, value, where) if kind is ResourceType.TOOL else _maker(agent, name, value, where)
        )
        found[kind, name] = DeclaredResource(name, kind, make, where)
    for kind, named in agent.resources.items():
        for name, instance in named.items():
            where = getattr(instance, "place", None) or f"{type(agent).__qualname__}.add_resource({name!r})"
            if (kind, name) in found:
                report(
                    DuplicateNameError(
                        f"{kind.value} {name!r} is both decorated ({found[kind, name].where}) and added",
                        where=where,
                        fix="give each resource of one type its own name",
                    )
                )
                continue
            found[kind, name] = DeclaredResource(name, kind, given(instance), where)
    return list(found.values())


def given(instance: Any) -> Callable[[], Any]:
    """A ``make`` for a resource that is there already."""
    return lambda: instance


def _decorated(cls: type, attribute: str) -> Iterator[tuple[str, Any, Any, type]]:
    """(name, value as the class body holds it, marker, class) of each marked member."""
    found: dict[str, tuple[Any, Any, type]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            # @action may sit above or below @staticmethod.
            inner = getattr(value, "__func__", value)
            marker = getattr(value, attribute, None) or getattr(inner, attribute, None)
            if marker is not None:
                found[name] = (value, marker, base)
            elif name in found and value is None:
                del found[name]
            elif name in found:
                found[name] = (value, found[name][1], base)
    for name, (value, marker, base) in found.items():
        yield name, value, marker, base


def _decorated_action(
    cls: type, name: str, value: Any, marker: ActionMarker, owner: type, receiver: Receiver
) -> DeclaredAction:
    where = f"{owner.__qualname__}.{name}"
    if isinstance(value, FunctionType) and _wants_self(value):
        return _method(cls, name, name, marker, where, receiver)
    holder = cls if isinstance(value, classmethod) else owner
    function = getattr(holder, name)
    reference = PythonFunction.reference(function, (holder.__module__, f"{holder.__qualname__}.{name}"))
    return DeclaredAction(name, function, marker, where, owner, reference)


def _added_action(agent: Agent, name: str, added: AddedAction, where: str, receiver: Receiver) -> DeclaredAction:
    function = added.func
    if isinstance(function, MethodType) and function.__self__ is agent:
        # self.add_action("name", [...], self.method), as constructors do
        return _method(type(agent), name, function.__name__, added.marker, where, receiver)
    return DeclaredAction(name, function, added.marker, where, None, PythonFunction.reference(function))


def _method(cls: type, name: str, member: str, marker: ActionMarker, where: str, receiver: Receiver) -> DeclaredAction:
    bound = receiver.bind(member)
    reference = None
    if receiver.by_reference and found_elsewhere(cls.__module__, f"{cls.__qualname__}.{member}", getattr(cls, member)):
        reference = PythonFunction.method(bound, cls, member)
    return DeclaredAction(name, bound, marker, where, cls, reference)


def _wants_self(function: FunctionType) -> bool:
    """Whether a function of a class body is a method: its first parameter is ``self``, or it needs three arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    return bool(positional) and (positional[0].name == "self" or len(required) == _SELF_EVENT_CTX)


def _takes_no_arguments(cls: type) -> bool:
    try:
        inspect.signature(cls).bind()
    except (TypeError, ValueError):
        return False
    return True


def _tool_maker(agent: Agent, name: str, value: Any, where: str) -> Callable[[], Any]:
    if isinstance(value, FunctionType) and next(iter(inspect.signature(value).parameters), "") == "self":
        raise AgentDefinitionError(
            "a tool with self would need the agent object, which does not travel to where tools are called",
            where=where,
            fix="drop self (no @staticmethod needed), and inject what it needs: @tool(injected_args=...)",
        )
    function = getattr(type(agent), name)
    return lambda: Tool.from_callable(function)


def _maker(agent: Agent, name: str, value: Any, where: str) -> Callable[[], Any]:
    wants_self = isinstance(value, FunctionType) and bool(inspect.signature(value).parameters)
    function = getattr(agent if wants_self else type(agent), name)

    def make() -> Any:
        try:
            return function()
        except Exception as error:
            raise AgentDefinitionError(
                f"{qualname_of(function)} raised {type(error).__name__}: {error}",
                where=where,
                fix="a resource function runs when the agent is compiled, without arguments, and returns the resource",
            ) from error

    return make
