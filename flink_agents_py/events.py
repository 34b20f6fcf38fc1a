"""Events: what actions listen to and send.

An event has a ``type`` (a string used for routing) and ``attributes``. Use it directly, or subclass it and declare
fields as on any pydantic model; the fields of a subclass *are* its attributes when it travels::

    class Scored(Event):
        score: float

    ctx.send_event(Scored(score=0.5))            # routed as Scored.EVENT_TYPE
    Event(type="scored", attributes={"score": 0.5})  # the untyped spelling

Event ids are derived, not drawn (S4): from the run and the position of the event in it, so a replay produces the same
ids. They are computed when somebody reads them; the hot path never does.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from uuid import UUID, uuid4

from pydantic import BaseModel, ConfigDict, ValidationError

from flink_agents_py.errors import DecodeError
from flink_agents_py.serde import encode, from_plain, to_plain
from flink_agents_py.serde.classes import find_class
from flink_agents_py.serde.text import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

_BASE_FIELDS = frozenset({"type", "attributes"})
_IDENTITY = frozenset({"id", "upstream_event_id", "upstreamEventId", "upstream_action_name", "upstreamActionName"})
_LEFT_OUT = frozenset({"__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"})
_set = object.__setattr__


class IdSource(Protocol):
    """Where an event that has not been sent yet gets its place in the run from (the context of the running action)."""

    def claim(self, event: Event) -> None:
        """Give the event its place."""


class ActionSlot:
    """The action that runs on one thread; an engine keeps the slot of its own thread at hand."""

    __slots__ = ("source",)

    def __init__(self) -> None:
        self.source: IdSource | None = None


class _Active(threading.local):
    def __init__(self) -> None:  # once for each thread that asks
        self.slot = ActionSlot()

    @property
    def source(self) -> IdSource | None:
        return self.slot.source

    @source.setter
    def source(self, source: IdSource | None) -> None:
        self.slot.source = source


active = _Active()


def derive_id(parent: bytes, action: str, ordinal: int) -> bytes:
    """The id of the ``ordinal``-th event that ``action`` sent while handling the event with id ``parent``."""
    name = action.encode()
    return blake2b(b"%b%d:%b%d" % (parent, len(name), name, ordinal), digest_size=16).digest()


class Event(BaseModel):
    """A typed message inside a run.

    Args:
        type: routing name; subclasses default to their ``EVENT_TYPE`` (``module.QualName`` unless they set one).
        attributes: JSON-like values, plus anything :mod:`flink_agents_py.serde` can encode.
    """

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)

    EVENT_TYPE: ClassVar[str] = ""
    _declared: ClassVar[tuple[str, ...]] = ()  # fields a subclass adds

    type: str = ""
    attributes: dict[str, Any] = {}

    # Set by the engine straight into __dict__ (no validation, no private-attribute dictionary on the hot path):
    # `_origin` = (parent event or run root, action name, ordinal), `_id` = the id once it was computed or given.

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "EVENT_TYPE" not in cls.__dict__:
            cls.EVENT_TYPE = f"{cls.__module__}.{cls.__qualname__}"
        cls._declared = tuple(name for name in cls.model_fields if name not in _BASE_FIELDS)

    def __init__(self, **data: Any) -> None:
        identity = None if _IDENTITY.isdisjoint(data) else _take_identity(data)
        super().__init__(**data)
        if not self.type:
            if not self.EVENT_TYPE:
                raise ValueError("an Event needs a non-empty 'type' (or use a subclass, which has one)")
            self.__dict__["type"] = self.EVENT_TYPE
        if identity is not None:
            self.__dict__.update(identity)

    if not TYPE_CHECKING:  # for type checkers an attribute that is not declared is a mistake

        def __getattr__(self, name: str) -> Any:
            # Called for what is missing alone: here, what `fill` has left out. One store instead of four makes events
            # that the framework builds itself twice as cheap, and there are two of them for every record.
            if name in _LEFT_OUT:
                value = {"type", "attributes"} if name == "__pydantic_fields_set__" else None
                _set(self, name, value)
                return value
            return super().__getattr__(name)

    # --- identity and lineage ---------------------------------------------------------------------------------------

    @property
    def id(self) -> UUID:
        """The event's id: the same on every replay once the event belongs to a run, random outside of one."""
        return UUID(bytes=self.id_bytes)

    @property
    def id_bytes(self) -> bytes:
        """The 16 bytes of :attr:`id`."""
        values = self.__dict__
        known: bytes | None = values.get("_id")
        if known is not None:
            return known
        if "_origin" not in values and active.source is not None:
            active.source.claim(self)
        origin = values.get("_origin")
        if origin is None:
            known = uuid4().bytes
        else:
            parent, action, ordinal = origin
            known = derive_id(parent.id_bytes, action, ordinal)
        values["_id"] = known
        return known

    @property
    def upstream_event_id(self) -> UUID | None:
        """Id of the event whose handling sent this one; ``None`` for inputs."""
        origin = self.__dict__.get("_origin")
        if origin is not None and origin[1]:
            parent_id: UUID = origin[0].id
            return parent_id
        lineage: tuple[UUID | None, str | None] = self.__dict__.get("_lineage", (None, None))
        return lineage[0]

    @property
    def upstream_action_name(self) -> str | None:
        """Name of the action that sent this event; ``None`` for inputs."""
        origin = self.__dict__.get("_origin")
        if origin is not None and origin[1]:
            action: str = origin[1]
            return action
        lineage: tuple[UUID | None, str | None] = self.__dict__.get("_lineage", (None, None))
        return lineage[1]

    # --- attributes -------------------------------------------------------------------------------------------------

    def get_type(self) -> str:
        """Return the routing type."""
        return self.type

    def get_attr(self, name: str) -> Any:
        """Return a declared field or an attribute by name, ``None`` if there is none."""
        if name in self._declared:
            return getattr(self, name)
        return self.attributes.get(name)

    def set_attr(self, name: str, value: Any) -> None:
        """Set a declared field or an attribute. Do it before sending: an event that was sent is shared."""
        if name in self._declared:
            setattr(self, name, value)
        else:
            self.attributes[name] = value

    def all_attributes(self) -> dict[str, Any]:
        """Attributes, declared fields and extra values in one dictionary: what travels and what is matched on."""
        extra = self.__pydantic_extra__
        if not self._declared and not extra:
            return self.attributes
        merged = dict(self.attributes)
        for name in self._declared:
            merged[name] = self.__dict__[name]
        if extra:
            merged.update(extra)
        return merged

    @classmethod
    def from_event(cls, event: Event) -> Self:
        """View ``event`` as this class: itself if it already is one, else rebuilt from its attributes.

        Raises:
            DecodeError: the attributes do not fit the declared fields; the message names them.
        """
        if isinstance(event, cls):
            return event
        attributes = event.all_attributes()
        if not cls._declared:
            typed = cls.__new__(cls)
            fill(typed, event.type, attributes)
        else:
            own = {name: value for name, value in attributes.items() if name in cls._declared}
            rest = {name: value for name, value in attributes.items() if name not in cls._declared}
            try:
                typed = cls.model_validate({**own, "type": event.type, "attributes": rest})
            except ValidationError as error:
                raise DecodeError(
                    f"an event of type {event.type!r} does not fit {cls.__qualname__}: {error.errors()[0]['msg']}",
                    where=f"field {'.'.join(str(part) for part in error.errors()[0]['loc'])}",
                    fix=f"send a {cls.__qualname__}, or give the sent event the attributes that class declares",
                ) from None
        for name in ("_id", "_origin", "_lineage", "_sent"):
            if name in event.__dict__:
                typed.__dict__[name] = event.__dict__[name]
        return typed

    # --- JSON -------------------------------------------------------------------------------------------------------

    def model_dump_json(self, **_: Any) -> str:
        """The event as JSON: ``id, type, attributes`` and, where known, ``upstreamEventId, upstreamActionName``."""
        document: dict[str, Any] = {
            "id": str(self.id),
            "type": self.type,
            "attributes": to_plain(self.all_attributes()),
        }
        if self.upstream_event_id is not None:
            document["upstreamEventId"] = str(self.upstream_event_id)
        if self.upstream_action_name is not None:
            document["upstreamActionName"] = self.upstream_action_name
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read an event written by :meth:`model_dump_json` (or by Apache Flink Agents).

        Raises:
            ValueError: the text is not a JSON object with a non-empty ``type``.
        """
        document = json.loads(text)
        if not isinstance(document, dict) or not document.get("type"):
            raise ValueError("event JSON must be an object with a non-empty 'type'")
        # Anybody may have written this text: pickles in it are refused.
        document["attributes"] = from_plain(document.get("attributes") or {}, allow_pickle=False)
        event = Event(**document)
        return cls.from_event(event) if cls is not Event else event  # type: ignore[return-value]


def _take_identity(data: dict[str, Any]) -> dict[str, Any]:
    """Take id and lineage, which are no fields, out of constructor arguments; both spellings of the lineage."""
    event_id = data.pop("id", None)
    upstream_id = data.pop("upstream_event_id", None) or data.pop("upstreamEventId", None)
    upstream_action = data.pop("upstream_action_name", None) or data.pop("upstreamActionName", None)
    for name in _IDENTITY:
        data.pop(name, None)
    identity: dict[str, Any] = {}
    if event_id is not None:
        identity["_id"] = _uuid(event_id).bytes
    if upstream_id is not None or upstream_action is not None:
        identity["_lineage"] = (None if upstream_id is None else _uuid(upstream_id), upstream_action)
    return identity


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(str(value))


def fill(event: Event, event_type: str, attributes: dict[str, Any]) -> None:
    """What pydantic's own constructor would leave behind, without validating what we built ourselves.

    The rest of it is made when somebody asks (``Event.__getattr__``): for most events nobody does.
    """
    _set(event, "__dict__", {"type": event_type, "attributes": attributes})


class InputEvent(Event):
    """One input record of the stream; the framework sends it, actions listen to it."""

    EVENT_TYPE: ClassVar[str] = "_input_event"

    def __init__(self, input: Any) -> None:
        _set(self, "__dict__", {"type": "_input_event", "attributes": {"input": input}})  # `fill`, without its frame

    @property
    def input(self) -> Any:
        """The record, of the type it has in the stream."""
        return self.attributes["input"]


class OutputEvent(Event):
    """A result: it leaves the agent for the downstream operator when the action that sent it has finished."""

    EVENT_TYPE: ClassVar[str] = "_output_event"

    def __init__(self, output: Any) -> None:
        _set(self, "__dict__", {"type": "_output_event", "attributes": {"output": output}})

    @property
    def output(self) -> Any:
        """The value that goes downstream."""
        return self.attributes["output"]


class EventType:
    """The built-in event types, for ``@action(EventType.InputEvent)``."""

    InputEvent: str = InputEvent.EVENT_TYPE
    OutputEvent: str = OutputEvent.EVENT_TYPE
    # Their classes are in modules that need this one: chat_events, memory_events, agent_events, external.
    ChatRequestEvent: str = "_chat_request_event"
    ChatResponseEvent: str = "_chat_response_event"
    ToolRequestEvent: str = "_tool_request_event"
    ToolResponseEvent: str = "_tool_response_event"
    ContextRetrievalRequestEvent: str = "_context_retrieval_request_event"
    ContextRetrievalResponseEvent: str = "_context_retrieval_response_event"
    ShortTermWriteEvent: str = "_short_term_write_event"
    ShortTermReadEvent: str = "_short_term_read_event"
    SensoryWriteEvent: str = "_sensory_write_event"
    SensoryReadEvent: str = "_sensory_read_event"
    AgentRunBeginEvent: str = "_agent_run_begin_event"
    AgentRequestEvent: str = "_agent_request_event"
    AgentResponseEvent: str = "_agent_response_event"
    ActionFailedEvent: str = "_action_failed_event"


def encode_event(event: Event) -> str:
    """The event as JSON text for state records: id, type, class, attributes, lineage. Computed once per event."""
    values = event.__dict__
    known: str | None = values.get("_encoded")
    if known is None:
        cls = type(event)
        reference = "" if cls is Event else reference_of(cls)
        upstream = event.upstream_event_id
        action = event.upstream_action_name
        known = (
            f'["{event.id_bytes.hex()}",{quote(event.type)},{quote(reference)},'
            f"{'null' if upstream is None else quote(upstream.hex)},{'null' if action is None else quote(action)},"
            f"{encode(event.all_attributes())}]"
        )
        values["_encoded"] = known
    return known


def decode_event(record: list[Any], classes: Mapping[str, type[Event]]) -> Event:
    """Read what :func:`encode_event` wrote.

    A class that is not among ``classes`` is imported; where that fails the event is a plain :class:`Event`.
    """
    event_id, event_type, reference, upstream, action, attributes = record
    event = Event.__new__(Event)
    fill(event, event_type, from_plain(attributes))
    event.__dict__["_id"] = bytes.fromhex(event_id)
    event.__dict__["_sent"] = True  # passed on by its receiver it is another occurrence, with an id of its own
    if upstream is not None or action is not None:
        event.__dict__["_lineage"] = (UUID(hex=upstream) if upstream else None, action)
    cls = classes.get(reference)
    if cls is None and reference:
        with suppress(DecodeError):
            cls = find_class({"c": reference}, Event)
    return cls.from_event(event) if cls is not None else event


def reference_of(cls: type[Event]) -> str:
    """How state refers to an event class."""
    return f"{cls.__module__}:{cls.__qualname__}"
