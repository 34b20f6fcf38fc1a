r"""Memory as an action sees it: trees of named values, one kept with the key, one for the run alone.

A path is a chain of names, ``"user.address.city"``; a name may hold any character, a dot as ``\.`` and a backslash
as ``\\`` (:meth:`MemoryObject.escape` writes them). A field holds a *value* or an *object* with fields of its own;
a dictionary passed to :meth:`MemoryObject.set` is one value.

Values are stored by :mod:`flink_agents_py.serde`, never by pickle: JSON's own types, bytes, tuples, sets, dates,
``Decimal``, ``UUID``, enums, dataclasses, pydantic models. They are encoded when they are set and decoded when they
are read, so changing a list that ``get`` returned changes nothing until it is set again.

Short-term memory can have a TTL: with ``short-term-memory.state-ttl.ms`` a value lives that long after it was set or,
unless ``short-term-memory.state-ttl.update-type`` is ``ON_CREATE_AND_WRITE``, was last read by an action that finished
(``get``, ``get_fields``, ``is_exist``). An object lives as long as something in it does, or for the TTL after a field
of it was created or removed. A run sees memory as of the moment it first looked at it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flink_agents_py.context import RunnerContext


class MemoryType(Enum):
    """The two memories an action can write to."""

    SENSORY = "sensory"
    """Of one run: gone when the run ends."""
    SHORT_TERM = "short_term"
    """Of the key: kept in Flink state from run to run."""


@dataclass(frozen=True)
class MemoryRef:
    """Where a value is, to be sent in an event in place of a large value.

    Args:
        path: from the root of the memory.
        memory_type: which memory.
    """

    path: str
    memory_type: MemoryType = MemoryType.SHORT_TERM

    @staticmethod
    def create(memory_type: MemoryType, path: str) -> MemoryRef:
        """The constructor as Apache Flink Agents spells it."""
        return MemoryRef(path, memory_type)

    def resolve(self, ctx: RunnerContext) -> Any:
        """What is there now: a value, a :class:`MemoryObject`, or ``None``."""
        memory = ctx.sensory_memory if self.memory_type is MemoryType.SENSORY else ctx.short_term_memory
        return memory.get(self)


class MemoryObject(ABC):
    """A node of a memory that has fields; the root of the memory is one.

    Paths are relative to it. It is a view: it stays usable when the object was deleted, reads as empty then, and
    comes into being again with the first field set in it.

    Every method raises :class:`~flink_agents_py.errors.MemoryPathError` for a path that is no path, and
    :class:`~flink_agents_py.errors.WrongThreadError` outside of its action.
    """

    __slots__ = ()

    @staticmethod
    def escape(name: str) -> str:
        """``name`` as one part of a path, whatever characters it has: ``escape("example.com")``."""
        return name.replace("\\", "\\\\").replace(".", "\\.")

    @abstractmethod
    def get(self, path_or_ref: str | MemoryRef) -> Any:
        """The value of a field, a :class:`MemoryObject` where the field is an object, ``None`` if there is none.

        Raises:
            DecodeError: the stored value is of a class that cannot be imported here, or has changed.
        """

    @abstractmethod
    def set(self, path: str, value: Any, overwrite: bool = False) -> MemoryRef:
        """Store ``value``, creating the objects on the way to it; returns where it is.

        Args:
            path: the field.
            value: anything with an explicit encoding; NaN and infinities have none.
            overwrite: whether an object at ``path`` may be replaced, with all its fields.

        Raises:
            EncodeError: the value, or something inside it, cannot be stored; the message names the place.
            MemoryOverwriteError: ``path`` is an object, and ``overwrite`` was not given.
            MemoryPathError: a name on the way to ``path`` is a plain value.
        """

    @abstractmethod
    def new_object(self, path: str, overwrite: bool = False) -> MemoryObject:
        """Create an object without fields; one that is there already is returned as it is, with its fields.

        Args:
            path: the field.
            overwrite: whether a value at ``path`` may be replaced.

        Raises:
            MemoryOverwriteError: ``path`` is a value, and ``overwrite`` was not given.
            MemoryPathError: a name on the way to ``path`` is a plain value.
        """

    @abstractmethod
    def is_exist(self, path: str) -> bool:
        """Whether there is a field, be it a value (``None`` too) or an object."""

    @abstractmethod
    def delete(self, path: str) -> bool:
        """Remove a field, an object with everything in it; ``False`` if there was none."""

    @abstractmethod
    def get_field_names(self) -> list[str]:
        """Names of the fields in the order they were created, as they are (to use one in a path, escape it)."""

    @abstractmethod
    def get_fields(self) -> dict[str, Any]:
        """The fields by name, nested objects as :class:`MemoryObject`."""
