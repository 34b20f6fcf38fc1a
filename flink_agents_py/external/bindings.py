"""Specs and handlers as the engine uses them: resolved, checked, and exchanged while the job runs."""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any

from flink_agents_py.errors import AgentDefinitionError, FlinkAgentsError, FunctionNotFoundError
from flink_agents_py.external.filewatch import Unchanged
from flink_agents_py.external.registry import Registration
from flink_agents_py.external.spec import ActionSpec
from flink_agents_py.external.specfile import WatchedFile
from flink_agents_py.external.validation import Check, check_of

log = logging.getLogger("flink_agents_py.external")


class Binding:
    """An action, ready to be called: its spec, the check of its parameters, and its handler.

    Raises:
        AgentDefinitionError: the handler is none, or only one of ``handle`` and ``reconcile`` is async.
    """

    __slots__ = ("check", "handle", "handler", "is_async", "reconcile", "spec")

    def __init__(self, spec: ActionSpec, handler: Any) -> None:
        self.spec = spec
        self.handler = handler() if isinstance(handler, type) else handler
        self.check: Check = check_of(spec)
        handle = getattr(self.handler, "handle", self.handler)
        if not callable(handle):
            raise AgentDefinitionError(
                f"a {type(self.handler).__name__} handles nothing, and is the handler of external action {spec.name!r}",
                where=f"external action {spec.name!r}",
                fix="give it handle(call, session)",
            )
        self.handle: Callable[..., Any] = handle
        self.reconcile: Callable[..., Any] | None = getattr(self.handler, "reconcile", None)
        self.is_async = _is_async(handle)
        if self.reconcile is not None and _is_async(self.reconcile) != self.is_async:
            raise AgentDefinitionError(
                f"handle and reconcile of external action {spec.name!r} are not both sync or both async",
                where=f"external action {spec.name!r}",
                fix="write both as async def, or both as def",
            )


class Bindings:
    """All actions of a plan on one worker.

    Args:
        registrations: with handlers resolved.
        watched: the file that may change them.
        resolve: finds ``module:attr``.
    """

    def __init__(self, registrations: Iterable[Registration], watched: WatchedFile | None = None) -> None:
        self.registered = {each.spec.name: Binding(each.spec, each.handler) for each in registrations}
        self._current = dict(self.registered)
        self._watched = watched
        self.reloads = 0
        """How often the watched file has changed what is in force, the first reading included."""
        self.refused = 0
        """How often it was wrong, and what was in force stayed."""

    def get(self, name: str, now_ms: int) -> Binding | None:
        """The action of that name as a call that begins now finds it."""
        if self._watched is not None:
            self._look(self._watched, now_ms)
        return self._current.get(name)

    def names(self) -> list[str]:
        """Names of all actions."""
        return list(self._current)

    def all(self) -> list[Binding]:
        """All actions as they are now."""
        return list(self._current.values())

    def _look(self, watched: WatchedFile, now_ms: int) -> None:
        read = watched.changed(now_ms)
        if read is None:
            return
        try:
            current = dict(self.registered)
            for registration in read():
                current[registration.spec.name] = self._bound(registration, watched.path)
        except Unchanged:
            return
        except Exception as error:  # noqa: BLE001 - importing a handler runs anybody's code
            self.refused += 1
            log.error(  # noqa: TRY400 - the traceback says nothing a person who edits the file could use
                "the watched file of external actions is wrong, what was in force stays so: %s",
                error if isinstance(error, FlinkAgentsError) else f"{type(error).__name__}: {error}",
            )
            return
        self._current = current
        self.reloads += 1
        versions = ", ".join(f"{name} {binding.spec.version}" for name, binding in current.items())
        log.info("external actions now in force, from %s: %s", watched.path, versions)

    def _bound(self, registration: Registration, path: str) -> Binding:
        spec = registration.spec
        known = self._current.get(spec.name) or self.registered.get(spec.name)
        if registration.handler is None:
            if known is None:
                raise AgentDefinitionError(
                    f"action {spec.name!r} is registered nowhere, and its entry has no handler",
                    where=path,
                    fix='add "handler": "module:attr" to the entry',
                )
            handler = known.handler
        else:
            handler = resolve_handler(registration.handler, spec.name)
        return Binding(spec, handler)


def resolve_handler(reference: str, name: str) -> Any:
    """The object behind ``module:attr``.

    Raises:
        FunctionNotFoundError: it is not here.
    """
    module, _, path = reference.partition(":")
    where = f"handler of external action {name!r}"
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise FunctionNotFoundError(
            f"{reference!r} cannot be found here: {type(error).__name__}: {error}",
            where=where,
            fix="ship the module to the workers (env.add_python_file, or install it there)",
        ) from error
    return found


def _is_async(func: Any) -> bool:
    while isinstance(func, functools.partial):
        func = func.func
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(getattr(func, "__call__", None))  # noqa: B004
