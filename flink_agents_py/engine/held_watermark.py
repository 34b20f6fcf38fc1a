"""The watermark of one subtask, held back by unfinished inputs (S10).

A host that gets callbacks only under keys never hears of a watermark as such. So each subtask owns *synthetic keys*,
and one of them, the leader, always has an event-time timer just behind the present watermark: it fires when the next
one arrives. The others stand by with a coarse processing-time timer, and take over where there is no leader: after a
restore with another parallelism, keys and their timers go to other subtasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flink_agents_py.engine.segments import NO_WATERMARK, SegmentedQueue
from flink_agents_py.engine.unfinished import RESUME_AT_END

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flink_agents_py.engine.ports import Clock, Timers, ValuePort

_LEAST_WATCH_MS = 1000


class HeldWatermark:
    """Learns of watermarks, and says how far downstream may be told.

    After a restore nothing is released until every run that was unfinished at the checkpoint has been resumed and
    counted. Their resume timers lie at most two intervals after the checkpoint, and processing-time timers fire in
    order: one that is set two intervals after the restart comes after them all. It opens the *gate*.

    A host whose timers are not safe (see :mod:`flink_agents_py.engine.registry`) calls :meth:`beat` under every
    synthetic key in every attempt, with the runs that are listed there resumed; the gate opens at the last of them.

    Every method is called under the key of the callback; ``watermark`` is the newest that has arrived.

    Args:
        beat: state that tells a synthetic key from others.
        resume_interval_ms: of the resume timers (option ``resume-timer-interval``).
        restored: whether this attempt may have begun from a checkpoint or savepoint.
        hold: ``False`` releases every watermark at once, to see what is lost then.
        awaited: the synthetic keys of this subtask, if the host calls :meth:`beat`.
    """

    def __init__(
        self,
        beat: ValuePort,
        timers: Timers,
        clock: Clock,
        resume_interval_ms: int,
        *,
        restored: bool = False,
        hold: bool = True,
        awaited: Iterable[Any] | None = None,
    ) -> None:
        self.segments = SegmentedQueue()
        self.emitted = NO_WATERMARK
        """What downstream has been told."""
        self._beat = beat
        self._timers = timers
        self._clock = clock
        self._watch_ms = max(_LEAST_WATCH_MS, resume_interval_ms)
        self._gate_ms = clock.now_ms() + 2 * resume_interval_ms + 1
        self._awaited = None if awaited is None else set(awaited)
        self._gate_open = not restored if self._awaited is None else not self._awaited
        self._gate_armed = False
        self._hold = hold
        self._leader: Any = None
        self._known: dict[Any, bool] = {}
        self._started: set[Any] = set()
        self._newest = NO_WATERMARK

    @property
    def released(self) -> int:
        """The newest watermark that may go downstream, ms; it only grows."""
        return self.segments.released if self._hold else self.segments.watermark

    @property
    def waits_for_resumed(self) -> bool:
        """Whether the gate is closed."""
        return not self._gate_open

    def advance(self, watermark: int) -> None:
        """Note the watermark of the present callback."""
        if watermark > self._newest and watermark < RESUME_AT_END:
            self._newest = watermark
            if self._gate_open:
                self.segments.advance(watermark)

    def start(self, key: Any, watermark: int) -> None:
        """The record that makes ``key`` a synthetic key."""
        if self._beat.get() is None:
            self._beat.put(1)
            self._started.add(key)
        self._known[key] = True
        self._met(key)
        self._listen(key, watermark)

    def beat(self, key: Any, watermark: int) -> None:
        """The host's regular callback under a synthetic key; runs listed there have been resumed."""
        self.advance(watermark)
        if self._awaited:
            self._awaited.discard(key)
            if not self._awaited:
                self._open_gate()
        self._listen(key, watermark)

    def event_timer(self, key: Any, watermark: int) -> None:
        """An event-time timer of a synthetic key fired: a watermark has arrived."""
        if self._awaited is None:
            self._met(key)
        self.advance(watermark)
        self._listen(key, watermark)

    def tick(self, timestamp: int, watermark: int) -> None:
        """A processing-time timer fired, under whatever key."""
        self.advance(watermark)
        if self._awaited is None and not self._gate_open and timestamp >= self._gate_ms:
            self._open_gate()

    def watch(self, key: Any, watermark: int) -> bool:
        """A processing-time timer fired under what may be a synthetic key. Whether it is one."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._beat.get() is not None
        if known:
            self._met(key)
            self._listen(key, watermark)
        return known

    def _open_gate(self) -> None:
        self._gate_open = True
        self.segments.advance(self._newest)

    def _met(self, key: Any) -> None:
        if key not in self._started and not self._gate_armed:
            self._gate_open = False  # its state is older than this attempt
        if not self._gate_open and not self._gate_armed:
            self._gate_armed = True
            self._timers.processing_time(self._gate_ms)

    def _listen(self, key: Any, watermark: int) -> None:
        if watermark >= RESUME_AT_END:
            return  # the input has ended
        if self._leader is None:
            self._leader = key
        if self._leader == key:
            self._timers.event_time(watermark + 1)
        if self._awaited is None:
            self._timers.processing_time((self._clock.now_ms() // self._watch_ms + 1) * self._watch_ms)
