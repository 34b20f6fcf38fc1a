"""What :mod:`tests.support.fault_server` saw: requests, what was done, how many at a time and how many a second."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.support.ledger import lines


class FaultLedger:
    """The requests, by idempotency key; times ``at`` are in seconds of the server's monotonic clock."""

    def __init__(self, path: Path) -> None:
        self.starts: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.ends: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.done: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.asked: dict[str, list[dict[str, Any]]] = defaultdict(list)
        phases = {"start": self.starts, "end": self.ends, "done": self.done, "asked": self.asked}
        for record in lines(path):
            phases[record["phase"]][record["key"]].append(record)

    def of(self, action: str) -> dict[str, list[dict[str, Any]]]:
        """The requests of one action."""
        return {key: starts for key, starts in self.starts.items() if starts[0]["action"] == action}

    def attempts(self, action: str) -> list[int]:
        """How many requests each call of ``action`` made."""
        return [len(starts) for starts in self.of(action).values()]

    def gaps(self, key: str) -> list[float]:
        """Seconds between the end of each request of ``key`` and the start of the next."""
        return [start["at"] - end["at"] for end, start in zip(self.ends[key], self.starts[key][1:], strict=False)]

    def most_at_once(self) -> int:
        """The largest number of requests that were being worked on at one moment."""
        changes = [(start["at"], 1) for starts in self.starts.values() for start in starts]
        changes += [(end["at"], -1) for ends in self.ends.values() for end in ends]
        most = now = 0
        for _, change in sorted(changes):
            now += change
            most = max(most, now)
        return most

    def most_within(self, seconds: float) -> int:
        """The largest number of requests that arrived within any window of that length."""
        arrivals = self.arrivals()
        return max((bisect_left(arrivals, at + seconds) - index for index, at in enumerate(arrivals)), default=0)

    def arrivals(self) -> list[float]:
        """When each request arrived, in order."""
        return sorted(start["at"] for starts in self.starts.values() for start in starts)
