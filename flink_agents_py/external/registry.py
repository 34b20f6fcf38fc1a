"""Binds specs to handlers, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flink_agents_py.errors import AgentDefinitionError, DuplicateNameError
from flink_agents_py.external.spec import ActionSpec


@dataclass(frozen=True)
class Registration:
    """A spec and its handler: an object, a function, a class (made without arguments on the worker), ``module:attr``.

    ``handler`` is ``None`` where a watched file changes the spec of an action that is registered elsewhere.
    """

    spec: ActionSpec
    handler: Any


class ActionRegistry:
    """The external actions of an agent or a pipeline.

    ::

        registry = ActionRegistry()

        @registry.action(ActionSpec(name="refund", parameters=Refund, target="billing"))
        async def refund(call, session):
            answer = await session.http.post("http://billing/refunds", json=call.params)
            return answer.json()

        registry.register(ActionSpec(name="notify"), "our_package.handlers:Notify")
        registry.load("actions.json")

    Handlers travel by name where a worker can import them, else by value; they are resolved on the TaskManager.

    Args:
        watch: a file like those of :meth:`load`, at this path on every machine. Every subtask reads it, and looks at it
            again every ``watch_interval_s`` seconds, as long as calls are made. What it says replaces what was
            registered before, action by action; a change applies to calls that begin after it. A file that is wrong is
            reported and counted, and what was in force stays so.
    """

    def __init__(self, *, watch: str | Path | None = None, watch_interval_s: float = 5.0) -> None:
        self.watch = None if watch is None else str(Path(watch).absolute())
        self.watch_interval_s = float(watch_interval_s)
        self._actions: dict[str, Registration] = {}

    def register(self, spec: ActionSpec, handler: Any) -> ActionRegistry:
        """Add an action.

        Args:
            handler: an object with ``handle(call, session)``, a function of the same arguments, a class of such
                objects, or ``"module:attr"`` of any of these.

        Raises:
            DuplicateNameError: there is one of that name.
            AgentDefinitionError: the handler is none.
        """
        if not isinstance(spec, ActionSpec):
            raise AgentDefinitionError(
                f"an action is registered with an ActionSpec, not a {type(spec).__name__}",
                where="ActionRegistry.register(...)",
                fix='registry.register(ActionSpec(name="..."), handler)',
            )
        if spec.name in self._actions:
            raise DuplicateNameError(
                f"external action {spec.name!r} is registered twice",
                where="ActionRegistry",
                fix="give each action its own name",
            )
        check_handler(handler, spec.name)
        self._actions[spec.name] = Registration(spec, handler)
        return self

    def action(self, spec: ActionSpec) -> Callable[[Any], Any]:
        """Decorator: register a function or a class of handlers under ``spec``."""

        def decorate(handler: Any) -> Any:
            self.register(spec, handler)
            return handler

        return decorate

    def load(self, path: str | Path) -> ActionRegistry:
        """Add the actions of a file: ``{"actions": [{"name": ..., "handler": "module:attr", ...}]}``, JSON or YAML.

        Everything in an entry but ``handler`` is the spec.

        Raises:
            ConfigError: the file cannot be read, or an entry is wrong; the message names file and entry.
        """
        from flink_agents_py.external.specfile import read_registrations

        for registration in read_registrations(path):
            self.register(registration.spec, registration.handler)
        return self

    def specs(self) -> dict[str, ActionSpec]:
        """All specs, by name."""
        return {name: registration.spec for name, registration in self._actions.items()}

    def tools(self) -> list[dict[str, Any]]:
        """All actions as models are told of tools: name, description, parameter schema."""
        return [registration.spec.as_tool() for registration in self._actions.values()]

    def __iter__(self) -> Iterator[Registration]:
        return iter(self._actions.values())

    def __len__(self) -> int:
        return len(self._actions)

    def __contains__(self, name: object) -> bool:
        return name in self._actions


def check_handler(handler: Any, name: str) -> None:
    """Refuse what cannot be a handler.

    Raises:
        AgentDefinitionError: it is none.
    """
    if isinstance(handler, str):
        module, _, attribute = handler.partition(":")
        if module and attribute:
            return
    elif isinstance(handler, type):
        if callable(getattr(handler, "handle", None)):
            return
    else:
        handle = getattr(handler, "handle", handler)
        if callable(handle) and _takes_two(handle):
            return
    raise AgentDefinitionError(
        f"{handler!r} cannot handle external action {name!r}",
        where="ActionRegistry",
        fix='give an object with handle(call, session), such a function or class, or "module:attr" of one',
    )


def _takes_two(handle: Any) -> bool:
    try:
        inspect.signature(handle).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a function written in C tells nothing
        return True
    return True
