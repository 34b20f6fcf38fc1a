"""Crashes at every step: runs a scenario once undisturbed, then again for every point at which it could have died."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flink_agents_py.agent import Agent
from flink_agents_py.engine.journal import function_id
from flink_agents_py.serde import encode
from flink_agents_py.testing.calls import PendingCall
from flink_agents_py.testing.clock import VirtualClock
from flink_agents_py.testing.harness import AgentHarness, Snapshot


@dataclass(frozen=True)
class Scenario:
    """An agent, its inputs, and how long its calls take.

    Args:
        agent: makes the agent; called once per attempt, so that no object survives a crash by accident.
        inputs: ``(key, value)`` in arrival order.
        config: options by key.
        latency: virtual seconds of a call, by call; the default spreads them so that calls finish out of order.
        interval: virtual seconds between two inputs.
    """

    agent: Callable[[], Agent]
    inputs: Sequence[tuple[Any, Any]]
    config: Mapping[str, Any] = field(default_factory=dict)
    latency: Callable[[PendingCall], float] | None = None
    interval: float = 0.03


@dataclass
class CrashReport:
    """What was tried."""

    steps: int = 0
    """Callbacks of the undisturbed run: the places at which a checkpoint or a crash can fall."""
    points: int = 0
    """Pairs of checkpoint and crash that were tried."""
    repeated_calls: int = 0
    """Calls made again over all points: in flight at the crash, or finished after the checkpoint."""
    replayed_calls: int = 0
    """Calls answered from the journal instead."""

    def __add__(self, other: CrashReport) -> CrashReport:
        return CrashReport(
            self.steps + other.steps,
            self.points + other.points,
            self.repeated_calls + other.repeated_calls,
            self.replayed_calls + other.replayed_calls,
        )


@dataclass(frozen=True)
class _Checkpoint:
    snapshot: Snapshot
    fed: int
    finished_calls: frozenset[str]
    now_ms: int


class _Simulation:
    """One subtask over the scenario's inputs, callback by callback, surviving crashes."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.clock = VirtualClock()
        self.made: Counter[str] = Counter()
        self.identities: dict[str, str] = {}
        self.journal_hits = 0
        self._finished: set[str] = set()
        self._fed = 0
        self._next_input_ms = self.clock.now_ms()
        self.harness = self._harness()

    def _harness(self) -> AgentHarness:
        config = {"pump-interval": 20, "job-identifier": "crash-everywhere", **self._scenario.config}
        return AgentHarness(
            self._scenario.agent(),
            config,
            latency=self._scenario.latency or _spread_latency,
            before_call=self._made,
            clock=self.clock,
        )

    def _made(self, call: PendingCall) -> None:
        durable = self.harness.engine.call_in_flight(call.number)
        key = durable.idempotency_key
        identity = f"{function_id(call.func)}{encode(call.args)}"
        known = self.identities.setdefault(key, identity)
        if known != identity:
            raise AssertionError(f"idempotency key {key} belongs to {known}, and now to {identity}")
        self.made[key] += 1

    def step(self) -> bool:
        """One callback: the next input or the next timer, whichever is earlier; False when all is done."""
        inputs = self._scenario.inputs
        if self._fed < len(inputs) and self.clock.now_ms() >= self._next_input_ms:
            key, value = inputs[self._fed]
            self._fed += 1
            self._next_input_ms = self.clock.now_ms() + round(self._scenario.interval * 1000)
            self.harness.feed(key, value)
            return True
        if self._fed == len(inputs) and self.harness.idle:
            return False
        due = self.harness.next_due_ms()
        if self._fed < len(inputs) and (due is None or due > self._next_input_ms):
            self.clock.advance_to(self._next_input_ms)
            return self.step()
        if not self.harness.step(due):
            raise AssertionError("runs are unfinished, and no timer will ever resume them")
        return True

    def checkpoint(self) -> _Checkpoint:
        finished = self.harness.engine.recorded_calls()
        return _Checkpoint(self.harness.snapshot(), self._fed, finished | self._finished, self.clock.now_ms())

    def restore(self, checkpoint: _Checkpoint) -> None:
        self.journal_hits += self.harness.stats.journal_hits
        harness = self._harness()
        harness.adopt_outputs(self.harness)
        harness.restore(checkpoint.snapshot)
        self.harness = harness
        self._fed = checkpoint.fed
        self._finished = set(checkpoint.finished_calls)
        self._next_input_ms = self.clock.now_ms()
        # A restart takes a while; overdue timers fire when it is through.
        self.clock.advance_to(self.clock.now_ms() + 10_000)

    def finish(self, limit: int = 200_000) -> None:
        for _ in range(limit):
            if not self.step():
                self.journal_hits += self.harness.stats.journal_hits
                return
        raise AssertionError(f"not finished after {limit} steps")

    def result(self) -> dict[str, Any]:
        """What must not depend on crashes: outputs by key, dead letters, and what is left in keyed state."""
        by_key: dict[str, list[Any]] = {}
        for key, value in self.harness.keyed_outputs:
            by_key.setdefault(encode(key), []).append(value)
        state = self.harness.snapshot().state
        return {
            "outputs": by_key,
            "side outputs": sorted(encode(entry) for entry in self.harness.all_side_outputs()),
            "state": {name: entries for name, entries in state.items() if name != "agent.run" or entries},
        }


def crash_everywhere(scenario: Scenario, *, depth: int = 3, sample: int | None = None, seed: int = 0) -> CrashReport:
    """Crash after every callback and restore from the last checkpoints; effects must be those of an undisturbed run.

    A checkpoint is taken after every callback. For each callback the process dies right after it, and a new attempt
    starts from each of the last ``depth`` checkpoints (the newest first; older ones are what a job falls back to when
    the newest did not complete). It then runs to the end. Checked:

    * outputs per key, side outputs and the final keyed state equal those of the undisturbed run;
    * a call that was recorded in the checkpoint is not made again;
    * a call that is made again has the same idempotency key, function and arguments; no other calls are made.

    Args:
        depth: how many checkpoints to try per crash.
        sample: try only so many randomly drawn pairs, for scenarios with many steps.

    Raises:
        AssertionError: one of these does not hold; the message says at which crash and checkpoint.
    """
    undisturbed = _Simulation(scenario)
    undisturbed.finish()
    expected = undisturbed.result()
    report = CrashReport()
    pairs: list[tuple[int, int]] = []
    probe = _Simulation(scenario)
    while probe.step():
        report.steps += 1
        pairs.extend((report.steps, back) for back in range(depth) if back <= report.steps)
    if sample is not None and sample < len(pairs):
        pairs = sorted(random.Random(seed).sample(pairs, sample))  # noqa: S311
    for crash_at, back in pairs:
        _crash_once(scenario, crash_at, back, undisturbed, expected, report)
    return report


def _crash_once(
    scenario: Scenario,
    crash_at: int,
    back: int,
    undisturbed: _Simulation,
    expected: dict[str, Any],
    report: CrashReport,
) -> None:
    simulation = _Simulation(scenario)
    checkpoints = [simulation.checkpoint()]
    for _ in range(crash_at):
        simulation.step()
        checkpoints.append(simulation.checkpoint())
        del checkpoints[: -(back + 1)]
    checkpoint = checkpoints[0]
    before = Counter(simulation.made)
    where = f"crash after callback {crash_at}, restored from the checkpoint after callback {crash_at - back}"
    try:
        simulation.restore(checkpoint)
        simulation.finish()
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from error
    result = simulation.result()
    for part, value in expected.items():
        if result[part] != value:
            raise AssertionError(f"{where}: {part} differ\n  undisturbed: {value}\n  with crash:  {result[part]}")
    for key, times in simulation.made.items():
        again = times - before[key]
        if key in checkpoint.finished_calls and again:
            raise AssertionError(
                f"{where}: {simulation.identities[key]} was recorded in the checkpoint and made {again} times more"
            )
        if before[key]:
            report.repeated_calls += again
    if simulation.identities != undisturbed.identities:
        raise AssertionError(
            f"{where}: other calls were made\n  undisturbed: {undisturbed.identities}\n"
            f"  with crash:  {simulation.identities}"
        )
    report.points += 1
    report.replayed_calls += simulation.journal_hits


def _spread_latency(call: PendingCall) -> float:
    """Between 0.05 and 0.2 s, different from call to call, the same on every machine."""
    text = f"{function_id(call.func)}{encode(call.args)}"
    return 0.05 + 0.15 * random.Random(text).random()  # noqa: S311
