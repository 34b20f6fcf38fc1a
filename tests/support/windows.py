"""What must be true of any run of ``tests/flink/programs/event_time.py``."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.support.ledger import lines

STEP_MS = 100
WINDOW_MS = 1000
START_MS = 1_700_000_000_000


def timestamp_of(number: int) -> int:
    return START_MS + (number ^ 1) * STEP_MS


def expected_windows(count: int, keys: int) -> dict[tuple[str, int], list[int]]:
    """Numbers by key and start of the window, computed without Flink."""
    windows = defaultdict(list)
    for number in range(count):
        windows[f"key {number % keys}", timestamp_of(number) // WINDOW_MS * WINDOW_MS].append(number)
    return dict(windows)


def watermarks_of_the_source(count: int) -> set[int]:
    """Those of records that may be two steps out of order."""
    return {timestamp_of(number) - 2 * STEP_MS - 1 for number in range(count)}


def due_windows(count: int, keys: int) -> dict[tuple[str, int], list[int]]:
    """Those that the watermark behind the last input has passed."""
    watermark = START_MS + (count - 1) * STEP_MS - 2 * STEP_MS - 1
    return {
        (key, start): numbers
        for (key, start), numbers in expected_windows(count, keys).items()
        if start + WINDOW_MS - 1 <= watermark
    }


def late_records(written: list[dict[str, Any]]) -> list[int]:
    return [line["number"] for line in written if line["kind"] == "late"]


def windows_of(written: list[dict[str, Any]]) -> dict[tuple[str, int], list[int]]:
    """The windows that fired; one that fired again after a restart must have had the same content."""
    windows: dict[tuple[str, int], list[int]] = {}
    for line in written:
        if line["kind"] == "window":
            window = line["key"], line["start"]
            assert windows.setdefault(window, line["numbers"]) == line["numbers"], f"window {window} fired differently"
    return windows


def check_event_time(path: Path, count: int, keys: int) -> list[dict[str, Any]]:
    """Windows are complete, nothing is late, all has the timestamp of its input; returns what was written."""
    written = lines(path)
    assert not late_records(written)
    assert windows_of(written) == expected_windows(count, keys)
    check_looks(written, "output", set(range(count)))
    check_looks(written, "third", set(range(0, count, 3)))
    return written


def check_looks(written: list[dict[str, Any]], kind: str, numbers: set[int]) -> None:
    looks = [line for line in written if line["kind"] == kind]
    assert {look["number"] for look in looks} == numbers
    for look in looks:
        assert look["timestamp"] == timestamp_of(look["number"]), f"the {kind} has another timestamp than its input"
        assert (look["watermark"] or 0) < look["timestamp"], f"the {kind} came behind a watermark that had passed it"
