"""How a run begins, is rebuilt from its record, and ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.identity import job_identity
from flink_agents_py.engine.journal import Journal
from flink_agents_py.engine.memory_observer import run_begin_event
from flink_agents_py.engine.recorder import input_digest
from flink_agents_py.engine.run import Run
from flink_agents_py.engine.task import ActionTask
from flink_agents_py.events import InputEvent, decode_event

if TYPE_CHECKING:
    from flink_agents_py.engine.engine import Engine
    from flink_agents_py.engine.keys import RunRecord
    from flink_agents_py.engine.memories import Memories
    from flink_agents_py.engine.versions import PlanVersions
    from flink_agents_py.errors import MissingActionError

log = logging.getLogger("flink_agents_py.engine")


class RunLifecycle:
    """Makes and ends the runs of an engine, and tells the store and the observer of it."""

    def __init__(self, engine: Engine, versions: PlanVersions, memories: Memories) -> None:
        self.job = job_identity(engine.plan).encode()
        self.announces = engine.config.get(AgentOptions.AGENT_RUN_BEGIN_EVENT)
        self._engine = engine
        self._versions = versions
        self._memories = memories

    def begin(self, key: Any, sequence: int, value: Any, timestamp: int | None, watermark: int | None) -> Run:
        """The run of an input, with its event in the queue."""
        run = Run(self.job, key, sequence, timestamp, watermark, self._memories)
        event = InputEvent(value)
        event.__dict__["_origin"] = (run, "", 0)
        run.open(event)
        run.version = self._versions.current
        if self._engine.recorder is not None:
            run.input_digest = input_digest(value)
            self._engine.recorder.begin(run)
        if self._engine.watch is not None:
            self._engine.watch.run_began(run, resumed=False)
        if self.announces:
            run.events.appendleft(run_begin_event(run, event))
        return run

    def end(self, run: Run) -> None:
        """The run is over; the scope is at its key."""
        run.close_memory()
        self._engine.stats.runs += 1
        if self._engine.external is not None:
            self._engine.external.flush(run)
        watch = self._engine.watch
        if watch is not None and (run.entry is not None or watch.whole_runs):
            watch.run_ended(run)
        if self._engine.recorder is not None:
            self._engine.recorder.end(run)

    def rebuild(self, key: Any, record: RunRecord) -> Run:
        """A run as its record tells; its actions start from the top, their journals answer (S12)."""
        run = Run(self.job, key, record.sequence, record.timestamp, record.watermark, self._memories)
        run.open()
        versions = self._versions
        run.version = version = versions.of(record.plan, key)
        classes = versions.event_classes
        run.memory_ms = record.memory_ms
        if record.sensory:
            run.sensory.load(dict(record.sensory))
        if self._engine.recorder is not None:
            run.input_digest = record.input_digest
            self._engine.recorder.begin(run)
        if self._engine.watch is not None:
            self._engine.watch.run_began(run, resumed=True)
        run.events.extend(decode_event(event, classes) for event in record.events)
        for name, event, journal in record.tasks:
            route = versions.route(version, name)
            task = ActionTask(self._engine, run, route, decode_event(event, classes), Journal.from_plain(journal))
            run.ready.append(task)
        if isinstance(record.cause, int):
            run.input = run.ready[record.cause].event
        elif record.cause is not None:
            run.input = decode_event(record.cause, classes)
        return run

    def restart(self, run: Run, missing: MissingActionError) -> None:
        """Begin a run anew under the current plan: it came to an action that is not there any more.

        What it has left in memory and sent out stays; of its calls, those that are made again have the same keys.

        Raises:
            MissingActionError: its record is of a release that did not keep the input.
        """
        cause = run.input
        if cause is None:
            raise missing
        run.version.driver.drop(run)
        run.version = self._versions.current
        run.begin_anew(cause)
        self._engine.stats.restarted += 1
        log.warning("a run begins anew under plan %s: %s", run.version.digest, missing)
