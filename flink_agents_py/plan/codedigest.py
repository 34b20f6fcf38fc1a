"""A digest of what a by-value function does, for the plan's fingerprint.

The pickle bytes of a function differ between processes (memo order, set order, class tracker ids), so they cannot tell
whether a plan changed. This digest covers what decides the behaviour instead: bytecode, constants, names, defaults,
closure values, and the by-value functions and classes it reaches through its globals. Line numbers and comments do
not count; another Python version does (other bytecode), as it does for the pickle itself.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from pydantic import BaseModel

from flink_agents_py.agent import Agent
from flink_agents_py.plan.importing import found_elsewhere

_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_AGENT_BOOKKEEPING = frozenset({"_actions", "_agents", "_registries", "_resources"})


def code_digest(target: Any) -> str:
    """Hex digest of a function, method, partial or callable object; equal in every process that built the same one."""
    description = _Describer().describe(target, stateful=True)
    return blake2b(repr(description).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _Describer:
    """Turns code objects and values into nested tuples of strings, without addresses, in a fixed order."""

    def __init__(self) -> None:
        # id -> number in order of first visit; the number stands for the object when it is met again.
        self._seen: dict[int, int] = {}

    def describe(self, value: Any, *, stateful: bool = False) -> Any:
        if isinstance(value, Enum):
            return ("enum", _name(type(value)), value.name)
        if isinstance(value, _SCALARS):
            return (type(value).__name__, repr(value))
        if isinstance(value, CodeType):
            return self._code(value)
        if isinstance(value, ModuleType):
            return ("module", value.__name__)
        if isinstance(value, BuiltinFunctionType):
            owner = None if isinstance(value.__self__, ModuleType) else self.describe(value.__self__)
            return ("builtin", value.__module__, value.__qualname__, owner)
        if isinstance(value, MethodType):
            return ("method", self.describe(value.__func__), self.describe(value.__self__))
        if isinstance(value, (staticmethod, classmethod)):
            return (type(value).__name__, self.describe(value.__func__))
        if isinstance(value, property):
            return ("property", *(self.describe(part) for part in (value.fget, value.fset, value.fdel)))
        return self._shared(value, stateful)

    def _shared(self, value: Any, stateful: bool) -> Any:
        if id(value) in self._seen:
            return ("seen", self._seen[id(value)])
        self._seen[id(value)] = len(self._seen)
        if isinstance(value, (tuple, list)):
            return (type(value).__name__, *(self.describe(item) for item in value))
        if isinstance(value, (set, frozenset)):
            return ("set", *(self.describe(item) for item in sorted(value, key=_order)))
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, functools.partial):
            return ("partial", *(self.describe(part) for part in (value.func, value.args, value.keywords)))
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        return self._instance(value, stateful)

    def _mapping(self, value: Mapping[Any, Any]) -> Any:
        # Visited in sorted order too: the numbers in `_seen` must not depend on hash or insertion order.
        return ("dict", *((self.describe(key), self.describe(value[key])) for key in sorted(value, key=_order)))

    def _function(self, function: FunctionType) -> Any:
        if found_elsewhere(function.__module__, function.__qualname__, function):
            return ("ref", _name(function))
        cells = ("cells", *(self.describe(_cell(cell)) for cell in function.__closure__ or ()))
        used = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
        return (
            "function",
            self._code(function.__code__),
            self.describe(function.__defaults__),
            self.describe(function.__kwdefaults__),
            cells,
            self._mapping(used),
        )

    def _code(self, code: CodeType) -> Any:
        signature = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        return ("code", code.co_code.hex(), signature, names, *(self.describe(const) for const in code.co_consts))

    def _class(self, cls: type) -> Any:
        if cls.__module__ == "builtins" or found_elsewhere(cls.__module__, cls.__qualname__, cls):
            return ("ref", _name(cls))
        # Functions and plain values; what metaclasses and pydantic leave behind is derived from these.
        members = {
            name: member
            for name, member in vars(cls).items()
            if isinstance(member, (FunctionType, staticmethod, classmethod, property, *_SCALARS))
            and name not in ("__doc__", "__module__", "__firstlineno__")
            and not name.startswith(("__pydantic_", "_abc_"))
        }
        fields = [
            (name, str(field.annotation), self.describe(field.default))
            for name, field in (getattr(cls, "model_fields", None) or {}).items()
        ]
        return ("class", _name(cls), *(self.describe(base) for base in cls.__bases__), fields, self._mapping(members))

    def _instance(self, value: Any, stateful: bool) -> Any:
        # Objects the code merely reaches (loggers, clients) count by their class: their state is not the agent's.
        state = None
        if stateful or isinstance(value, (Agent, BaseModel)):
            state = {name: item for name, item in _attributes(value).items() if name not in _AGENT_BOOKKEEPING}
        return ("object", self.describe(type(value)), None if state is None else self._mapping(state))


def _name(thing: Any) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


def _order(item: Any) -> str:
    """A sort key that needs no common type; functions and classes go by name, since their repr holds an address."""
    name: str | None = getattr(item, "__qualname__", None)
    return name or repr(item)


def _attributes(value: Any) -> dict[str, Any]:
    in_slots = {
        name: getattr(value, name)
        for cls in type(value).__mro__
        for name, member in vars(cls).items()
        if isinstance(member, MemberDescriptorType) and hasattr(value, name)
    }
    return {**in_slots, **getattr(value, "__dict__", {})}


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name the enclosing function has not assigned yet
        return ("empty cell",)


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= _names(const)
    return names
