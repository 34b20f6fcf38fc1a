"""The engine: takes inputs and ticks, drives runs, returns effects.

Every public method is one callback of the host. When it returns, keyed state describes exactly what has happened: the
host may take a checkpoint between any two callbacks and nowhere else. The key scope is the host's: callbacks begin
under the key of the input or timer, and may end under another one.
"""

from __future__ import annotations

import logging
from collections import deque
from threading import get_ident
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.desk import CallDesk
from flink_agents_py.engine.effects import Effects
from flink_agents_py.engine.external import ExternalActions
from flink_agents_py.engine.failpoints import hit
from flink_agents_py.engine.keys import KeyEntry, token_of
from flink_agents_py.engine.lifecycle import RunLifecycle
from flink_agents_py.engine.memories import Memories
from flink_agents_py.engine.memory_observer import MemoryObserver
from flink_agents_py.engine.recorder import ActionRecorder
from flink_agents_py.engine.routes import event_classes_of
from flink_agents_py.engine.run import Run
from flink_agents_py.engine.segments import SegmentedQueue
from flink_agents_py.engine.stats import Levels, Stats
from flink_agents_py.engine.unfinished import UnfinishedRuns
from flink_agents_py.engine.versions import PlanVersions
from flink_agents_py.errors import MissingActionError
from flink_agents_py.events import InputEvent, active
from flink_agents_py.metrics import MetricGroup

if TYPE_CHECKING:
    from flink_agents_py.engine.archive import PlanArchive
    from flink_agents_py.engine.calls import DurableCall
    from flink_agents_py.engine.long_term import LongTermMemories
    from flink_agents_py.engine.memory import RunMemory
    from flink_agents_py.engine.ports import CallExecutor, Clock, KeyedState, KeyScope, Moment, RunObserver, Timers
    from flink_agents_py.engine.registry import UnfinishedRegistry
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.engine.updates import PlanUpdates
    from flink_agents_py.long_term import LongTermMemory
    from flink_agents_py.plan.plan import AgentPlan
    from flink_agents_py.stores.store import ActionStateStore

log = logging.getLogger("flink_agents_py.engine")

_WAIT_SLICE_S = 0.05


class Engine:
    """One per subtask and attempt.

    Args:
        plan: the agent's plan; the engine resolves all actions at once.
        segments: holds the watermark back (S10); ``None`` for pipelines without event time.
        store: open for this job; finished calls and actions are written through to it (S5, S9).
        watch: told what runs do; ``None`` costs an attribute test at each place.
        archive: keeps plans for runs that outlive them; ``None`` where interrupted runs go on under ``plan``.
        updates: bring new versions of the plan while the engine runs.
        registry: of unfinished keys, for hosts whose timers a restored subtask cannot rely on; such hosts call
            :meth:`resume_listed`.
        parallelism: subtasks of the operator, for limits of external actions that are divided among them.
    """

    def __init__(
        self,
        plan: AgentPlan,
        state: KeyedState,
        scope: KeyScope,
        timers: Timers,
        clock: Clock,
        executor: CallExecutor,
        *,
        segments: SegmentedQueue | None = None,
        store: ActionStateStore | None = None,
        watch: RunObserver | None = None,
        registry: UnfinishedRegistry | None = None,
        archive: PlanArchive | None = None,
        updates: PlanUpdates | None = None,
        parallelism: int = 1,
    ) -> None:
        self.plan = plan
        self.watch = watch
        self.metrics = MetricGroup()
        plan.count_resources_in(self.metrics)
        self.config = config = plan.config
        self.stats = Stats()
        self.effects = Effects()
        self.thread = get_ident()
        self.slot = active.slot  # of that thread
        self.keeps_frames = config.get(AgentOptions.KEEP_FRAMEWORK_FRAMES)
        self.fail_on_mismatch = config.get(AgentOptions.DURABLE_ON_MISMATCH) == "fail"
        self._state = state
        self._timers = timers
        self.clock = self._clock = clock
        self._executor = executor
        self.monotonic_s = clock.monotonic_s
        self.observer = MemoryObserver.of(plan)
        self._memories = Memories(state, config, clock, timers, self.observer)
        self._expiry = self._memories.expiry
        self.recorder: ActionRecorder | None = None
        event_classes = event_classes_of(plan.actions.values())
        if store is not None:
            limit = config.get(AgentOptions.SEQUENCE_CACHE_SIZE)
            self.recorder = ActionRecorder(store, self.stats, event_classes, limit)
        self._versions = PlanVersions(self, plan, event_classes, archive)
        self._lifecycle = RunLifecycle(self, self._versions, self._memories)
        self.updates = updates
        if updates is not None:
            updates.attach(self, self._versions, self._memories)
        self.external: ExternalActions | None = None
        if plan.external is not None:
            self.external = ExternalActions(
                self,
                plan.external.bindings(),
                state,
                timers,
                parallelism=parallelism,
                paced=executor.real_time,
            )
        self._driver = self._versions.current.driver
        self._desk = CallDesk(
            executor,
            clock,
            self.stats,
            max_in_flight=config.get(AgentOptions.MAX_IN_FLIGHT),
            max_result_bytes=config.get(AgentOptions.DURABLE_MAX_RESULT_BYTES),
            settled=self._call_settled,
            changed=self._call_changed,
            deferred=store is not None,
            watch=watch,
            external=self.external,
        )
        if self.external is not None:
            self.external.desk = self._desk
        self._budget_s = config.get(AgentOptions.TIME_BUDGET) / 1000
        self._tick_ms = max(1, int(config.get(AgentOptions.PUMP_INTERVAL)))
        self._max_calls = config.get(AgentOptions.MAX_IN_FLIGHT)
        self._max_unfinished = self._max_calls + config.get(AgentOptions.MAX_QUEUED)
        self._segments = segments
        self._unfinished = UnfinishedRuns(
            state,
            scope,
            timers,
            clock,
            resume_ms=max(1, int(config.get(AgentOptions.RESUME_TIMER_INTERVAL))),
            cache_size=config.get(AgentOptions.SEQUENCE_CACHE_SIZE),
            segments=segments,
            rebuild=self._lifecycle.rebuild,
            stats=self.stats,
            registry=registry,
        )
        self._registry = registry
        self._unfinished.external = self.external
        self._active = self._unfinished.active
        self._numbers = self._unfinished.sequences.numbers
        self._attempts = self._desk.attempts_in_flight
        self._to_drive: deque[KeyEntry] = deque()
        self.long_term: LongTermMemories | None = None
        self._pump_at = 0  # when the pump timer fires, ms; 0 = not armed

    # --- callbacks --------------------------------------------------------------------------------------------------

    @property
    def saturated(self) -> bool:
        """Whether the host should wait (:meth:`wait_slice`) before it hands in the next input (S13)."""
        if not self._active and not self._attempts and self.external is None:
            return False
        waiting = len(self._active) + self._unfinished.waiting_inputs
        if self.external is not None and self.external.lanes.full:
            return True
        return self._desk.load >= self._max_calls or waiting >= self._max_unfinished

    def process(  # noqa: PLR0912 - one frame for what is done for each record
        self,
        key: Any,
        value: Any,
        timestamp: int | None = None,
        watermark: int | None = None,
        moment: Moment | None = None,
    ) -> None:
        """Take one input under the current key scope. Its effects so far are in :attr:`effects`.

        Args:
            moment: knows timestamp and watermark, for hosts where it costs something to ask; until the callback ends.
        """
        # What `_begin` does; there is no entry yet whose scope could be mistaken for the current one if none is active.
        thread = get_ident()
        if thread != self.thread:
            self.thread, self.slot = thread, active.slot
        deadline = self.monotonic_s() + self._budget_s
        updates = self.updates
        if updates is not None:
            updates.look()
        self.stats.inputs += 1
        token = key if type(key) is str else token_of(key)
        unfinished = self._unfinished
        entry = None
        if self._active:
            unfinished.begin_callback()
            entry = self._active.get(token)
        stored = cached = self._numbers.get(token)
        if stored is None:
            stored = 0 if entry is not None else unfinished.stored(token)
        if entry is None and stored & 1:
            entry = self._resume(token, key, stored)
        if entry is not None:
            if moment is not None:
                timestamp, watermark = moment.timestamp(), moment.watermark()
            unfinished.put_input(entry, value, timestamp, watermark)
        else:
            sequence = (stored >> 1) + 1
            if self._driver.direct and not self._lifecycle.announces:
                run = Run(self._lifecycle.job, key, sequence, timestamp, watermark, self._memories)
                run.moment = moment
                if updates is not None:
                    run.version = self._versions.current
                event = InputEvent(value)
                event.__dict__["_origin"] = (run, "", 0)
                done = self._driver.start(run, event, deadline)
            else:
                run = self._lifecycle.begin(key, sequence, value, timestamp, watermark)
                run.moment = moment
                done = self._driver.drive(run, deadline)
            if done:
                # The fast path: nothing but memory and the sequence number is written.
                self._lifecycle.end(run)
                self._state.sequence.put(sequence << 1)
                if cached is None:
                    unfinished.sequences.put(token, sequence << 1)
                else:
                    self._numbers[token] = sequence << 1
            else:
                self._suspend(run, token, stored)
        if self._active or self._attempts:
            self._pump(deadline)
        elif self.recorder is not None:
            self._commit()
            hit("before-emit")

    def timer(self, key: Any) -> None:
        """A processing-time timer fired under ``key``: pump, and resume the key's run if a restart interrupted it."""
        deadline = self._begin()
        if self._pump_at and self._pump_at <= self._clock.now_ms():
            self._pump_at = 0
        token = token_of(key)
        entry = self._active.get(token) or self._resume_if_unfinished(token, key)
        if entry is not None:
            self._unfinished.arm(entry)  # the scope is still at this key
        if self._expiry is not None:
            self._expiry.timer(token, unfinished=entry is not None)
        if self.external is not None:
            self.external.state.timer(token)
        self._pump(deadline)

    def resume(self, key: Any) -> bool:
        """Event-time timer :data:`RESUME_AT_END`: resume the key's run, if it has one. True if it is unfinished."""
        deadline = self._begin()
        token = token_of(key)
        entry = self._active.get(token) or self._resume_if_unfinished(token, key)
        self._pump(deadline)
        return entry is not None and token in self._active

    def resume_listed(self) -> None:
        """A callback under a home of the registry: resume every run listed there that this attempt does not know."""
        deadline = self._begin()
        registry = self._registry
        if registry is not None:
            for key in registry.listed():
                token = token_of(key)
                if token not in self._active:
                    registry.go_to(key)
                    self._resume_if_unfinished(token, key)
        self._pump(deadline)

    def unfinished(self, key: Any) -> bool:
        """Whether a run of ``key`` is known to be unfinished."""
        return token_of(key) in self._active

    @property
    def idle(self) -> bool:
        """Whether nothing is unfinished in this subtask, as far as this attempt has seen."""
        return not self._active

    def exchanged(self) -> None:
        """The plan that runs begin under is another one now."""
        self._driver = self._versions.current.driver
        self._versions.forget({entry.run.version.digest for entry in self._active.values()})

    def executed_by_version(self) -> dict[str, int]:
        """How often actions have finished under each plan that runs are under or begin under, by its digest."""
        return self._versions.executed_by_version()

    def levels(self) -> Levels:
        """How much there is of everything right now."""
        return Levels(self._desk.in_flight, self._desk.waiting, len(self._active), self._unfinished.waiting_inputs)

    def executed(self) -> dict[str, int]:
        """How often each action has finished, by name."""
        return self._versions.executed()

    @property
    def has_work(self) -> bool:
        """Whether a run could be driven right now (its callback ran out of time budget)."""
        return bool(self._to_drive)

    def next_due_ms(self) -> int | None:
        """When the earliest timeout, retry or sleep is due."""
        return self._desk.next_due_ms()

    def call_in_flight(self, number: int) -> DurableCall:
        """The durable call behind an attempt number, for test kits and ledgers."""
        return self._desk.call_in_flight(number)

    def calls(self) -> list[DurableCall]:
        """Durable calls of unfinished actions, with and without outcome, for test kits."""
        return [
            call
            for entry in self._active.values()
            for task in (*entry.run.tasks, *entry.run.ready)
            for call in task.calls or ()
        ]

    def memory_of(self, key: Any) -> RunMemory:
        """Short-term memory as a run of ``key`` that begins now would read it; the key scope must be there."""
        return self._memories.peek(key)

    def unfinished_keys(self) -> list[Any]:
        """Keys with an unfinished run that this attempt knows of."""
        return [entry.run.key for entry in self._active.values()]

    def wait_slice(self) -> None:
        """Wait a moment for completions and work on what came; for hosts that may not go on yet (S11, S13)."""
        if not self._to_drive:
            timeout = _WAIT_SLICE_S
            due = self._desk.next_due_ms()
            if due is not None:
                timeout = min(timeout, max(0, due - self._clock.now_ms()) / 1000)
            self._executor.wait(timeout)
        self._pump(self._begin())

    def long_term_memory(self, task: ActionTask) -> LongTermMemory:
        """What ``ctx.long_term_memory`` is."""
        if self.long_term is None:
            from flink_agents_py.engine.long_term import LongTermMemories

            self.long_term = LongTermMemories(self, self._executor)
        return self.long_term.of(task)

    # --- the pump ---------------------------------------------------------------------------------------------------

    def _begin(self) -> float:
        thread = get_ident()
        if thread != self.thread:
            self.thread, self.slot = thread, active.slot
        self._unfinished.begin_callback()
        if self.updates is not None:
            self.updates.look()
        return self._clock.monotonic_s() + self._budget_s

    def _pump(self, deadline: float) -> None:
        self._drain()
        self._drive_queued(deadline)
        if self.recorder is not None:
            self._commit()
        if self.external is not None and self.external.graced:
            self._wait_for_graced(self.external)
        self._unfinished.settle()
        self._arm_pump()
        hit("before-emit")

    def _drive_queued(self, deadline: float) -> None:
        to_drive = self._to_drive
        while to_drive:
            entry = to_drive.popleft()
            entry.queued = False
            self._drive_entry(entry, deadline)
            if self._clock.monotonic_s() > deadline:
                break
            if not to_drive:
                self._drain()  # more may have completed meanwhile; saves a tick

    def _wait_for_graced(self, external: ExternalActions) -> None:
        """Calls that have just begun may end before this callback does, and need not be written as in flight then."""
        until = self._clock.monotonic_s() + external.grace_s()
        while external.awaits_graced() and (left := until - self._clock.monotonic_s()) > 0:
            self._executor.wait(left)
            self._drain()
            self._drive_queued(until)
        external.graced.clear()
        if self.recorder is not None:
            self._commit()

    def _drain(self) -> None:
        """Take in completions; with a store, their outcomes are written before any action goes on with them (S5)."""
        completed = self._desk.drain()
        if completed:
            hit("call-made")
        if self.recorder is not None:
            self._commit()

    def _commit(self) -> None:
        """Write what the callback has noted so far, then make the calls that were noted as pending."""
        if self.recorder is not None:
            self.recorder.commit()
            self._desk.send()

    def _drive_entry(self, entry: KeyEntry, deadline: float) -> None:
        """Drive the key's run, and the inputs that wait behind it, until it suspends or nothing is left (S1)."""
        self._unfinished.enter(entry)
        self._unfinished.mark(entry)
        while True:
            run = entry.run
            try:
                done = run.version.driver.drive(run, deadline)
            except MissingActionError as missing:
                if self.config.get(AgentOptions.PLAN_ON_MISSING_ACTION) != "restart_run":
                    raise
                self._lifecycle.restart(run, missing)
                continue
            if not done:
                if run.ready or run.events:
                    self._queue(entry)  # out of time budget: goes on in the next callback
                return
            self._lifecycle.end(run)
            if self._segments is not None:
                self._segments.complete(run.arrival_watermark)
            waiting = self._unfinished.take_input(entry)
            if waiting is None:
                return
            value, timestamp, watermark = waiting
            run.entry = None
            entry.run = self._lifecycle.begin(run.key, run.sequence + 1, value, timestamp, watermark)
            entry.run.entry = entry
            if self._clock.monotonic_s() > deadline:
                self._queue(entry)
                return

    def _suspend(self, run: Run, token: Any, stored: int) -> None:
        """The run has not finished in its first callback."""
        run.fix_moment()
        run.version = self._versions.current
        if self._versions.unkept:
            self._versions.keep()
        if self.watch is not None:
            self.watch.run_suspended(run)
        entry = self._unfinished.add(token, run, stored)
        if run.ready or run.events:
            self._queue(entry)

    def _resume_if_unfinished(self, token: Any, key: Any) -> KeyEntry | None:
        stored = self._unfinished.stored(token)
        self._unfinished.sequences.put(token, stored)
        return self._resume(token, key, stored) if stored & 1 else None

    def _resume(self, token: Any, key: Any, stored: int) -> KeyEntry:
        entry = self._unfinished.resume(token, key, stored)
        self._queue(entry)
        self.stats.resumed += 1
        return entry

    def _queue(self, entry: KeyEntry) -> None:
        if not entry.queued:
            entry.queued = True
            self._to_drive.append(entry)

    def _arm_pump(self) -> None:
        now = self._clock.now_ms()
        due: int | None = None
        if self._to_drive:
            due = now
        else:
            if self._desk.load:
                due = now + self._tick_ms
            timed = self._desk.next_due_ms()
            if timed is not None and (due is None or timed < due):
                due = max(timed, now)
        if due is not None and (self._pump_at <= now or due < self._pump_at):
            self._timers.processing_time(due)
            self._pump_at = due

    # --- calls ------------------------------------------------------------------------------------------------------

    def start_calls(self, task: ActionTask) -> None:
        """Start what the action has created and not started yet; called when it first awaits (S6)."""
        for call in task.calls or ():
            if not call.started and not call.done:
                self._desk.start(call)

    def call_now(self, call: DurableCall) -> None:
        """Make a call on the operator thread; with a store, it is pending there before and finished there after."""
        if self.recorder is not None:
            for unstarted in call.task.calls or ():
                if not unstarted.started and not unstarted.done:  # this one, and others in front that nobody awaits yet
                    self.recorder.call(unstarted)
            self._commit()
        source, active.source = active.source, None
        self.thread = 0  # what the function did to the context would be missing when the record answers instead
        try:
            self._desk.call_now(call)
        finally:
            self.thread, active.source = get_ident(), source
        if self.recorder is not None:
            hit("call-made")
            self.recorder.call(call)
            self._commit()

    def cancel_call(self, call: DurableCall) -> None:
        self._desk.cancel(call)

    def report_mismatch(self, task: ActionTask, ordinal: int, function: str, arguments: str) -> None:
        self.stats.mismatches += 1
        log.warning(
            "journal mismatch at durable call %d: now %s(%s); the recorded calls from there on are dropped and made "
            "anew (%s)",
            ordinal,
            function,
            arguments,
            task.place(),
        )

    def _call_settled(self, call: DurableCall) -> None:
        task = call.task
        self._call_changed(call)
        waiting_on = task.waiting_on
        if waiting_on is not None and waiting_on.done:
            task.waiting_on = None
            task.run.tasks.remove(task)
            task.run.ready.append(task)
            if task.run.entry is not None:
                self._queue(task.run.entry)

    def _call_changed(self, call: DurableCall) -> None:
        entry = call.task.run.entry
        if self.recorder is not None:
            self.recorder.call(call)
        if entry is not None:  # in its very first callback a run has none yet; that callback writes it anyway
            self._unfinished.mark(entry)

    def close(self) -> None:
        """Forget everything in memory; keyed state has what is needed to go on."""
        if self.long_term is not None:
            self.long_term.close()
        for entry in self._active.values():
            for task in (*entry.run.tasks, *entry.run.ready):
                task.abandon()
        self._unfinished.forget_all()
        self._to_drive.clear()
        self._versions.close()
