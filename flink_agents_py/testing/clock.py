"""A clock that moves only when told to."""

from __future__ import annotations


class VirtualClock:
    """Processing time under test control, in ms since the epoch."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self.budget_used_s = 0.0
        """Added to :meth:`monotonic_s`; a test that wants a callback to run out of its time budget raises it."""

    def now_ms(self) -> int:
        """Processing time."""
        return self._now_ms

    def monotonic_s(self) -> float:
        """What time budgets are measured with."""
        return self._now_ms / 1000 + self.budget_used_s

    def advance_to(self, now_ms: int) -> None:
        """Move on. A harness does it itself (``advance``), firing the timers on the way."""
        if now_ms < self._now_ms:
            raise ValueError(f"time does not run backwards: {now_ms} < {self._now_ms}")
        self._now_ms = now_ms
