"""The metrics of the framework itself: what they are called, and where their values come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flink_agents_py.metrics import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from flink_agents_py.engine.engine import Engine
    from flink_agents_py.observe.observation import Observation

Group = tuple[str, str] | None
"""Name and value of the group inside the operator's; ``None`` for that itself."""

COUNTERS = {
    # The first two and their rates are named as in Apache Flink Agents; so are those of the event log.
    "numOfEventProcessed": "events",
    "numOfActionsExecuted": "actions",
    "numOfInputs": "inputs",
    "numOfRuns": "runs",
    "numOfRunsResumed": "resumed",
    "numOfRunsRestarted": "restarted",
    "numOfPlanUpdates": "plan_updates",
    "numOfPlansRefused": "plans_refused",
    "numOfCallAttempts": "attempts",
    "numOfRetries": "retries",
    "numOfCallTimeouts": "timeouts",
    "numOfCallsReconciled": "reconciled",
    "numOfCallsNeverAwaited": "never_awaited",
    "journalHits": "journal_hits",
    "journalMisses": "journal_misses",
    "journalMismatches": "mismatches",
    "numOfActionsRecalled": "recalled",
    "numOfActionsSkipped": "skipped",
    "numOfSequencesDiscarded": "discarded",
    "numOfDeadLetters": "dead_letters",
    "numOfUnhandledEvents": "unhandled",
    "numOfUnmatchedEvents": "unmatched",
    "numOfConditionFailures": "condition_failures",
}
"""Names of counters, and of the engine's statistics behind them."""

RATES = ("numOfEventProcessed", "numOfActionsExecuted")
"""Counters that also have a meter, with ``PerSec`` behind the name."""

QUANTILES = (("P50", 0.5), ("P95", 0.95), ("P99", 0.99))


class BuiltInMetrics:
    """Reads the framework's metrics off an engine.

    Args:
        lag_ms: how far the held watermark is behind the newest one.
    """

    def __init__(self, engine: Engine, observation: Observation, lag_ms: Callable[[], int]) -> None:
        self._engine = engine
        self._observation = observation
        self._lag_ms = lag_ms
        self.callback_us = Histogram()
        """Durations of callbacks, microseconds; a sample of them, and all timers."""

    def counters(self) -> Iterator[tuple[Group, str, int]]:
        """Group, name and total of each counter."""
        stats, log = self._engine.stats, self._observation.log
        for name, source in COUNTERS.items():
            yield None, name, getattr(stats, source)
        yield None, "eventLogTruncatedEvents", 0 if log is None else log.truncated
        yield None, "eventLogWriteFailures", self._observation.write_failures
        for action, executed in self._engine.executed().items():
            yield ("action", action), "numOfActionsExecuted", executed
        if self._engine.updates is not None:
            for digest, executed in self._engine.executed_by_version().items():
                yield ("plan", digest), "numOfActionsExecuted", executed
        for code, retries in stats.retries_by_code.items():
            yield ("code", code), "numOfRetries", retries

    def gauges(self) -> Iterator[tuple[str, int]]:
        """Name and value of each gauge."""
        stats, levels = self._engine.stats, self._engine.levels()
        yield "callsInFlight", levels.calls_in_flight
        yield "callsInFlightMax", stats.in_flight_max
        yield "callsQueued", levels.calls_waiting
        yield "runsUnfinished", levels.runs
        yield "inputsQueued", levels.inputs_waiting
        yield "stateBytesPerRun", stats.state_bytes // stats.state_writes if stats.state_writes else 0
        yield "heldWatermarkLagMs", self._lag_ms()
        yield from histogram_values("callbackTimeUs", self.callback_us)


def histogram_values(name: str, histogram: Histogram) -> Iterator[tuple[str, int]]:
    """A histogram as gauges, in whole numbers: PyFlink has no other form of it in both execution modes."""
    yield f"{name}Count", histogram.count
    yield f"{name}Mean", round(histogram.get_mean())
    yield f"{name}Min", round(histogram.min)
    yield f"{name}Max", round(histogram.max)
    for suffix, share in QUANTILES:
        yield f"{name}{suffix}", round(histogram.quantile(share))
