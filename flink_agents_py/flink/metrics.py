"""Metrics of an operator in Flink's metric group, in both execution modes.

Values are brought over about once a second, by the operator's own thread. In thread mode that is a must: Flink would
ask a gauge that is a Python function from a thread of its own, and pemja would run it on the interpreter state that the
operator thread is using. So gauges are Java objects there that are set. In process mode everything is a gauge: PyFlink
asks for those at the end of each bundle, while what a counter is told in a timer did not arrive (2.3.0). Rates are of
the time since the report before there, and of the last minute in thread mode, where Flink works them out.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flink_agents_py.metrics import Counter, Histogram, Meter, MetricGroup
from flink_agents_py.observe.metrics import RATES, histogram_values

if TYPE_CHECKING:
    from flink_agents_py.observe.metrics import BuiltInMetrics

INTERVAL_MS = 1000
_SAMPLES = 32  # callbacks in a row that are timed after each report


class MetricsReport:
    """Reports the framework's metrics and the user's; all methods are called on the operator thread.

    Args:
        group: Flink's, of the operator.
        threaded: whether the operator runs in thread mode.
        users: what ``ctx.agent_metric_group`` is.
    """

    def __init__(self, group: Any, built_in: BuiltInMetrics, users: MetricGroup, *, threaded: bool) -> None:
        self.due_ms = 2**63
        """When to publish, from :meth:`arm` on."""
        self.samples = _SAMPLES
        self._group = group
        self._threaded = threaded
        self._built_in = built_in
        self._users = users
        self._sums: dict[Any, int] = {}  # what Flink's counters hold
        self._handles: dict[Any, Any] = {}
        self._values: dict[Any, int] = {}  # of gauges
        self._published_s = time.monotonic()
        self._seconds = 1.0  # between the last two reports
        self.publish()  # so that every name is there from the beginning
        self.timed = built_in.callback_us.update

    @property
    def armed(self) -> bool:
        """Whether a timer for the next report has been set."""
        return self.due_ms < 2**63

    def arm(self, now_ms: int) -> int:
        """Something has happened: there will be something to report. When to wake up for it, ms."""
        self.due_ms = now_ms + INTERVAL_MS
        return self.due_ms

    def publish(self) -> None:
        """Bring everything over that has changed."""
        now = time.monotonic()
        self._seconds, self._published_s = max(0.001, now - self._published_s), now
        self.due_ms = 2**63
        self.samples = _SAMPLES
        root = self._group
        for labels, name, total in self._built_in.counters():
            group = root if labels is None else self._subgroup(root, (), labels)
            self._count((labels, name), group, name, total)
            if name in RATES:
                self._mark((labels, name, "PerSec"), group, f"{name}PerSec", total)
        for name, value in self._built_in.gauges():
            self._set((None, name), root, name, value)
        self._publish_group(self._users, root, ("user",))

    def _publish_group(self, group: MetricGroup, flink: Any, path: tuple[Any, ...]) -> None:
        for name, metric in group.metrics.items():
            key = (*path, name)
            if isinstance(metric, Meter):
                self._mark(key, flink, name, metric.count)
            elif isinstance(metric, Counter):
                self._count(key, flink, name, metric.count)
            elif isinstance(metric, Histogram):
                for part, value in histogram_values(name, metric):
                    self._set((*path, part), flink, part, value)
            else:
                self._set(key, flink, name, int(metric.value))
        for labels, inner in group.groups.items():
            self._publish_group(inner, self._subgroup(flink, path, labels), (*path, labels))

    # --- one metric -------------------------------------------------------------------------------------------------

    def _subgroup(self, group: Any, path: tuple[Any, ...], labels: tuple[str, str | None]) -> Any:
        # The groups of the framework and of the user may be the same ones of Flink: `action`, for one.
        key = ("group", tuple(part for part in path if part != "user"), labels)
        found = self._handles.get(key)
        if found is None:
            name, value = labels
            found = self._handles[key] = group.add_group(name) if value is None else group.add_group(name, value)
        return found

    def _handle(self, key: Any, make: Callable[[], Any]) -> Any:
        handle = self._handles.get(key)
        if handle is None:
            handle = self._handles[key] = make()
        return handle

    def _count(self, key: Any, group: Any, name: str, total: int) -> None:
        if not self._threaded:
            self._set(key, group, name, total)
            return
        counter = self._handle(key, lambda: group.counter(name))
        more = total - self._sums.get(key, 0)
        if more:
            self._sums[key] = total
            counter.inc(more)

    def _mark(self, key: Any, group: Any, name: str, total: int) -> None:
        more = total - self._sums.get(key, 0)
        self._sums[key] = total
        if not self._threaded:
            self._set(key, group, name, round(more / self._seconds))
            return
        meter = self._handle(key, lambda: group.meter(name))
        if more:
            meter.mark_event(more)

    def _set(self, key: Any, group: Any, name: str, value: int) -> None:
        known = self._values.get(key)
        if known == value:
            return
        if self._threaded:
            # A `distribution` of thread mode is a gauge in Java that holds the number it was given last.
            self._handle(key, lambda: group.distribution(name)).update(value)
        elif known is None:
            group.gauge(name, functools.partial(self._value, key))
        self._values[key] = value

    def _value(self, key: Any) -> int:
        return self._values[key]
