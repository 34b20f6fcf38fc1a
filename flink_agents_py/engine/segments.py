"""The segmented queue: how far the watermark may go while inputs are unfinished (S10).

Inputs between two watermarks form a segment. What counts about a segment is the watermark it began with, the *arrival
watermark* of its inputs: each input holds back the watermarks that came after it and no others. So the watermark that
may be released is the arrival watermark of the oldest segment with an unfinished input, or the newest watermark if
there is none.

Segments without inputs are never made: several watermarks in a row collapse into one boundary. Arrival watermarks are
kept with each run and waiting input in keyed state, so that the boundaries are as fine after a restore as before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

NO_WATERMARK = -(2**63)
"""Flink's watermark before the first one."""


class SegmentedQueue:
    """Counts unfinished inputs by arrival watermark.

    Every method is O(1) in the number of segments (amortised), but for :meth:`arrive` of an input that was restored,
    which may belong anywhere.
    """

    __slots__ = ("_counts", "_order", "_released", "_watermark")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._order: deque[int] = deque()  # arrival watermarks with an entry in _counts, ascending
        self._watermark = NO_WATERMARK
        self._released = NO_WATERMARK

    @property
    def watermark(self) -> int:
        """The newest watermark that arrived, ms."""
        return self._watermark

    @property
    def released(self) -> int:
        """The newest watermark that may go downstream, ms; it only grows."""
        return self._released

    def advance(self, watermark: int) -> None:
        """A watermark arrived."""
        if watermark > self._watermark:
            self._watermark = watermark
            self._release()

    def arrive(self, watermark: int) -> None:
        """An input arrived when ``watermark`` was the newest; it is unfinished until :meth:`complete`."""
        counts = self._counts
        if watermark in counts:
            counts[watermark] += 1
            return
        counts[watermark] = 1
        order = self._order
        if not order or order[-1] < watermark:
            order.append(watermark)
        else:  # only after a restore: keys come back in any order
            order.insert(bisect_left(order, watermark), watermark)

    def complete(self, watermark: int) -> None:
        """An input that arrived at ``watermark`` is finished."""
        counts = self._counts
        left = counts[watermark] - 1
        counts[watermark] = left
        if left:
            return
        order = self._order
        if order[0] == watermark:
            # Emptied segments behind the oldest one wait for it, and are dropped with it.
            while order and not counts[order[0]]:
                del counts[order.popleft()]
            self._release()

    def _release(self) -> None:
        allowed = min(self._watermark, self._order[0]) if self._order else self._watermark
        self._released = max(self._released, allowed)
