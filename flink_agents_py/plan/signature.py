"""The signature rule of actions, and the event classes their annotations name."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flink_agents_py import events
from flink_agents_py.errors import SignatureError
from flink_agents_py.events import Event

_RULE = "an action takes two positional arguments, the event and the context: def name(event, ctx)"


@dataclass(frozen=True)
class EventHint:
    """What the annotation of an action's first parameter says."""

    classes: tuple[type[Event], ...] = ()
    """Event subclasses named, without Event itself."""
    anything: bool = True
    """Whether other events are accepted too (no annotation, Event, Any, a Union with one of these)."""
    unresolved: str | None = None
    """The annotation's text if it could not be evaluated."""

    @property
    def event_class(self) -> type[Event] | None:
        """The class the engine delivers, if the annotation names exactly one."""
        return self.classes[0] if len(self.classes) == 1 and not self.anything else None


def check_signature(func: Any, where: str) -> None:
    """Check that ``func`` can be called as ``func(event, ctx)`` and runs when called.

    Raises:
        SignatureError: with the rule that is broken.
    """
    if not callable(func):
        raise SignatureError(f"{func!r} is not callable", where=where, fix=_RULE)
    code = function_of(func)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise SignatureError(
            "the action is a generator: calling it would run nothing",
            where=where,
            fix="replace each 'yield' by ctx.send_event(...)",
        )
    try:
        signature = inspect.signature(func)
    except (ValueError, TypeError) as error:
        raise SignatureError(
            f"the signature of {func!r} cannot be read ({error})", where=where, fix="wrap it: def name(event, ctx)"
        ) from error
    try:
        signature.bind(object(), object())
    except TypeError as error:
        raise SignatureError(
            f"the action is declared as {signature} and cannot be called as (event, ctx): {error}",
            where=where,
            fix=_RULE,
        ) from None


def is_async(func: Any) -> bool:
    """Whether calling ``func`` gives a coroutine."""
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(function_of(func))


def function_of(func: Any) -> Any:
    """The plain function behind partials, bound methods and callable objects."""
    while True:
        if isinstance(func, functools.partial):
            func = func.func
        elif isinstance(func, types.MethodType):
            func = func.__func__
        elif inspect.isroutine(func) or isinstance(func, type) or not callable(func):
            return func
        else:
            func = type(func).__call__


def event_hint(
    func: Callable[..., Any], *, owner: type | None = None, nearby: typing.Iterable[type[Event]] = ()
) -> EventHint:
    """Read the annotation of the event parameter; an annotation that cannot be evaluated is noted, never an error.

    Args:
        owner: class whose body may define the annotated class.
        nearby: classes an unresolvable annotation may mean by their name (local ones, which no module holds).
    """
    annotation = _first_annotation(func)
    if annotation is inspect.Parameter.empty:
        return EventHint()
    resolved = _evaluate(annotation, function_of(func), owner)
    if resolved is None and isinstance(annotation, str):
        name = annotation.strip("'\" ").rpartition(".")[2]
        own = getattr(events, name, None)
        candidates = [own] if isinstance(own, type) else [cls for cls in nearby if cls.__name__ == name]
        if len(candidates) != 1:
            return EventHint(unresolved=annotation)
        resolved = candidates[0]
    return _hint(resolved)


def _first_annotation(func: Callable[..., Any]) -> Any:
    for parameter in inspect.signature(func).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            return parameter.annotation
    return inspect.Parameter.empty


def _evaluate(annotation: Any, function: Any, owner: type | None) -> Any:
    # Only this parameter is evaluated: a context class imported under TYPE_CHECKING must not spoil the event's.
    def holder() -> None: ...

    holder.__annotations__ = {"event": annotation}
    inner = inspect.unwrap(function)
    names: dict[str, Any] = dict(vars(owner)) if owner is not None else {}
    code = getattr(inner, "__code__", None)
    if code is not None:
        for name, cell in zip(code.co_freevars, inner.__closure__ or (), strict=True):
            try:
                names[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
    try:
        return typing.get_type_hints(holder, getattr(inner, "__globals__", {}), names)["event"]
    except Exception:  # noqa: BLE001 - evaluating an annotation runs user code: anything may come out
        return None


def _hint(annotation: Any) -> EventHint:
    classes: list[type[Event]] = []
    anything = False
    for option in _options(annotation):
        if option is type(None):
            continue
        if isinstance(option, type) and issubclass(option, Event) and option is not Event:
            classes.append(option)
        else:
            anything = True
    return EventHint(tuple(dict.fromkeys(classes)), anything or not classes)


def _options(annotation: Any) -> list[Any]:
    origin = typing.get_origin(annotation)
    if origin is typing.Union or origin is types.UnionType:
        return [option for member in typing.get_args(annotation) for option in _options(member)]
    return [annotation]
