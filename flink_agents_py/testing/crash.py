"""Crashes at every step: runs a scenario once undisturbed, then again for every point at which it could have died."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flink_agents_py.agent import Agent
from flink_agents_py.engine.journal import function_id
from flink_agents_py.engine.memory_item import split_time
from flink_agents_py.external.tags import EXTERNAL_TAGS
from flink_agents_py.serde import decode, encode
from flink_agents_py.testing.calls import PendingCall
from flink_agents_py.testing.clock import VirtualClock
from flink_agents_py.testing.harness import AgentHarness, Snapshot

if TYPE_CHECKING:
    from flink_agents_py.stores.store import ActionStateStore

_DOWN_MS = 10_000
"""How long a restart takes: longer than the resume timers, so that overdue ones are tried too."""
_MOST_STEPS = 200_000


@dataclass(frozen=True)
class Scenario:
    """An agent, its inputs, and how long its calls take.

    Args:
        agent: makes the agent; called once per attempt, so that no object survives a crash by accident.
        inputs: ``(key, value)`` in arrival order.
        config: options by key.
        latency: virtual seconds of a call, by call; the default spreads them so that calls finish out of order.
        interval: virtual seconds between two inputs.
        reset: brings the outside world (counters, fake services) back to its beginning; called before each simulation.
        store: makes a fresh, empty action state store for one simulation: a function that opens it for a job, once per
            attempt. With it, nothing that had its outcome may be made again, whatever checkpoint is restored.
        event_time: inputs have timestamps, and a watermark follows each of them. Checked beside the rest: none is
            released past an unfinished input, each one as soon as the inputs before it are done.
        timers_survive: see :class:`AgentHarness`.
        ordered: whether the outputs of one key come in one order only. Say ``False`` for agents with several actions
            of one run at work at a time: which of them is first may change with a crash, what they do may not.
    """

    agent: Callable[[], Agent]
    inputs: Sequence[tuple[Any, Any]]
    config: Mapping[str, Any] = field(default_factory=dict)
    latency: Callable[[PendingCall], float] | None = None
    interval: float = 0.03
    reset: Callable[[], None] = lambda: None
    store: Callable[[], Callable[[str], ActionStateStore]] | None = None
    ordered: bool = True
    event_time: bool = False
    timers_survive: bool = True


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
    settled: frozenset[str]
    """Idempotency keys of calls that must not be made again."""


class _Simulation:
    """One subtask over the scenario's inputs, callback by callback, surviving crashes."""

    def __init__(self, scenario: Scenario) -> None:
        scenario.reset()
        self._scenario = scenario
        self.clock = VirtualClock()
        self.made: Counter[str] = Counter()
        self.identities: dict[str, str] = {}
        self.repeated_calls = 0
        self.replayed_calls = 0
        self._names: dict[str, str] = {}
        self._settled: frozenset[str] | None = None  # None: no crash yet
        self._in_doubt: frozenset[str] = frozenset()
        self._made_before = Counter[str]()  # the last restore
        self._violation: str | None = None
        self._open_store = None if scenario.store is None else scenario.store()
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
            store=self._open_store,
            event_time=self._scenario.event_time,
            timers_survive=self._scenario.timers_survive,
        )

    def _made(self, call: PendingCall) -> None:
        # Noted, not raised: this is called from within the agent, which may catch or skip what is raised.
        key = call.idempotency_key
        name = self._names.setdefault(key, f"{function_id(call.func)}{call.args!r}")
        if self.identities.setdefault(key, call.identity) != call.identity:
            self._violation = f"idempotency key {key} belongs to {name}, and now to {function_id(call.func)}{call.args}"
        elif self._settled is not None and key in self._settled:
            self._violation = f"{name} had an outcome in the checkpoint, and is made again"
        elif key in self._in_doubt:
            self.repeated_calls += 1
        self.made[key] += 1

    def step(self) -> bool:
        """One callback: the next input or the next timer, whichever is earlier; False when all is done."""
        going_on = self._step()
        if self._scenario.event_time:
            self._check_watermark()
        if self._violation is not None:
            raise AssertionError(self._violation)
        return going_on

    def _step(self) -> bool:
        inputs = self._scenario.inputs
        if self._fed < len(inputs) and self.clock.now_ms() >= self._next_input_ms:
            key, value = inputs[self._fed]
            self._fed += 1
            self._next_input_ms = self.clock.now_ms() + round(self._scenario.interval * 1000)
            value = decode(encode(value))  # each time anew, as a source reads it again
            if self._scenario.event_time:
                self.harness.feed(key, value, timestamp=self._fed)
                self.harness.advance_watermark(self._fed)
            else:
                self.harness.feed(key, value)
            return True
        if self._fed == len(inputs) and self.harness.idle:
            return False
        due = self.harness.next_due_ms()
        if self._fed < len(inputs) and (due is None or due > self._next_input_ms):
            self.clock.advance_to(self._next_input_ms)
            return self._step()
        if not self.harness.step(due):
            raise AssertionError("runs are unfinished, and no timer will ever resume them")
        return True

    def _check_watermark(self) -> None:
        harness = self.harness
        arrivals = harness.arrivals_of_unfinished()
        allowed = min([harness.watermark, *arrivals])
        if harness.released_watermark > allowed:
            self._violation = (
                f"watermark {harness.released_watermark} was released, with unfinished inputs of {arrivals}"
            )
        elif harness.released_watermark < allowed and not harness.waits_for_resumed:
            self._violation = (
                f"watermark {allowed} is held back at {harness.released_watermark}, for no unfinished input"
            )

    def finish(self) -> None:
        for _ in range(_MOST_STEPS):
            if not self.step():
                self.replayed_calls += self.harness.stats.journal_hits
                return
        raise AssertionError(f"not finished after {_MOST_STEPS} steps")

    # --- crashes ----------------------------------------------------------------------------------------------------

    def checkpoint(self) -> _Checkpoint:
        calls = self.harness.engine.calls()
        if self._settled is None:
            # Everything that was made, but for what has no outcome yet; calls of finished actions included.
            settled = frozenset(self.made) - {call.idempotency_key for call in calls if not call.done}
        else:
            settled = self._settled | {call.idempotency_key for call in calls if call.done}
        return _Checkpoint(self.harness.snapshot(), self._fed, settled)

    def restore(self, checkpoint: _Checkpoint) -> None:
        self.replayed_calls += self.harness.stats.journal_hits
        settled = checkpoint.settled if self._open_store is None else self._outcomes()
        harness = self._harness()
        harness.adopt_outputs(self.harness)
        harness.restore(checkpoint.snapshot)
        self.harness = harness
        self._fed = checkpoint.fed
        self._settled = settled
        self._in_doubt = frozenset(self.made) - settled
        self._made_before = self.made.copy()
        self.clock.advance_to(self.clock.now_ms() + _DOWN_MS)
        self._next_input_ms = self.clock.now_ms()

    def _outcomes(self) -> frozenset[str]:
        """Idempotency keys of calls that have an outcome now: the store knows it, whatever the checkpoint knows."""
        open_calls = {call.idempotency_key for call in self.harness.engine.calls() if not call.done}
        # In doubt since the last crash, and the action that would make them again has not come that far yet.
        waiting = {key for key in self._in_doubt if self.made[key] == self._made_before[key]}
        return frozenset(self.made) - open_calls - waiting

    # --- what must not depend on crashes ----------------------------------------------------------------------------

    def result(self) -> dict[str, Any]:
        by_key: dict[str, list[str]] = {}
        for key, value in self.harness.keyed_outputs:
            by_key.setdefault(encode(key), []).append(encode(value))
        state = self.harness.snapshot().state
        # Without the times a TTL puts into items: a restart takes a while, so they differ.
        memory: Any = {
            key: {path: split_time(item)[1] for path, item in items.items()}
            for key, items in state["agent.stm"].items()
        }
        if not self._scenario.ordered:
            by_key = {key: sorted(values) for key, values in by_key.items()}
            memory = {key: {path: _unordered(item) for path, item in items.items()} for key, items in memory.items()}
        return {
            "outputs": by_key,
            "side outputs": sorted(encode(_timeless(*entry)) for entry in self.harness.all_side_outputs()),
            "remembered successes of external actions": {
                key: sorted(entries.keys() - {"~"}) for key, entries in state["agent.idem"].items()
            },
            "sequence numbers": state["agent.seq"],
            "short-term memory": memory,
            "leftovers of runs": {**state["agent.run"], **state["agent.pending"]},
            "calls": {self._names[key]: identity for key, identity in self.identities.items()},
            "idempotency keys": sorted(self.identities),
        }


def _timeless(tag: str, value: Any) -> tuple[str, Any]:
    """A side output without the times that records of external actions carry: a restart takes a while."""
    return tag, _without_times(value) if tag in EXTERNAL_TAGS else value


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(item) for name, item in value.items() if not str(name).endswith("_ms")}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def _unordered(item: str) -> str:
    """A memory item without the order in which the fields of an object were created."""
    return f"o{sorted(json.loads(item[1:]))}" if item[0] == "o" else item


def crash_everywhere(
    scenario: Scenario, *, depth: int = 3, crashes: int = 1, sample: int | None = None, seed: int = 0
) -> CrashReport:
    """Crash after every callback and restore from the last checkpoints; effects must be those of an undisturbed run.

    A checkpoint is taken after every callback. For each callback the process dies right after it, and a new attempt
    starts from each of the last ``depth`` checkpoints (the newest first; older ones are what a job falls back to when
    the newest did not complete). It then runs to the end. Checked:

    * outputs per key, side outputs and the final keyed state equal those of the undisturbed run;
    * a call that had its outcome in the checkpoint is not made again;
    * a call that is made again has the same idempotency key, function and arguments; no other calls are made.

    The agent must not depend on when things happen: an output with the time of day in it differs from run to run.

    Args:
        depth: how many checkpoints to try per crash.
        crashes: how often to crash in all; those after the first fall at random a few callbacks after a restore, and
            restore the newest checkpoint.
        sample: try only so many randomly drawn pairs, for scenarios with many steps.
        seed: of everything drawn at random.

    Raises:
        AssertionError: one of these does not hold; the message says at which crash and checkpoint.
    """
    undisturbed = _Simulation(scenario)
    report = CrashReport()
    while undisturbed.step():
        report.steps += 1
    expected = undisturbed.result()
    pairs = [(step, back) for step in range(1, report.steps + 1) for back in range(depth) if back <= step]
    if sample is not None and sample < len(pairs):
        pairs = sorted(random.Random(seed).sample(pairs, sample))  # noqa: S311
    for crash_at, back in pairs:
        where = f"crash after callback {crash_at}, restored from the checkpoint after callback {crash_at - back}"
        again = random.Random(f"{seed}:{crash_at}:{back}")  # noqa: S311
        simulation = _Simulation(scenario)
        try:
            _disturb(simulation, crash_at, back, [again.randrange(8) for _ in range(crashes - 1)])
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        result = simulation.result()
        for part, value in expected.items():
            if result[part] != value:
                raise AssertionError(f"{where}: {part} differ\n  undisturbed: {value}\n  with crash:  {result[part]}")
        report.points += 1
        report.repeated_calls += simulation.repeated_calls
        report.replayed_calls += simulation.replayed_calls
    return report


def _disturb(simulation: _Simulation, crash_at: int, back: int, later: list[int]) -> None:
    for _ in range(crash_at - back):
        simulation.step()
    checkpoint = simulation.checkpoint()
    for _ in range(back):
        simulation.step()
    simulation.restore(checkpoint)
    for steps in later:
        for _ in range(steps):
            simulation.step()
        simulation.restore(simulation.checkpoint())
    simulation.finish()


def _spread_latency(call: PendingCall) -> float:
    """Between 0.05 and 0.2 s, different from call to call, the same on every machine."""
    return 0.05 + 0.15 * random.Random(call.identity).random()  # noqa: S311
