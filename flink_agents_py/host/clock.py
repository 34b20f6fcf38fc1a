"""Wall-clock processing time."""

from __future__ import annotations

import time


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic_s = staticmethod(time.perf_counter)
