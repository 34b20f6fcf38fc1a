"""The runs that are unfinished in this subtask: in memory, and as keyed state must have them between two callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flink_agents_py.engine.keys import (
    KeyEntry,
    RunRecord,
    SequenceCache,
    decode_pending,
    decode_run,
    encode_pending,
    encode_run,
)
from flink_agents_py.engine.segments import NO_WATERMARK, SegmentedQueue
from flink_agents_py.errors import StateRecordError
from flink_agents_py.events import encode_event

if TYPE_CHECKING:
    from flink_agents_py.engine.external import ExternalActions
    from flink_agents_py.engine.ports import Clock, KeyedState, KeyScope, Timers
    from flink_agents_py.engine.registry import UnfinishedRegistry
    from flink_agents_py.engine.run import Run
    from flink_agents_py.engine.stats import Stats

END_OF_INPUT = 2**63 - 1
"""Event-time timers here fire before the last watermark passes: the lawful place to wait for what is unfinished."""
RESUME_AT_END = END_OF_INPUT - 1
"""Fires before those: every unfinished run is resumed first, so that all of them work while one is waited for."""


class UnfinishedRuns:
    """Keeps entries of keys with unfinished runs, and their state, timers and place in the segments.

    Args:
        resume_ms: what the timer that resumes a suspended key after a restore is rounded to.
        registry: lists unfinished keys instead of such timers.
        cache_size: keys whose sequence number is remembered.
        rebuild: makes the run of a key from its record; its tasks start from the top.
    """

    def __init__(
        self,
        state: KeyedState,
        scope: KeyScope,
        timers: Timers,
        clock: Clock,
        *,
        resume_ms: int,
        cache_size: int,
        segments: SegmentedQueue | None,
        rebuild: Callable[[Any, RunRecord], Run],
        stats: Stats,
        registry: UnfinishedRegistry | None = None,
    ) -> None:
        self.active: dict[Any, KeyEntry] = {}
        self.waiting_inputs = 0
        self.sequences = SequenceCache(cache_size)
        self._state = state
        self._scope = scope
        self._timers = timers
        self._clock = clock
        self._resume_ms = resume_ms
        self._segments = segments
        self._rebuild = rebuild
        self._registry = registry
        self._stats = stats
        self._dirty: list[KeyEntry] = []
        self._scope_of: KeyEntry | None = None  # whose key the scope is at, if it was switched in this callback
        self.external: ExternalActions | None = None  # writes what the calls of a run leave in keyed state

    # --- the key scope ----------------------------------------------------------------------------------------------

    def begin_callback(self) -> None:
        """The host has set the scope to whatever key the callback is for."""
        self._scope_of = None

    def enter(self, entry: KeyEntry) -> None:
        """Bring the scope to the entry's key."""
        if self._scope_of is not entry:
            self._scope.switch(entry.handle)
            self._scope_of = entry

    # --- entries ----------------------------------------------------------------------------------------------------

    def stored(self, token: Any) -> int:
        """What ``agent.seq`` of the scope's key holds: twice the last sequence number, plus one if it is unfinished."""
        cached = self.sequences.get(token)
        return (self._state.sequence.get() or 0) if cached is None else cached

    def add(self, token: Any, run: Run, stored: int) -> KeyEntry:
        """An entry for a run of the scope's key that did not finish in its first callback."""
        entry = self._enlist(token, run, stored)
        if self._segments is not None:
            self._segments.arrive(run.arrival_watermark)
        self.mark(entry)
        return entry

    def resume(self, token: Any, key: Any, stored: int) -> KeyEntry:
        """Rebuild the unfinished run of the scope's key from state (S12)."""
        text = self._state.run.get()
        if text is None:
            raise StateRecordError(
                f"key {key!r} has an unfinished run, but no record of it",
                where="keyed state agent.run",
                fix="restore a savepoint written by this operator; state was changed from outside",
            )
        run = self._rebuild(key, decode_run(text))
        entry = self._enlist(token, run, stored)
        numbers = list(map(int, self._state.pending.keys()))
        if numbers:
            entry.head, entry.tail = min(numbers), max(numbers) + 1
            self.waiting_inputs += len(numbers)
        if self._segments is not None:
            self._segments.arrive(run.arrival_watermark)
            for number in numbers:
                _, _, arrival = decode_pending(self._state.pending.get(str(number)) or "")
                self._segments.arrive(NO_WATERMARK if arrival is None else arrival)
        entry.persisted = True
        entry.drain_armed = self._registry is None  # the timer came back with the state
        return entry

    def mark(self, entry: KeyEntry) -> None:
        """State of the entry's key is out of date until the callback ends."""
        if not entry.dirty:
            entry.dirty = True
            self._dirty.append(entry)

    def forget_all(self) -> None:
        self.active.clear()
        self._dirty.clear()

    def _enlist(self, token: Any, run: Run, stored: int) -> KeyEntry:
        entry = KeyEntry(token, self._scope.current(), run)
        entry.stored_sequence = stored
        run.entry = entry
        self.active[token] = entry
        self._scope_of = entry
        return entry

    # --- inputs that wait for their key -----------------------------------------------------------------------------

    def put_input(self, entry: KeyEntry, value: Any, timestamp: int | None, watermark: int | None) -> None:
        """Append an input to those that wait; the scope is at its key."""
        self._state.pending.put(str(entry.tail), encode_pending(value, timestamp, watermark))
        entry.tail += 1
        self.waiting_inputs += 1
        if self._segments is not None:
            self._segments.arrive(NO_WATERMARK if watermark is None else watermark)

    def take_input(self, entry: KeyEntry) -> tuple[Any, int | None, int | None] | None:
        """The next input that waits, with timestamp and watermark; ``None`` if none does."""
        if entry.head == entry.tail:
            return None
        number = str(entry.head)
        text = self._state.pending.get(number)
        if text is None:
            raise StateRecordError(
                f"the waiting input {number} of key {entry.run.key!r} is missing",
                where="keyed state agent.pending",
                fix="restore a savepoint written by this operator; state was changed from outside",
            )
        self._state.pending.remove(number)
        entry.head += 1
        self.waiting_inputs -= 1
        return decode_pending(text)

    # --- the end of a callback --------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Bring keyed state up to date for every key touched in this callback."""
        dirty = self._dirty
        for entry in dirty:
            entry.dirty = False
            self.enter(entry)
            run = entry.run
            unfinished = not run.done
            stored = run.sequence << 1 | unfinished
            if stored != entry.stored_sequence:
                self._state.sequence.put(stored)
                entry.stored_sequence = stored
            self.sequences.put(entry.token, stored)
            if self.external is not None:
                self.external.flush(run)
            if unfinished:
                run.flush_memory()
                record = _record(run)
                self._state.run.put(record)
                self._stats.state_writes += 1
                self._stats.state_bytes += len(record)
                entry.persisted = True
                self.arm(entry)
                if self._registry is not None and not entry.listed:
                    entry.listed = True
                    self._registry.add(run.key)
                    self._scope_of = None
            else:
                if entry.drain_armed:
                    self._timers.delete_event_time(RESUME_AT_END)
                if entry.persisted:
                    self._state.run.clear()
                    if self._registry is not None:
                        self._registry.remove(run.key)
                        self._scope_of = None
                del self.active[entry.token]
                run.entry = None
        dirty.clear()

    def arm(self, entry: KeyEntry) -> None:
        """The two timers of a suspended key: coarse resume after a restart (S12), and end of input (S11)."""
        if self._registry is not None:
            return
        now = self._clock.now_ms()
        if entry.resume_at <= now:
            entry.resume_at = (now // self._resume_ms + 2) * self._resume_ms
            self._timers.processing_time(entry.resume_at)
        if not entry.drain_armed:
            entry.drain_armed = True
            self._timers.event_time(RESUME_AT_END)


def _record(run: Run) -> str:
    tasks = (*run.tasks, *run.ready)
    cause = run.cause()
    position = next((str(number) for number, task in enumerate(tasks) if task.event is cause), None)
    if position is None:
        position = "null" if cause is None else encode_event(cause)
    return encode_run(run, [encode_event(event) for event in run.events], [task.to_json() for task in tasks], position)
