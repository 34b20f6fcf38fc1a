"""How busy the machine is with other things: a rate measured beside another job says little about either engine."""

from __future__ import annotations

import time
from pathlib import Path

LOOK_S = 1.0
BUSY = 0.2
"""Share of all cores from which on a run deserves a warning."""


def busy_share(looking_s: float = LOOK_S) -> float | None:
    """Share (0 to 1) of all cores in use while nothing of ours runs; None where Linux's ``/proc/stat`` is missing.

    The load average would not do: it still remembers the benchmark's own previous run.
    """
    before = _jiffies()
    time.sleep(looking_s)
    after = _jiffies()
    if before is None or after is None:
        return None
    return share_between(before, after)


def share_between(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Share of time in use between two readings of (in use, all)."""
    in_all = after[1] - before[1]
    return round((after[0] - before[0]) / in_all, 2) if in_all > 0 else 0.0


def _jiffies() -> tuple[int, int] | None:
    try:
        line = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return None
    # user nice system idle iowait irq softirq steal; guest times are contained in user and nice.
    times = [int(number) for number in line.split()[1:9]]
    idle = times[3] + times[4]
    return sum(times) - idle, sum(times)
