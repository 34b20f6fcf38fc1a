"""References to the functions a plan runs: by module and name where that works elsewhere, by value where not.

By value means cloudpickle. All by-value functions of one agent go into one pickle (``pickled_functions`` of the plan),
because pickled one by one each would carry its own copy of every class of ``__main__``: an event sent by one action
would not be an instance of the class the next one tests for.
"""

from __future__ import annotations

import base64
import sys
import threading
from collections.abc import Callable
from typing import Any, Literal

import cloudpickle
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SerializerFunctionWrapHandler, model_serializer

from flink_agents_py.errors import FunctionNotFoundError, NotSerializableError, PlanFormatError, UntrustedCodeError
from flink_agents_py.events import Event
from flink_agents_py.plan.codedigest import code_digest
from flink_agents_py.plan.importing import found_elsewhere, resolve
from flink_agents_py.plan.signature import EventHint

Entry = tuple[Callable[..., Any], tuple[type[Event], ...], bool]
"""A by-value function as it is pickled: itself, the event classes of its annotation, whether it takes others too."""

_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class PickledCode(BaseModel):
    """Python objects pickled by value, and the Python that can read them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    python: str = Field(description="major.minor version of the Python that wrote it; pickled bytecode fits no other")
    blob: str = Field(description="base64 of a cloudpickle")

    @classmethod
    def of(cls, value: Any) -> PickledCode:
        """Pickle ``value``; raises whatever cloudpickle raises."""
        return cls(python=_PYTHON, blob=base64.b64encode(cloudpickle.dumps(value)).decode("ascii"))

    def load(self, where: str) -> Any:
        """Unpickle.

        Raises:
            PlanFormatError: it was written by another version of Python.
            FunctionNotFoundError: it refers to a module that is missing here, or is damaged.
        """
        if self.python != _PYTHON:
            raise PlanFormatError(
                f"functions pickled by Python {self.python} cannot run on Python {_PYTHON}",
                where=where,
                fix="compile the plan with the workers' version of Python, or move the functions into a module",
            )
        try:
            # Callers refuse untrusted plans before they get here (UntrustedCodeError).
            return cloudpickle.loads(base64.b64decode(self.blob))
        except Exception as error:
            raise FunctionNotFoundError(
                f"the pickled functions cannot be loaded here: {type(error).__name__}: {error}",
                where=where,
                fix="ship the modules they import to the workers",
            ) from error


class PlanCode:
    """What the actions of one plan share: the unpickled functions, and the agent object its methods are bound to."""

    def __init__(self, pickled: PickledCode | None, agent_name: str) -> None:
        self.pickled = pickled
        self._where = f"plan of agent {agent_name!r}"
        self._entries: dict[str, Entry] | None = None
        self._receivers: dict[tuple[str, str], Any] = {}
        self._lock = threading.RLock()

    def entry(self, name: str) -> Entry:
        """The by-value function of that name and the event classes its annotation names."""
        with self._lock:
            if self._entries is None:
                if self.pickled is None:
                    raise PlanFormatError(
                        f"action {name!r} runs a pickled function, but the plan has no pickled_functions",
                        where=self._where,
                        fix="compile the plan anew",
                    )
                self._entries = self.pickled.load(self._where)
            found = self._entries.get(name)
        if found is None:
            raise PlanFormatError(
                f"pickled_functions has no function for {name!r}", where=self._where, fix="compile the plan anew"
            )
        return found

    def receiver(self, module: str, qualname: str) -> Any:
        """The one instance of an agent class that methods with ``self`` are bound to."""
        with self._lock:
            key = (module, qualname)
            if key not in self._receivers:
                self._receivers[key] = resolve(module, qualname, what=self._where)()
            return self._receivers[key]


class PythonFunction(BaseModel):
    """A Python function that can be found, or rebuilt, in another process."""

    model_config = ConfigDict(extra="forbid")

    func_type: Literal["PythonFunction"] = "PythonFunction"
    module: str = Field(description="module to import; for information only where the function is pickled")
    qualname: str = Field(description="path in the module, e.g. Outer.Inner.method")
    receiver: Literal["instance"] | None = Field(
        default=None,
        description="'instance': a method with self, bound to an object that the class makes without arguments",
    )
    pickled_as: str | None = Field(default=None, description="name in the plan's pickled_functions")
    pickled: PickledCode | None = Field(default=None, description="a function that travels by itself, by value")
    code_digest: str | None = Field(default=None, description="digest of what a by-value function does")

    _function: Callable[..., Any] | None = PrivateAttr(default=None)
    _code: PlanCode | None = PrivateAttr(default=None)

    @classmethod
    def from_callable(cls, func: Callable[..., Any]) -> PythonFunction:
        """Refer to ``func`` by name if another process can import it, else pickle it.

        Raises:
            NotSerializableError: it can neither be imported elsewhere nor pickled.
        """
        reference = cls.reference(func)
        if reference is not None:
            return reference
        try:
            pickled = PickledCode.of(func)
        except Exception as error:
            raise not_picklable(error, where=f"function {qualname_of(func)}") from error
        return cls.by_value(func, pickled=pickled)

    @classmethod
    def reference(cls, func: Callable[..., Any], *also: tuple[str, str]) -> PythonFunction | None:
        """Refer to ``func`` by its own name or one of the (module, qualname) in ``also``, if one leads to it."""
        own = (getattr(func, "__module__", None), getattr(func, "__qualname__", None))
        for module, qualname in (own, *also):
            if module and qualname and found_elsewhere(module, qualname, func):
                return _bound(cls(module=module, qualname=qualname), func)
        return None

    @classmethod
    def method(cls, bound: Callable[..., Any], owner: type, name: str) -> PythonFunction:
        """Refer to a method with ``self`` of a class that the worker makes an object of."""
        function = cls(module=owner.__module__, qualname=f"{owner.__qualname__}.{name}", receiver="instance")
        return _bound(function, bound)

    @classmethod
    def by_value(
        cls, func: Callable[..., Any], *, pickled: PickledCode | None = None, pickled_as: str | None = None
    ) -> PythonFunction:
        """Describe a function that travels by value."""
        function = cls(
            module=getattr(func, "__module__", None) or type(func).__module__,
            qualname=qualname_of(func),
            pickled=pickled,
            pickled_as=pickled_as,
            code_digest=code_digest(func),
        )
        return _bound(function, func)

    def attach(self, code: PlanCode) -> None:
        """Give a reference that was read from a plan what that plan's functions share."""
        self._code = code

    @property
    def is_by_value(self) -> bool:
        """Whether pickled code has to be loaded (and therefore trusted) to run the function."""
        return self.pickled is not None or self.pickled_as is not None

    def as_callable(self, *, allow_pickled: bool = False) -> Callable[..., Any]:
        """The function; imported, unpickled or bound at the first call and kept.

        Args:
            allow_pickled: unpickle a function that travels by itself and was read from a file.

        Raises:
            FunctionNotFoundError: it is not here.
            UntrustedCodeError: it would have to be unpickled, and nobody said the file is trusted.
        """
        if self._function is None:
            self._function = self._resolve(allow_pickled)
        return self._function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.as_callable()(*args, **kwargs)

    def _resolve(self, allow_pickled: bool) -> Callable[..., Any]:
        where = f"function {self.module}:{self.qualname}"
        if self.pickled_as is not None and self._code is not None:
            return self._code.entry(self.pickled_as)[0]
        if self.is_by_value:
            if self.pickled is None or not allow_pickled:
                raise untrusted([self.qualname], where=where)
            loaded: Callable[..., Any] = self.pickled.load(where)
            return loaded
        if self.receiver is None:
            found: Callable[..., Any] = resolve(self.module, self.qualname, what=where)
            return found
        owner, _, method = self.qualname.rpartition(".")
        code = self._code or PlanCode(None, owner)
        bound: Callable[..., Any] = getattr(code.receiver(self.module, owner), method)
        return bound

    def annotated_events(self) -> EventHint:
        """What the annotation of a by-value function of a plan says; it was pickled with the function."""
        if self.pickled_as is None or self._code is None:
            return EventHint()
        _, classes, anything = self._code.entry(self.pickled_as)
        return EventHint(classes, anything)

    def identity(self) -> tuple[str | None, ...]:
        """What makes two references the same; for by-value functions what they do, not the bytes of the pickle."""
        return (self.module, self.qualname, self.receiver, self.code_digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PythonFunction) and self.identity() == other.identity()

    def __hash__(self) -> int:
        return hash(self.identity())

    @model_serializer(mode="wrap")
    def _without_nones(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


def _bound(reference: PythonFunction, func: Callable[..., Any]) -> PythonFunction:
    # Where a reference is made, the function is at hand.
    reference._function = func  # noqa: SLF001 - same module
    return reference


def qualname_of(func: Any) -> str:
    """A readable name of any callable."""
    if hasattr(func, "__qualname__"):
        return str(func.__qualname__)
    inner = getattr(func, "func", None)
    if callable(inner):  # functools.partial
        return f"partial({qualname_of(inner)})"
    return type(func).__qualname__


def not_picklable(error: Exception, *, where: str) -> NotSerializableError:
    """The error for a function that cloudpickle refuses."""
    return NotSerializableError(
        f"the function has to travel by value and cannot be pickled: {type(error).__name__}: {error}",
        where=where,
        fix="move it to module level of an importable module, or do not let it capture open files, locks, "
        "connections and the like; open those in a Resource",
    )


def untrusted(names: list[str], *, where: str) -> UntrustedCodeError:
    """The error for pickled code in a plan nobody vouched for."""
    return UntrustedCodeError(
        f"the plan carries pickled code ({', '.join(names)}); loading it runs whatever its author put there",
        where=where,
        fix="if you trust where the plan comes from, load it with allow_pickled=True",
    )
