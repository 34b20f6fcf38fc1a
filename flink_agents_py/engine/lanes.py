"""Lanes: where calls of external actions wait for their turn, within the limits of their action (S13).

One lane per action and subtask, over all keys of the subtask. It lets a call go when fewer than ``max_concurrent`` are
in flight, and evenly spaced in time when there is a rate. Nothing here survives a restart, so a lane begins empty: the
calls that wait are in the journals of their actions.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from flink_agents_py.external.pace import Pace

if TYPE_CHECKING:
    from flink_agents_py.engine.external_call import ExternalCall
    from flink_agents_py.external.spec import ActionSpec, CircuitBreaker

HEADROOM = 0.95
"""Share of a rate that is used. A call takes more or less time to reach its target; evenly spaced at the full rate,
any second with a few late arrivals in it would have more than the target allows."""

_CATCH_UP_MS = 20.0
_CATCH_UP_PACED_MS = 250.0
"""How much of the spacing may be made up for when callbacks come late; more where attempts are spaced once more."""


class Breaker:
    """Whether a target is left alone for now."""

    __slots__ = ("_open_until", "_probe", "failures", "rule")

    def __init__(self, rule: CircuitBreaker) -> None:
        self.rule = rule
        self.failures = 0  # in a row
        self._open_until = 0
        self._probe: ExternalCall | None = None

    def refuses(self, call: ExternalCall, now_ms: int) -> bool:
        """Whether no attempt may be made now; one that may be is the probe, if the target was left alone before."""
        if self.failures < self.rule.failures:
            return False
        if now_ms < self._open_until or (self._probe is not None and self._probe is not call and not self._probe.done):
            return True
        self._probe = call
        return False

    def ended(self, call: ExternalCall, now_ms: int, *, failed: bool) -> None:
        """An attempt has ended."""
        if call is self._probe:
            self._probe = None
        if not failed:
            self.failures = 0
        else:
            self.failures += 1
            if self.failures >= self.rule.failures:
                self._open_until = now_ms + round(self.rule.open_s * 1000)


class Lane:
    """The waiting and running calls of one action."""

    __slots__ = (
        "_next_ms",
        "_paced",
        "_waiting",
        "in_flight",
        "max_concurrent",
        "max_queued",
        "pace",
        "rate_per_s",
        "spec",
    )

    def __init__(self, spec: ActionSpec, parallelism: int, *, paced: bool = False) -> None:
        self.in_flight = 0
        self._paced = paced
        self.pace: Pace | None = None
        self._waiting: OrderedDict[ExternalCall, None] = OrderedDict()
        self._next_ms = 0.0  # when the next attempt is due by the rate
        self.apply(spec, parallelism)

    def apply(self, spec: ActionSpec, parallelism: int) -> None:
        """Take the limits of a spec; what waits already, waits under them too."""
        self.spec = spec
        share = parallelism if spec.divide_by_parallelism else 1
        self.max_concurrent = max(1, spec.max_concurrent // share)
        self.rate_per_s = None if spec.rate_per_s is None else spec.rate_per_s * HEADROOM / share
        self.max_queued = max(1, spec.max_queued // share)
        if not self._paced or spec.rate_per_s is None:
            self.pace = None
        elif self.pace is None:
            self.pace = Pace(spec.rate_per_s / share)
        else:
            self.pace.rate_per_s = spec.rate_per_s / share

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= self.max_queued

    def add(self, call: ExternalCall) -> None:
        self._waiting[call] = None

    def forget(self, call: ExternalCall) -> None:
        self._waiting.pop(call, None)

    def first(self, now_ms: int) -> ExternalCall | None:
        """The call whose turn it is, if the limits allow one now."""
        if not self._waiting or self.in_flight >= self.max_concurrent:
            return None
        if self.rate_per_s is not None and self._next_ms > now_ms:
            return None
        return next(iter(self._waiting))

    def began(self, call: ExternalCall, now_ms: int) -> None:
        """An attempt is made."""
        self._waiting.pop(call, None)
        self.in_flight += 1
        if self.rate_per_s is not None:
            catch_up = _CATCH_UP_MS if self.pace is None else _CATCH_UP_PACED_MS
            self._next_ms = max(self._next_ms, now_ms - catch_up) + 1000.0 / self.rate_per_s

    def ended(self) -> None:
        """An attempt has let go of its place."""
        self.in_flight -= 1

    def due_ms(self) -> int | None:
        """When the rate allows the next attempt; ``None`` if nothing waits for that."""
        if self.rate_per_s is None or not self._waiting or self.in_flight >= self.max_concurrent:
            return None
        return int(self._next_ms) + 1


class Lanes:
    """All lanes and breakers of a subtask.

    Args:
        paced: attempts are spaced once more where they really begin; only for executors in real time.
    """

    def __init__(self, parallelism: int, *, paced: bool = False) -> None:
        self._parallelism = max(1, parallelism)
        self._paced = paced
        self._lanes: dict[str, Lane] = {}
        self._breakers: dict[str, Breaker] = {}

    def of(self, spec: ActionSpec) -> Lane:
        """The lane of an action, under the limits of its newest spec."""
        lane = self._lanes.get(spec.name)
        if lane is None:
            lane = self._lanes[spec.name] = Lane(spec, self._parallelism, paced=self._paced)
        elif lane.spec is not spec:
            lane.apply(spec, self._parallelism)
        return lane

    def breaker(self, spec: ActionSpec) -> Breaker | None:
        """The breaker of the spec's target, if it has one."""
        if spec.breaker is None:
            return None
        breaker = self._breakers.get(spec.where)
        if breaker is None:
            breaker = self._breakers[spec.where] = Breaker(spec.breaker)
        breaker.rule = spec.breaker
        return breaker

    @property
    def waiting(self) -> int:
        """Calls in all queues."""
        return sum(lane.waiting for lane in self._lanes.values())

    @property
    def full(self) -> bool:
        """Whether a queue has no place left: the next input should wait."""
        return any(lane.full for lane in self._lanes.values())

    def all(self) -> list[Lane]:
        return list(self._lanes.values())

    def next_due_ms(self) -> int | None:
        """When the earliest rate allows another attempt."""
        due = [when for lane in self._lanes.values() if (when := lane.due_ms()) is not None]
        return min(due, default=None)
