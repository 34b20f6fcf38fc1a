"""Runs an agent over a list of inputs in this process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.engine import Engine
from flink_agents_py.engine.identity import job_identity
from flink_agents_py.engine.unfinished import END_OF_INPUT, RESUME_AT_END
from flink_agents_py.engine.updates import PlanUpdates
from flink_agents_py.host.clock import SystemClock
from flink_agents_py.host.executor import BackgroundExecutor
from flink_agents_py.local.ports import KeyedStore, TimerQueue
from flink_agents_py.observe.observation import Observation
from flink_agents_py.stores.factory import open_store

if TYPE_CHECKING:
    from typing_extensions import Self

    from flink_agents_py.engine.run import Run
    from flink_agents_py.plan.plan import AgentPlan
    from flink_agents_py.plan.updates import PlanFile


class LocalRunner:
    """One subtask without Flink. Use it as a context manager; closing it stops the background threads."""

    def __init__(self, plan: AgentPlan, updates: PlanFile | None = None) -> None:
        self._plan = plan
        self._store = KeyedStore()
        self._timers = TimerQueue(self._store)
        self._executor = BackgroundExecutor(plan.config.get(AgentOptions.NUM_ASYNC_THREADS))
        self._clock = SystemClock()
        self._records = open_store(plan.config, job_identity(plan))
        self._observation = Observation(plan, self._clock, submission=f"local-{os.getpid()}")
        self.engine = Engine(
            plan,
            self._store,
            self._store,
            self._timers,
            self._clock,
            self._executor,
            store=self._records,
            watch=self._observation.observer,
            updates=None if updates is None else PlanUpdates.of(updates),
        )
        self._observation.attach(self.engine)
        if self.engine.external is not None:
            self._executor.on_close(self.engine.external.shared.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, inputs: Iterable[tuple[Any, Any, int | None]]) -> Iterator[tuple[Any, Run]]:
        """Feed ``(key, value, timestamp)`` and yield ``(output, its run)``; ends when every run has finished."""
        engine = self.engine
        for key, value, timestamp in inputs:
            while engine.saturated:
                engine.wait_slice()
                yield from engine.effects.take_outputs()
            self._store.switch(key)
            engine.process(key, value, timestamp)
            self._fire_due()
            yield from engine.effects.take_outputs()
        while (timer := self._timers.pop_event(END_OF_INPUT)) is not None:
            timestamp, token = timer
            key = self._store.keys[token]
            self._store.switch(key)
            if timestamp == RESUME_AT_END:
                if engine.resume(key):
                    self._store.switch(key)
                    self._timers.event_time(END_OF_INPUT)
            else:
                while engine.unfinished(key):
                    engine.wait_slice()
                    yield from engine.effects.take_outputs()
            yield from engine.effects.take_outputs()

    def _fire_due(self) -> None:
        now = self._clock.now_ms()
        while (token := self._timers.pop_processing(now)) is not None:
            key = self._store.keys[token]
            self._store.switch(key)
            self.engine.timer(key)

    def close(self) -> None:
        self.engine.close()
        try:
            self._plan.close()  # its resources close their connections on the executor's loop
        finally:
            self._executor.close()
            if self._records is not None:
                self._records.close()
            self._observation.close()
