"""The clock inside the job: both engines tick it once a record, and it writes its figures at the last one.

One gauge serves all subtasks of a process (thread mode and local process mode both run them in one), so rates add up by
themselves. What to measure comes in environment variables, because the JVM and the workers inherit those in both
execution modes while arguments and module globals of the client do not reach them.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from pathlib import Path

FIGURES = "FLINK_AGENTS_BENCH_FIGURES"
FIRST = "FLINK_AGENTS_BENCH_FIRST"
LAST = "FLINK_AGENTS_BENCH_LAST"

WARM_UP_RECORDS = 20_000


def first_measured(n: int) -> int:
    """The record at which the clock starts: the 20,000th or the one at 10 %, whichever comes first."""
    return max(1, min(WARM_UP_RECORDS, n // 10))


def environment(n: int, figures: Path) -> dict[str, str]:
    """Environment variables that tell the workers of a run what to measure and where to write it."""
    return {FIGURES: str(figures), FIRST: str(first_measured(n)), LAST: str(n)}


_first = int(os.environ.get(FIRST, "0"))
_last = int(os.environ.get(LAST, "0"))
# next() of an itertools.count is atomic under the GIL, unlike `n += 1` of two subtasks' threads.
_next = itertools.count(1).__next__
_started_at = 0.0
_cpu_at = 0.0
_lock = threading.Lock()
_in_flight = 0
_in_flight_max = 0
_latencies: list[float] = []


def tick() -> None:
    """Count one finished record."""
    count = _next()
    if count in (_first, _last):
        _mark(count)


def call_started() -> float:
    """Note that a record's call is being made; hand the result to :func:`call_finished`."""
    global _in_flight, _in_flight_max  # noqa: PLW0603 - the gauge is one per process on purpose
    with _lock:
        _in_flight += 1
        _in_flight_max = max(_in_flight_max, _in_flight)
    return time.perf_counter()


def call_finished(started: float) -> None:
    """Note that the operator goes on with a record whose call has returned, and count the record."""
    global _in_flight  # noqa: PLW0603 - the gauge is one per process on purpose
    with _lock:
        _in_flight -= 1
        _latencies.append(time.perf_counter() - started)
    tick()


def _mark(count: int) -> None:
    global _started_at, _cpu_at
    now = time.perf_counter()
    if count == _first:
        _started_at, _cpu_at = now, time.process_time()
        return
    figures = {
        "records": _last - _first,
        "seconds": now - _started_at,
        "cpu_s": time.process_time() - _cpu_at,  # of all threads: in thread mode the whole TaskManager's
        "in_flight_max": _in_flight_max,
        "latencies_s": _latencies,
    }
    # Written aside and renamed: the client must never read half a file.
    target = Path(os.environ[FIGURES])
    aside = target.with_suffix(".part")
    aside.write_text(json.dumps(figures))
    aside.replace(target)
