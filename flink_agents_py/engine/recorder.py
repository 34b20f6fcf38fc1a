"""Write-through of finished actions and durable calls to an action state store (S5, S9).

Keyed state is right as of the last checkpoint. The store closes the window between checkpoints: what a crash takes
back to the checkpoint, the store still knows, and the replay does not do it again.

Two moments of a callback commit, each all records at once: the outcomes of calls before any action goes on with them,
and what actions did before any of it leaves the operator. A call is made only when its pending record is committed.
"""

from __future__ import annotations

import itertools
import json
import logging
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from flink_agents_py.engine.failpoints import hit
from flink_agents_py.engine.journal import PENDING, CallRecord, Journal
from flink_agents_py.engine.keys import key_bytes, token_of
from flink_agents_py.errors import EncodeError
from flink_agents_py.events import decode_event, encode_event
from flink_agents_py.serde import canonical, decode, encode, from_plain
from flink_agents_py.serde.text import dumps, quote
from flink_agents_py.stores.store import FINISHED, StoredRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flink_agents_py.engine.calls import DurableCall
    from flink_agents_py.engine.run import Run
    from flink_agents_py.engine.stats import Stats
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.events import Event
    from flink_agents_py.stores.store import ActionStateStore

log = logging.getLogger("flink_agents_py.engine")

RECORD_VERSION = 1

_Identity = tuple[bytes, str]  # event, action
_History = dict[int, dict[_Identity, dict[int, Any]]]


class ActionRecorder:
    """What one engine writes to the store, and what it finds there.

    Args:
        store: open for this job; the recorder does not close it.
        limit: keys whose claim is remembered; one that was forgotten is claimed again, which costs a read.
    """

    def __init__(
        self, store: ActionStateStore, stats: Stats, event_classes: Mapping[str, type[Event]], limit: int
    ) -> None:
        self._store = store
        self._stats = stats
        self._event_classes = event_classes
        self._limit = max(1, limit)
        self._claimed: dict[Any, None] = {}
        self._history: dict[Any, _History] = {}
        self._calls: dict[DurableCall, None] = {}
        self._finished: list[StoredRecord] = []
        self._failure: Exception | None = None

    # --- what earlier attempts have left ----------------------------------------------------------------------------

    def begin(self, run: Run) -> None:
        """A run starts or is resumed: learn what the store knows of its key, once per attempt."""
        token = token_of(run.key)
        if token not in self._claimed:
            if len(self._claimed) >= self._limit:
                del self._claimed[next(iter(self._claimed))]
            self._learn(token, run)
            self._claimed[token] = None
        history = self._history.get(token)
        if history:
            self._check_input(history, run)
            orders = [slots[FINISHED]["order"] for slots in history.get(run.sequence, {}).values() if FINISHED in slots]
            if orders:
                run.finishes = max(orders)
                run.replaying = True

    def _learn(self, token: Any, run: Run) -> None:
        # Runs before this one are over and in keyed state (S1): nobody will ask for them.
        history: _History = {}
        for record in self._store.claim(key_bytes(run.key), from_sequence=run.sequence):
            slots = history.setdefault(record.sequence, {}).setdefault((record.event, record.action), {})
            slots[record.slot] = json.loads(record.value)
        if history:
            self._history[token] = history

    def _check_input(self, history: _History, run: Run) -> None:
        """Another input at the same sequence: its records say nothing about this one."""
        found = history.get(run.sequence, {})
        digest = run.input_digest
        if all(value["input"] == digest for slots in found.values() for value in slots.values()):
            return
        del history[run.sequence]
        self._store.forget(key_bytes(run.key), run.sequence)
        self._stats.discarded += 1
        log.warning(
            "key %r has another input at sequence %d than the action state store knows; what it knows is dropped",
            run.key,
            run.sequence,
        )

    def next_finished(self, tasks: Iterable[ActionTask]) -> ActionTask | None:
        """Of the tasks that had finished, the one that had before all others."""
        finished = [
            (slots[FINISHED]["order"], number, task)
            for number, task in enumerate(tasks)
            if FINISHED in (slots := self._slots(task))
        ]
        return min(finished)[2] if finished else None

    def _slots(self, task: ActionTask) -> dict[int, Any]:
        history = self._history.get(token_of(task.run.key))
        found = history.get(task.run.sequence) if history else None
        return found.get((task.event.id_bytes, task.route.name), {}) if found else {}

    def recall(self, task: ActionTask) -> bool:
        """Before an action starts: if it had finished, apply what it did, else hand it the calls it had made."""
        slots = self._slots(task)
        if not slots:
            return False
        state = slots.get(FINISHED)
        if state is None:
            task.journal = _merged(task.journal, slots)
            return False
        memories = (task.run.short_term, state["memory"]), (task.run.sensory, state["sensory"])
        for memory, changes in memories:
            if changes:
                view = memory.begin()
                view.apply(changes)
                view.commit()
        task.sent = [decode_event(event, self._event_classes) for event in state["sent"]]
        task.side_outputs = [(tag, from_plain(value)) for tag, value in state["side_outputs"]]
        self._stats.recalled += 1
        return True

    def end(self, run: Run) -> None:
        """A run is done: nothing will ask for its history again."""
        token = token_of(run.key)
        history = self._history.get(token)
        if history is not None:
            history.pop(run.sequence, None)
            if not history:
                del self._history[token]

    # --- what this attempt does -------------------------------------------------------------------------------------

    def call(self, call: DurableCall) -> None:
        """A call was made, is to be retried, or has its outcome; written as it is at the next commit."""
        self._calls[call] = None

    def finished(self, task: ActionTask) -> None:
        """An action has finished; its memory is about to be committed."""
        sensory, short_term = task.memories()
        self._finish(
            task,
            [] if short_term is None else short_term.export(),
            [] if sensory is None else sensory.export(),
            task.sent,
            task.side_outputs or [],
        )

    def failed(self, task: ActionTask, side_outputs: list[tuple[str, Any]]) -> None:
        """An action has failed for good: all that remains of it is its dead letter, if it has one."""
        self._finish(task, [], [], [], side_outputs)

    def commit(self) -> None:
        """Write what has gathered, all or nothing.

        Raises:
            Exception: the store's, when its retries are used up, or it fenced this attempt off; the job must fail, as
                nothing of this callback may leave the operator.
        """
        if self._failure is not None:
            raise self._failure  # an action that caught it, or is skipped for it, must not go on as if nothing was
        if not self._calls and not self._finished:
            return
        records = [
            _record(
                call.task,
                call.ordinal,
                f'{{"input":"{call.task.run.input_digest}","call":{call.record.to_json()}}}',
            )
            for call in self._calls
        ]
        hit("before-record")
        try:
            self._store.put([*records, *self._finished])
        except Exception as error:
            self._failure = error
            raise
        self._calls.clear()
        self._finished.clear()
        hit("after-record")

    def _finish(
        self,
        task: ActionTask,
        memory: list[list[Any]],
        sensory: list[list[Any]],
        sent: list[Event],
        side_outputs: list[tuple[str, Any]],
    ) -> None:
        run = task.run
        value = (
            f'{{"version":{RECORD_VERSION},"input":"{run.input_digest}","order":{run.finishes + 1},'
            f'"memory":{dumps(memory)},"sensory":{dumps(sensory)},'
            f'"sent":[{",".join(map(encode_event, sent))}],'
            f'"side_outputs":[{",".join(f"[{quote(tag)},{encode(value)}]" for tag, value in side_outputs)}]}}'
        )
        run.finishes += 1
        self._finished.append(_record(task, FINISHED, value))


def _record(task: ActionTask, slot: int, value: str) -> StoredRecord:
    run = task.run
    return StoredRecord(key_bytes(run.key), run.sequence, task.event.id_bytes, task.route.name, slot, value)


def _merged(own: Journal | None, slots: dict[int, Any]) -> Journal:
    """The journal of keyed state and that of the store, call by call the one that got further."""
    mine = own.records if own is not None else []
    records: list[CallRecord] = []
    generation = 0
    for ordinal in itertools.count():
        record = mine[ordinal] if ordinal < len(mine) else None
        if ordinal in slots:
            stored = CallRecord.from_plain(slots[ordinal]["call"])
            if record is None or _progress(stored) >= _progress(record):  # written before keyed state was
                record = stored
        if record is None or record.generation < generation:
            break  # the store keeps what follows on a path that was left
        generation = record.generation
        records.append(record)
    return Journal(records)


def _progress(record: CallRecord) -> tuple[int, bool, int]:
    return record.generation, record.status != PENDING, record.attempts


def input_digest(value: Any) -> str:
    """What tells one input from another at the same sequence."""
    try:
        data = canonical(value)
    except EncodeError:
        # It holds something opaque. A pickle of a pickle's content is the same each time, that of the original is not:
        # it shows which objects are shared.
        data = encode(decode(encode(value))).encode()
    return blake2b(data, digest_size=16).hexdigest()
