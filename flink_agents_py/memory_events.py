"""Events about the memory itself: what an action read and wrote, and what a run begins with.

They are off unless somebody wants them. An action that listens to ``EventType.ShortTermWriteEvent`` (or to one of its
like) switches that kind on; the options ``memory.generate-event`` and ``memory.generate-event.<kind>`` switch kinds on
for logs, or off whoever listens. ``AgentRunBeginEvent`` is switched by ``agent-run.begin-event`` alone.

An action that has finished causes at most one event of each kind, after those it sent itself. One that was caused by a
memory event causes none, so listening to them does not go on for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from flink_agents_py.events import Event, fill

if TYPE_CHECKING:
    from typing_extensions import Self


class MemoryEvent(Event):
    """What one action did to one memory; use :meth:`from_event` to get the class that fits an event."""

    EVENT_TYPE: ClassVar[str] = ""

    def __init__(self, *, key: str, value: dict[str, Any]) -> None:
        if not self.EVENT_TYPE:
            raise TypeError("MemoryEvent is what its subclasses have in common; make one of those")
        fill(self, self.EVENT_TYPE, {"key": key, "value": value})

    # Subclasses spell their constructors out: type checkers make one up for a pydantic class that has none of its own.

    @classmethod
    def is_memory_type(cls, type: str | None) -> bool:
        """Whether an event type is that of a memory event."""
        return type in _BY_TYPE

    @classmethod
    def from_event(cls, event: Event) -> Self:
        """View ``event`` as the memory event it is.

        Raises:
            ValueError: it is none.
        """
        if cls is not MemoryEvent or isinstance(event, MemoryEvent):
            return super().from_event(event)
        if event.type not in _BY_TYPE:
            raise ValueError(f"an event of type {event.type!r} is no memory event")
        return _BY_TYPE[event.type].from_event(event)  # type: ignore[return-value]

    @property
    def key(self) -> str:
        """The key as text, for people; ``ctx.key`` has its own type."""
        key: str = self.attributes["key"]
        return key

    @property
    def value(self) -> dict[str, Any]:
        """Path -> value, each path once with the last value. Not to be changed."""
        value: dict[str, Any] = self.attributes["value"]
        return value


class _WriteEvent(MemoryEvent):
    """What an action changed. An object that was created and has no fields is there as ``None``."""

    def __init__(self, *, key: str, value: dict[str, Any], deleted: Iterable[str] = ()) -> None:
        super().__init__(key=key, value=value)
        self.attributes["deleted"] = list(deleted)

    @property
    def deleted(self) -> list[str]:
        """Paths that are gone, each with all below it."""
        deleted: list[str] = self.attributes.get("deleted") or []
        return deleted


class ShortTermWriteEvent(_WriteEvent):
    """An action has changed short-term memory."""

    EVENT_TYPE: ClassVar[str] = "_short_term_write_event"

    def __init__(self, *, key: str, value: dict[str, Any], deleted: Iterable[str] = ()) -> None:
        super().__init__(key=key, value=value, deleted=deleted)


class SensoryWriteEvent(_WriteEvent):
    """An action has changed sensory memory."""

    EVENT_TYPE: ClassVar[str] = "_sensory_write_event"

    def __init__(self, *, key: str, value: dict[str, Any], deleted: Iterable[str] = ()) -> None:
        super().__init__(key=key, value=value, deleted=deleted)


class ShortTermReadEvent(MemoryEvent):
    """An action has read values of short-term memory (``get``, ``get_fields``)."""

    EVENT_TYPE: ClassVar[str] = "_short_term_read_event"

    def __init__(self, *, key: str, value: dict[str, Any]) -> None:
        super().__init__(key=key, value=value)


class SensoryReadEvent(MemoryEvent):
    """An action has read values of sensory memory."""

    EVENT_TYPE: ClassVar[str] = "_sensory_read_event"

    def __init__(self, *, key: str, value: dict[str, Any]) -> None:
        super().__init__(key=key, value=value)


class AgentRunBeginEvent(Event):
    """A run begins; ``value`` is all of short-term memory at that time, path -> value.

    It is handled before the input, so the actions that listen to it begin first. It comes from the input event by way
    of an action that nobody wrote, ``agent_run_begin_action``.
    """

    EVENT_TYPE: ClassVar[str] = "_agent_run_begin_event"

    def __init__(self, *, key: str, value: dict[str, Any]) -> None:
        fill(self, self.EVENT_TYPE, {"key": key, "value": value})

    @property
    def key(self) -> str:
        """The key as text."""
        key: str = self.attributes["key"]
        return key

    @property
    def value(self) -> dict[str, Any]:
        """Path -> value; objects are there by their fields. Not to be changed."""
        value: dict[str, Any] = self.attributes["value"]
        return value


_BY_TYPE: dict[str | None, type[MemoryEvent]] = {
    cls.EVENT_TYPE: cls for cls in (ShortTermWriteEvent, ShortTermReadEvent, SensoryWriteEvent, SensoryReadEvent)
}
