"""The agent operator: one engine per subtask, driven by Flink's callbacks."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyflink.common import Row
from pyflink.datastream import KeyedProcessFunction, OutputTag

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.engine import END_OF_INPUT, RESUME_AT_END, Engine
from flink_agents_py.flink.internals import ProcessKeyScope, ThreadKeyScope, in_thread_mode, subtask_index
from flink_agents_py.flink.state import FlinkKeyedState, FlinkTimers
from flink_agents_py.host.clock import SystemClock
from flink_agents_py.host.executor import BackgroundExecutor
from flink_agents_py.plan.plan import AgentPlan

if TYPE_CHECKING:
    from pyflink.datastream import RuntimeContext


class AgentOperator(KeyedProcessFunction):  # type: ignore[misc]
    """Runs an agent plan over a keyed stream.

    Args:
        plan_json: the plan; it travels as text and is rebuilt in :meth:`open`.
        submission: unique per submitted operator, the same in all its attempts: tells this operator's background
            threads of an earlier attempt from those of other jobs in the same process (S15).
        side_outputs: tags declared on the builder, by name.
    """

    def __init__(self, plan_json: str, submission: str, side_outputs: dict[str, OutputTag]) -> None:
        self._plan_json = plan_json
        self._submission = submission
        self._side_outputs = side_outputs

    def open(self, runtime_context: RuntimeContext) -> None:
        # Our own builder wrote the plan a moment ago: pickled functions in it are as trusted as this operator.
        self._plan = plan = AgentPlan.from_json(self._plan_json, allow_pickled=True)
        threshold = plan.config.get(AgentOptions.GC_THRESHOLD)
        if gc.isenabled() and gc.get_threshold()[0] < threshold:
            gc.set_threshold(threshold, 20, 50)
        threaded = in_thread_mode(runtime_context)
        self._scope: Any = ThreadKeyScope(runtime_context) if threaded else ProcessKeyScope(runtime_context)
        self._copies_input = not threaded
        self._timers = FlinkTimers()
        self._executor = BackgroundExecutor(
            plan.config.get(AgentOptions.NUM_ASYNC_THREADS),
            owner=(self._submission, subtask_index(runtime_context)),
        )
        self._engine = Engine(
            plan, FlinkKeyedState(runtime_context), self._scope, self._timers, SystemClock(), self._executor
        )

    def close(self) -> None:
        engine = self.__dict__.pop("_engine", None)
        if engine is not None:
            engine.close()
            self._executor.close()
            self._plan.close()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        engine = self._engine
        if engine.saturated:
            return self._process_when_free(value, ctx)
        self._process(value, ctx)
        return self._emissions()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        engine = self.__dict__.get("_engine")
        if engine is None:
            return ()  # thread mode lets a processing-time timer fire once more between close() and the task's end
        self._timers.service = ctx.timer_service()
        key = ctx.get_current_key()
        if timestamp < RESUME_AT_END:
            engine.timer(key)
        elif timestamp == RESUME_AT_END:
            handle = self._scope.current()
            if engine.resume(key):
                self._scope.switch(handle)
                self._timers.event_time(END_OF_INPUT)
        else:
            return self._finish(key)
        return self._emissions()

    def _process(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        service = ctx.timer_service()
        self._timers.service = service
        if self._copies_input:
            value = own_copy(value)
        self._engine.process(ctx.get_current_key(), value, ctx.timestamp(), service.current_watermark())

    def _process_when_free(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Backpressure (S13): wait in slices, let results go downstream meanwhile, then take the input."""
        engine = self._engine
        self._timers.service = ctx.timer_service()
        value = own_copy(value)
        handle = self._scope.current()
        while engine.saturated:
            engine.wait_slice()
            yield from self._emissions()
        self._scope.switch(handle)
        self._process(value, ctx)
        yield from self._emissions()

    def _finish(self, key: Any) -> Iterator[Any]:
        """End of input (S11): nothing follows any more, so waiting here is lawful."""
        engine = self._engine
        while engine.unfinished(key):
            engine.wait_slice()
            yield from self._emissions()

    def _emissions(self) -> list[Any]:
        effects = self._engine.effects
        emitted = [value for value, _ in effects.take_outputs()]
        if effects.side_outputs:
            for tag, value, _ in effects.take_side_outputs():
                declared = self._side_outputs.get(tag)
                if declared is not None:
                    emitted.append((declared, value))
        return emitted


def own_copy(value: Any) -> Any:
    """Rows as they will stay: in process mode the coder reuses the lists inside a row for the next record."""
    if isinstance(value, Row):
        copied = Row(*[own_copy(item) for item in value._values])
        if getattr(value, "_fields", None):
            copied.set_field_names(list(value._fields))
        copied.set_row_kind(value.get_row_kind())
        return copied
    if type(value) is list:
        return [own_copy(item) for item in value]
    return value
