"""Metrics: counters, meters, gauges and histograms in groups, as ``ctx.agent_metric_group`` gives them out.

They are plain Python objects: updating one costs an addition. On Flink they appear in the operator's metric group, in
both execution modes, within a second; without Flink they can be read here. They begin at zero with each attempt of the
job, as all metrics of Flink do. An action that is run again after a restart updates them again.
"""

from __future__ import annotations

from time import monotonic
from typing import TypeVar


class Counter:
    """A number of things."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int = 1) -> None:
        """Add ``n``."""
        self.count += n

    def dec(self, n: int = 1) -> None:
        """Subtract ``n``."""
        self.count -= n

    def get_count(self) -> int:
        """The number so far."""
        return self.count


class Meter(Counter):
    """A number of things and how many of them come per second; Flink does the division."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        super().__init__()
        self._since = monotonic()

    def mark(self, n: int = 1) -> None:
        """``n`` more have come."""
        self.count += n

    mark_event = mark  # PyFlink's name

    def get_rate(self) -> float:
        """How many came per second since the meter was made."""
        return self.count / max(monotonic() - self._since, 1e-3)


class Gauge:
    """The newest of some values; Flink shows whole numbers only."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def update(self, value: float) -> None:
        """Set it."""
        self.value = value

    def get_value(self) -> float:
        """The value set last, 0 before."""
        return self.value


class Histogram:
    """How values are distributed. Quantiles are of the newest ``window_size``, the rest of all."""

    __slots__ = ("_size", "_window", "count", "max", "min", "sum")

    def __init__(self, window_size: int = 512) -> None:
        self._size = max(1, window_size)
        self.count = 0
        self.sum: float = 0
        self.min: float = 0
        self.max: float = 0
        self._window: list[float] = []

    def update(self, value: float) -> None:
        """Add a value."""
        count = self.count
        if count < self._size:
            self._window.append(value)
        else:
            self._window[count % self._size] = value
        self.count = count + 1
        self.sum += value
        if value > self.max or not count:
            self.max = value
        if value < self.min or not count:
            self.min = value

    def get_count(self) -> int:
        """How many values there were."""
        return self.count

    def get_mean(self) -> float:
        """Their mean, 0 without any."""
        return self.sum / self.count if self.count else 0

    def get_max(self) -> float:
        """The largest, 0 without any."""
        return self.max

    def get_min(self) -> float:
        """The smallest, 0 without any."""
        return self.min

    def quantile(self, share: float) -> float:
        """The value that ``share`` (0 to 1) of the newest ones do not exceed, 0 without any."""
        window = sorted(self._window)
        return window[min(len(window) - 1, int(share * len(window)))] if window else 0


Metric = Counter | Gauge | Histogram
T = TypeVar("T", Counter, Meter, Gauge, Histogram)


class MetricGroup:
    """A named set of metrics, and of groups inside it. Asking twice for a name gives the same object."""

    __slots__ = ("groups", "metrics")

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}
        self.groups: dict[tuple[str, str | None], MetricGroup] = {}

    def get_sub_group(self, name: str, value: str | None = None) -> MetricGroup:
        """The group ``name`` inside this one; with ``value``, the pair becomes a label in reporters that have them."""
        group = self.groups.get((name, value))
        if group is None:
            group = self.groups[name, value] = MetricGroup()
        return group

    def get_counter(self, name: str) -> Counter:
        """The counter of that name.

        Raises:
            TypeError: it is a metric of another kind; the same in the other methods.
        """
        return self._get(name, Counter)

    def get_meter(self, name: str) -> Meter:
        """The meter of that name."""
        return self._get(name, Meter)

    def get_gauge(self, name: str) -> Gauge:
        """The gauge of that name."""
        return self._get(name, Gauge)

    def get_histogram(self, name: str, window_size: int = 512) -> Histogram:
        """The histogram of that name; ``window_size`` counts when it is made."""
        if name not in self.metrics:
            self.metrics[name] = Histogram(window_size)
        return self._get(name, Histogram)

    def _get(self, name: str, kind: type[T]) -> T:
        metric = self.metrics.get(name)
        if metric is None:
            metric = self.metrics[name] = kind()
        if type(metric) is not kind:
            raise TypeError(f"the metric {name!r} is a {type(metric).__name__}, not a {kind.__name__}")
        return metric
