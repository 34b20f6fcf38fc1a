"""The watermark of one subtask, held back by unfinished inputs (S10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flink_agents_py.engine.engine import RESUME_AT_END
from flink_agents_py.engine.segments import NO_WATERMARK, SegmentedQueue

if TYPE_CHECKING:
    from pyflink.datastream import TimerService

    from flink_agents_py.engine.ports import Clock, ValuePort


class HeldWatermark:
    """Learns of watermarks through timers of synthetic keys, and says how far downstream may be told.

    A synthetic key always has one event-time timer, just behind the present watermark: it fires when the next one
    arrives. Such a key finds itself in state after a restore. Then nothing is released until every run that was
    unfinished at the checkpoint has been resumed and counted: their resume timers lie at most two intervals after the
    checkpoint, and timers fire in order, so one that is set two intervals after the restart comes after them all.

    Args:
        beat: state that tells a synthetic key from others.
        resume_interval_ms: of the resume timers (option ``resume-timer-interval``).
    """

    def __init__(self, beat: ValuePort, clock: Clock, resume_interval_ms: int) -> None:
        self.segments = SegmentedQueue()
        self.emitted = NO_WATERMARK
        self._beat = beat
        self._clock = clock
        self._gate_ms = clock.now_ms() + 2 * resume_interval_ms + 1
        self._gate_open = True
        self._started = False
        self._known: dict[Any, bool] = {}
        self._behind_gate = NO_WATERMARK

    def start(self, key: Any, service: TimerService) -> None:
        """The first record of a synthetic key."""
        self._started = True
        self._known[key] = True
        self._beat.put(1)
        service.register_event_time_timer(_watermark(service) + 1)

    def event_timer(self, key: Any, service: TimerService) -> None:
        """An event-time timer fired: if it is a synthetic key's, a watermark has arrived."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._beat.get() is not None
            if known and not self._started:
                self._started = True
                self._gate_open = False
                service.register_processing_time_timer(self._gate_ms)
        if not known:
            return
        watermark = _watermark(service)
        if watermark < RESUME_AT_END:
            if self._gate_open:
                self.segments.advance(watermark)
            else:
                self._behind_gate = watermark
            service.register_event_time_timer(watermark + 1)

    def processing_timer(self) -> None:
        """A processing-time timer fired; after a restore it may be the one that opens the gate."""
        if not self._gate_open and self._clock.now_ms() >= self._gate_ms:
            self._gate_open = True
            self.segments.advance(self._behind_gate)


def _watermark(service: TimerService) -> int:
    watermark = service.current_watermark()
    return NO_WATERMARK if watermark is None else int(watermark)
