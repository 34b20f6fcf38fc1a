"""A run: one input and all it causes, until no event and no task of it is left."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from uuid import UUID

from flink_agents_py.engine.keys import key_bytes
from flink_agents_py.engine.segments import NO_WATERMARK

if TYPE_CHECKING:
    from flink_agents_py.engine.keys import KeyEntry
    from flink_agents_py.engine.memories import Memories
    from flink_agents_py.engine.memory import RunMemory
    from flink_agents_py.engine.ports import Moment
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.engine.versions import PlanVersion
    from flink_agents_py.events import Event


_NONE: Any = ()  # instead of three empty containers for runs that never need one


class Run:
    """State of one unfinished run. ``tasks`` are those that wait, ``ready`` those that can be stepped now.

    There is nothing to put them in before :meth:`open`: most runs are over without (``RunDriver.start``).
    """

    __slots__ = (
        "_id",
        "_job",
        "_memories",
        "_sensory",
        "_short_term",
        "_timestamp",
        "_watermark",
        "entry",
        "events",
        "finishes",
        "input",  # set where the run is rebuilt
        "input_digest",
        "key",
        "memory_ms",
        "moment",
        "observed",  # of use to the observer alone, where there is one; None until it sets it
        "ready",
        "replaying",
        "sequence",
        "tasks",
        "version",  # set where the run may outlive its first callback
    )

    observed: Any
    version: PlanVersion

    def __init__(
        self,
        job: bytes,
        key: Any,
        sequence: int,
        timestamp: int | None,
        watermark: int | None,
        memories: Memories,
    ) -> None:
        self._job = job
        self.key = key
        self.sequence = sequence
        self._timestamp = timestamp
        self._watermark = watermark
        self.moment: Moment | None = None  # where the two come from, as long as nobody has asked
        self.events: deque[Event] = _NONE
        self.ready: deque[ActionTask] = _NONE
        self.tasks: list[ActionTask] = _NONE
        self.entry: KeyEntry | None = None  # None while the run is in its first callback
        # These are in use only where an action state store is:
        self.input_digest = ""
        self.finishes = 0  # actions that have finished, the ones that the store knows included
        self.replaying = False  # whether some of those had finished after the state the run was resumed from
        self._memories = memories
        self.memory_ms: int | None = None  # the moment as of which short-term memory with a TTL is seen
        self._short_term: RunMemory | None = None
        self._sensory: RunMemory | None = None
        self._id: bytes | None = None
        self.observed = None

    def open(self, *events: Event) -> None:
        """Make room for events and tasks that have to wait; ``events`` are the first ones."""
        self.events = deque(events)
        self.ready = deque()
        self.tasks = []
        self.input: Event | None = None

    def begin_anew(self, event: Event) -> None:
        """Be as it was before anything had happened but for its memory; ``event`` brings the input."""
        self.events.append(event)
        self._sensory = None

    def cause(self) -> Event | None:
        """The event with the input, of a run that has something left to do; ``None`` if records of old lack it."""
        if self.input is not None:
            return self.input
        event = next((task.event for task in (*self.tasks, *self.ready)), None) or self.events[0]
        while True:
            origin = event.__dict__.get("_origin")
            if origin is None or origin[0] is self:
                return None if origin is None else event
            event = origin[0]

    @property
    def timestamp(self) -> int | None:
        """Event time of the input, ms."""
        if self.moment is not None:
            self.fix_moment()
        return self._timestamp

    @property
    def watermark(self) -> int | None:
        """Watermark when the input arrived, ms."""
        if self.moment is not None:
            self.fix_moment()
        return self._watermark

    def fix_moment(self) -> None:
        """Ask for event time now: the run outlives the callback that knows it."""
        moment, self.moment = self.moment, None
        if moment is not None:
            self._timestamp, self._watermark = moment.timestamp(), moment.watermark()

    @property
    def id(self) -> UUID:
        """Derived from job identifier, key and sequence, so that it is the same on every replay (S4)."""
        return UUID(bytes=self.id_bytes)

    @property
    def id_bytes(self) -> bytes:
        """The 16 bytes of :attr:`id`."""
        known = self._id
        if known is None:
            key = key_bytes(self.key)
            known = self._id = blake2b(
                b"%d:%b%d:%b%d" % (len(self._job), self._job, len(key), key, self.sequence), digest_size=16
            ).digest()
        return known

    @property
    def arrival_watermark(self) -> int:
        """The watermark when the input arrived, Flink's least one if there was none."""
        return NO_WATERMARK if self.watermark is None else self.watermark

    @property
    def done(self) -> bool:
        return not (self.events or self.ready or self.tasks)

    @property
    def short_term(self) -> RunMemory:
        memory = self._short_term
        if memory is None:
            memory = self._short_term = self._memories.short_term(self)
        return memory

    @property
    def sensory(self) -> RunMemory:
        memory = self._sensory
        if memory is None:
            memory = self._sensory = self._memories.sensory()
        return memory

    def flush_memory(self) -> None:
        """Write committed short-term memory to keyed state; the key scope must be this run's."""
        if self._short_term is not None:
            self._short_term.flush()

    def close_memory(self) -> None:
        """As :meth:`flush_memory`, where the run is over."""
        memory = self._short_term
        if memory is not None:
            memory.flush()
            self._memories.finished(self, memory)

    def dump_sensory(self) -> dict[str, str]:
        return {} if self._sensory is None else self._sensory.dump()
