"""Runs one subtask of an agent step by step, under a virtual clock, with calls that finish when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from flink_agents_py.agent import Agent
from flink_agents_py.config import AgentConfiguration, AgentOptions
from flink_agents_py.engine.archive import PLANS, PlanArchive
from flink_agents_py.engine.calls import DurableCall
from flink_agents_py.engine.engine import Engine
from flink_agents_py.engine.held_watermark import HeldWatermark
from flink_agents_py.engine.identity import job_identity
from flink_agents_py.engine.keys import decode_pending, decode_run
from flink_agents_py.engine.registry import UnfinishedRegistry
from flink_agents_py.engine.segments import NO_WATERMARK
from flink_agents_py.engine.stats import Stats
from flink_agents_py.engine.unfinished import END_OF_INPUT, RESUME_AT_END
from flink_agents_py.engine.updates import PlanUpdates
from flink_agents_py.local.ports import KeyedStore, StoredMap, StoredValue, TimerQueue
from flink_agents_py.memory import MemoryObject
from flink_agents_py.observe.observation import Observation
from flink_agents_py.plan.plan import AgentPlan
from flink_agents_py.plan.updates import PlanFile
from flink_agents_py.serde import decode, encode
from flink_agents_py.testing.calls import ManualExecutor, PendingCall
from flink_agents_py.testing.clock import VirtualClock

if TYPE_CHECKING:
    from flink_agents_py.stores.store import ActionStateStore

_SYNTHETIC = "\0synthetic"  # the key that learns of watermarks
_HOMES = (_SYNTHETIC, "\0another")  # of a host whose timers a restore loses


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint: keyed state and timers, and how much had been emitted when it was taken."""

    state: dict[str, dict[Any, Any]]
    timers: list[tuple[str, int, Any]]
    keys: dict[Any, Any]
    outputs: int
    side_outputs: int


class AgentHarness:
    """An agent under test.

    Args:
        agent: an agent, or a compiled plan.
        config: options by key.
        latency: ``None``: durable calls wait in :attr:`calls` for the test. Seconds, or a function of the call: calls
            are made at once and their outcome arrives after that virtual time.
        before_call: called with each call that is really made (those of ``ctx.durable_execute`` too), for ledgers.
        store: opens an action state store for a job identifier; called once per attempt.
        event_time: hold watermarks back (S10), as pipelines with event time do; see :meth:`advance_watermark`.
        timers_survive: ``False``: a restore brings no timer back, as it may be in PyFlink's process mode; unfinished
            keys are listed in keyed state instead.
        updates: a watched file of plans; ``"offered"`` for those that come with :meth:`offer_plan`.
    """

    def __init__(
        self,
        agent: Agent | AgentPlan,
        config: Mapping[str, Any] | None = None,
        *,
        latency: float | Callable[[PendingCall], float] | None = None,
        before_call: Callable[[PendingCall], None] | None = None,
        clock: VirtualClock | None = None,
        store: Callable[[str], ActionStateStore] | None = None,
        event_time: bool = False,
        timers_survive: bool = True,
        updates: PlanFile | Literal["offered"] | None = None,
    ) -> None:
        configuration = AgentConfiguration(config)
        self.plan = agent if isinstance(agent, AgentPlan) else AgentPlan.from_agent(agent, configuration)
        self.clock = clock or VirtualClock()
        self._latency = latency if latency is None or callable(latency) else _constant(latency)
        self._before_call = before_call
        self._threads = configuration.get(AgentOptions.NUM_ASYNC_THREADS)
        self._open_store = store
        self._outputs: list[tuple[Any, Any]] = []
        self._side_outputs: list[tuple[str, Any]] = []
        self._event_time = event_time
        self._timers_survive = timers_survive
        self._updates = updates
        self.released_watermarks: list[int] = []
        """Watermarks in order of their release, in all attempts."""
        self._start()

    def _start(self, *, restored: bool = False) -> None:
        self._store = KeyedStore()
        self._timers = TimerQueue(self._store)
        self._executor = ManualExecutor(
            self.clock, self._latency, self._threads, self._wait, self.pump, self._before_call
        )
        self.watermark = NO_WATERMARK
        registry = None
        self._beats: list[str] = []  # that are still to come in this attempt
        if not self._timers_survive:
            self._store.data["agent.unfinished"] = {}
            registry = UnfinishedRegistry(StoredMap(self._store, "agent.unfinished"), self._store, _Homes())
            self._beats.extend(_HOMES)
        self._held: HeldWatermark | None = None
        if self._event_time:
            self._store.data["agent.beat"] = {}
            interval = self.plan.config.get(AgentOptions.RESUME_TIMER_INTERVAL)
            beat = StoredValue(self._store, "agent.beat")
            awaited = None if self._timers_survive else _HOMES
            self._held = HeldWatermark(beat, self._timers, self.clock, interval, restored=restored, awaited=awaited)
            if not restored and self._timers_survive:
                self._store.switch(_SYNTHETIC)
                self._held.start(_SYNTHETIC, self.watermark)
        archive = None
        kept = self.plan.config.get(AgentOptions.PLAN_VERSIONS_KEPT)
        if kept:
            self._store.data[PLANS] = {}
            archive = PlanArchive(StoredMap(self._store, PLANS), self._store, _Homes(), _HOMES, kept)
        observation = Observation(self.plan, self.clock, submission="harness")
        self.engine = _LedgerEngine(
            self.plan,
            self._store,
            self._store,
            self._timers,
            self.clock,
            self._executor,
            segments=None if self._held is None else self._held.segments,
            store=None if self._open_store is None else self._open_store(job_identity(self.plan)),
            watch=observation.observer,
            registry=registry,
            archive=archive,
            updates=self._new_updates(),
        )
        observation.attach(self.engine)
        self.engine.ledger = self._executor.call_now
        self._executor.engine = self.engine

    def _new_updates(self) -> PlanUpdates | None:
        if isinstance(self._updates, PlanFile):
            return PlanUpdates.of(self._updates)
        return None if self._updates is None else PlanUpdates(None)

    # --- what went in and came out ----------------------------------------------------------------------------------

    @property
    def outputs(self) -> list[Any]:
        """Output values in order of emission."""
        return [value for _, value in self._outputs]

    @property
    def keyed_outputs(self) -> list[tuple[Any, Any]]:
        """Outputs as ``(key, value)`` in order of emission."""
        return list(self._outputs)

    def side_output(self, tag: str) -> list[Any]:
        """Values sent to a side output; dead letters are under ``dead-letters``."""
        return [value for name, value in self._side_outputs if name == tag]

    def all_side_outputs(self) -> list[tuple[str, Any]]:
        """Side outputs as ``(tag, value)`` in order of emission."""
        return list(self._side_outputs)

    def adopt_outputs(self, earlier: AgentHarness) -> None:
        """Take over what an earlier attempt has emitted (what is downstream survives a crash of this subtask)."""
        self.released_watermarks = list(earlier.released_watermarks)
        self._outputs = list(earlier._outputs)
        self._side_outputs = list(earlier._side_outputs)

    @property
    def calls(self) -> list[PendingCall]:
        """Durable calls that wait for the test, oldest first."""
        return [call for call in self._executor.pending.values() if not call.cancelled]

    def run_background(self) -> None:
        """Do what waits for the background (compaction of long-term memory); with ``latency`` it does not wait."""
        self._executor.run_background()

    @property
    def idle(self) -> bool:
        """Whether no run is unfinished, in memory or, not yet resumed after a restore, in keyed state."""
        return self.engine.idle and not self._store.data["agent.run"]

    @property
    def stats(self) -> Stats:
        """What the engine of this attempt has counted."""
        return self.engine.stats

    def short_term_memory(self, key: Any) -> MemoryObject:
        """What a run of ``key`` would read now; writes to it are not kept."""
        self._store.switch(key)
        return self.engine.memory_of(key).begin().root

    def state_of(self, key: Any) -> dict[str, Any]:
        """Raw keyed state of a key by state name, without empty states."""
        self._store.switch(key)
        token = self._store.token
        return {name: entries[token] for name, entries in self._store.data.items() if token in entries}

    # --- driving ----------------------------------------------------------------------------------------------------

    def feed(self, key: Any, value: Any, timestamp: int | None = None, watermark: int | None = None) -> None:
        """Hand in one input; blocks (in virtual time) under backpressure, as the operator does.

        Args:
            watermark: the newest at its arrival; with ``event_time``, what :meth:`advance_watermark` has brought.
        """
        if self._event_time:
            watermark = self.watermark
        while self.engine.saturated:
            self.engine.wait_slice()
            self._collect()
        self._store.switch(key)
        self.engine.process(key, value, timestamp, watermark)
        self._collect()

    def offer_plan(self, plan: Agent | AgentPlan | str) -> None:
        """A new version of the plan comes, as from a stream of them (``updates="offered"``)."""
        if self.engine.updates is None:
            raise ValueError('this harness takes no plans: AgentHarness(..., updates="offered")')
        if isinstance(plan, Agent):
            plan = AgentPlan.from_agent(plan, agent_name=self.plan.agent_name)
        self._store.switch(_HOMES[0])
        self.engine.updates.offer(plan if isinstance(plan, str) else plan.to_json(), "test")
        self._collect()

    def advance_watermark(self, watermark: int) -> None:
        """A watermark arrives; what of it may go on is then in :attr:`released_watermark`."""
        held = self._expect_event_time()
        self.watermark = max(self.watermark, watermark)
        while (timer := self._timers.pop_event(min(self.watermark, RESUME_AT_END - 1))) is not None:
            key = self._store.keys[timer[1]]
            self._store.switch(key)
            held.event_timer(key, self.watermark)
        self._collect()

    @property
    def released_watermark(self) -> int:
        """The newest watermark downstream has been told of in this attempt, ms."""
        return self._expect_event_time().emitted

    def arrivals_of_unfinished(self) -> list[int]:
        """The watermarks at which the inputs of unfinished runs, and those waiting behind them, arrived."""
        runs = [decode_run(text).watermark for text in self._store.data["agent.run"].values()]
        waiting: Any = self._store.data["agent.pending"].values()
        inputs = [decode_pending(text)[2] for entries in waiting for text in entries.values()]
        return sorted(NO_WATERMARK if arrival is None else arrival for arrival in (*runs, *inputs))

    @property
    def waits_for_resumed(self) -> bool:
        """Whether nothing is released for now, since a restored run may not have been resumed yet."""
        return self._expect_event_time().waits_for_resumed

    def _expect_event_time(self) -> HeldWatermark:
        if self._held is None:
            raise ValueError("this harness has no event time: AgentHarness(..., event_time=True)")
        return self._held

    def pump(self) -> None:
        """Let the engine take in completions now, without waiting for its timer."""
        for key in self.engine.unfinished_keys()[:1]:
            self._store.switch(key)
            self.engine.timer(key)
            self._collect()

    def advance(self, seconds: float) -> None:
        """Move the clock on, firing every timer on the way, in time order."""
        target = self.clock.now_ms() + round(seconds * 1000)
        while (due := self.next_due_ms()) is not None and due <= target:
            self.step(due)
        self.clock.advance_to(target)

    def run(self, limit: int = 100_000) -> None:
        """Go on until nothing is unfinished.

        Raises:
            AssertionError: the agent waits for a call the test never finishes, or for more than ``limit`` steps.
        """
        for _ in range(limit):
            if self.idle:
                return
            if self._waits_for_test() or not self.step():
                raise AssertionError(f"the agent waits for {self.calls or 'nothing that will ever happen'}")
        raise AssertionError(f"not finished after {limit} steps")

    def _waits_for_test(self) -> bool:
        """Whether only the test can make anything happen: calls are pending, and the pump would tick for ever."""
        executor = self._executor
        return bool(
            executor.pending
            and executor.next_due_ms() is None
            and self.engine.next_due_ms() is None
            and not self.engine.has_work
        )

    def step(self, due_ms: int | None = None) -> bool:
        """One callback: the next timer. Returns False if there is none."""
        due = self.next_due_ms() if due_ms is None else due_ms
        if due is None:
            return False
        self.clock.advance_to(max(due, self.clock.now_ms()))
        if self._beats:
            self._beat(self._beats.pop())
            return True
        timestamp = self._timers.next_processing()
        token = self._timers.pop_processing(self.clock.now_ms())
        if token is not None and timestamp is not None:
            key = self._store.keys[token]
            self._store.switch(key)
            if self._held is not None:
                self._held.tick(timestamp, self.watermark)
            if self._held is None or key != _SYNTHETIC or not self._held.watch(key, self.watermark):
                self.engine.timer(key)
            self._collect()
        return True

    def next_due_ms(self) -> int | None:
        """When the next timer fires. Completions need none of their own: the pump timer takes them in."""
        due = self.clock.now_ms() if self._beats else self._timers.next_processing()
        return None if due is None else max(due, self.clock.now_ms())

    def _beat(self, home: str) -> None:
        self._store.switch(home)
        self.engine.resume_listed()
        if self._held is not None:
            self._store.switch(home)
            self._held.beat(home, self.watermark)
        self._collect()

    def end_of_input(self) -> None:
        """The stream ends: everything unfinished is finished first (S11)."""
        while self._beats:
            self._beat(self._beats.pop())
        while not self._timers_survive and not self.engine.idle:
            self.engine.wait_slice()
            self._collect()
        while (timer := self._timers.pop_event(END_OF_INPUT)) is not None:
            timestamp, token = timer
            key = self._store.keys[token]
            self._store.switch(key)
            if timestamp == RESUME_AT_END:
                if self.engine.resume(key):
                    self._store.switch(key)
                    self._timers.event_time(END_OF_INPUT)
            else:
                while self.engine.unfinished(key):
                    self.engine.wait_slice()
                    self._collect()
            self._collect()

    def _wait(self, timeout_s: float) -> None:
        now = self.clock.now_ms()
        due = self._executor.next_due_ms()
        limit = now + max(1, round(timeout_s * 1000))
        if self._waits_for_test():
            raise AssertionError(f"the operator is blocked, waiting for {self.calls}")
        self.clock.advance_to(max(now, min(due, limit) if due is not None else limit))

    def _collect(self) -> None:
        if self._held is not None:
            self._check_in_time(self._held)
        self._outputs.extend((run.key, value) for value, run in self.engine.effects.take_outputs())
        self._side_outputs.extend((tag, value) for tag, value, _ in self.engine.effects.take_side_outputs())

    def _check_in_time(self, held: HeldWatermark) -> None:
        """No output behind a watermark that passed it, unless its input was; then tell downstream of the next one."""
        effects = self.engine.effects
        emitted = [run for _, run in effects.outputs] + [run for _, _, run in effects.side_outputs]
        for run in emitted:
            if run.timestamp is not None and run.arrival_watermark < run.timestamp <= held.emitted:
                raise AssertionError(
                    f"an output of key {run.key!r} with timestamp {run.timestamp} left behind watermark {held.emitted}"
                )
        if held.released > held.emitted:
            held.emitted = held.released
            self.released_watermarks.append(held.released)

    # --- checkpoints and crashes ------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """A checkpoint as Flink would take it between two callbacks."""
        return Snapshot(
            self._store.snapshot(),
            self._timers.snapshot(),
            dict(self._store.keys),
            len(self._outputs),
            len(self._side_outputs),
        )

    def crash(self) -> None:
        """The process dies: everything in memory and every call in flight is lost. Follow it with :meth:`restore`."""
        self.engine.close()
        self._executor.pending.clear()
        self._start(restored=True)

    def restore(self, snapshot: Snapshot) -> None:
        """Start a new attempt from a checkpoint; outputs emitted after it are taken back, as an exactly-once sink does.

        The calls that were made stay made: the outside world has no checkpoint.
        """
        self.crash()
        self._store.restore(snapshot.state)
        self._store.keys = dict(snapshot.keys)
        if self._timers_survive:
            self._timers.restore(snapshot.timers)
        del self._outputs[snapshot.outputs :]
        del self._side_outputs[snapshot.side_outputs :]

    def upgrade(self, agent: Agent, config: Mapping[str, Any] | None = None) -> None:
        """Replace the agent, to restore a snapshot under a changed plan."""
        self.plan = AgentPlan.from_agent(agent, AgentConfiguration(config))
        self.crash()


class _LedgerEngine(Engine):
    """Tells the executor of the calls that do not go through it."""

    ledger: Callable[[DurableCall], None]

    def call_now(self, call: DurableCall) -> None:
        self.ledger(call)
        super().call_now(call)


class _Homes:
    """Keys are their own handles, and text; see :class:`flink_agents_py.engine.registry.Homes`."""

    def home_of(self, key: Any) -> Any:
        return _HOMES[len(str(key)) % len(_HOMES)]

    def handle_of(self, key: Any) -> Any:
        return key

    def pack(self, key: Any) -> str:
        return encode(key)

    def unpack(self, text: str) -> Any:
        return decode(text)


def _constant(seconds: float) -> Callable[[PendingCall], float]:
    def latency(_: PendingCall) -> float:
        return seconds

    return latency
