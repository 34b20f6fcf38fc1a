"""Counters that calls on several threads add to."""

from __future__ import annotations

import threading

from flink_agents_py.metrics import MetricGroup

NAMES = (
    *("itemsAdded", "itemsUpdated", "itemsDeleted", "searches", "itemsReturned", "tokensReturned"),
    *("compactions", "compactionsStale", "compactionsFailed", "compactionPromptTokens", "compactionCompletionTokens"),
    *("itemsCompacted", "tokensBeforeCompaction", "tokensAfterCompaction", "compactionCostMicros"),
)


class Tally:
    """The metrics of long-term memory. All are made at once: where they are reported, nobody may add any meanwhile."""

    def __init__(self, group: MetricGroup) -> None:
        self._counters = {name: group.get_counter(name) for name in NAMES}
        self._lock = threading.Lock()

    def add(self, **numbers: int) -> None:
        """Add to counters by name."""
        with self._lock:
            for name, number in numbers.items():
                self._counters[name].inc(number)
