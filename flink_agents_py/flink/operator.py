"""The agent operator: one engine per subtask, driven by Flink's callbacks."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyflink.common import Row
from pyflink.datastream import KeyedProcessFunction, OutputTag, TimeDomain

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.engine import END_OF_INPUT, RESUME_AT_END, Engine
from flink_agents_py.flink.held_watermark import HeldWatermark
from flink_agents_py.flink.internals import ProcessKeyScope, ThreadKeyScope, in_thread_mode, subtask_index
from flink_agents_py.flink.state import FlinkKeyedState, FlinkTimers, beat_state
from flink_agents_py.host.clock import SystemClock
from flink_agents_py.host.executor import BackgroundExecutor
from flink_agents_py.plan.plan import AgentPlan

if TYPE_CHECKING:
    from pyflink.datastream import RuntimeContext

    from flink_agents_py.flink.layout import HeldLayout, PlainLayout


class AgentOperator(KeyedProcessFunction):
    """Runs an agent plan over a keyed stream.

    Args:
        plan_json: the plan; it travels as text and is rebuilt in :meth:`open`.
        submission: unique per submitted operator, the same in all its attempts: tells this operator's background
            threads of an earlier attempt from those of other jobs in the same process (S15).
        layout: how outputs leave the operator.
        side_outputs: tags declared on the builder, and how their values leave it.
        synthetic_keys: keys under which watermarks are learnt; none for pipelines without event time.
    """

    def __init__(
        self,
        plan_json: str,
        submission: str,
        layout: PlainLayout | HeldLayout,
        side_outputs: dict[str, PlainLayout | HeldLayout],
        synthetic_keys: Iterable[Any] = (),
    ) -> None:
        self._plan_json = plan_json
        self._submission = submission
        self._layout = layout
        self._side_layouts = side_outputs
        self._synthetic_keys = frozenset(synthetic_keys)

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
        self._side_outputs = {tag: (OutputTag(tag), layout) for tag, layout in self._side_layouts.items()}
        clock = SystemClock()
        self._held: HeldWatermark | None = None
        if self._synthetic_keys:
            interval = plan.config.get(AgentOptions.RESUME_TIMER_INTERVAL)
            self._held = HeldWatermark(beat_state(runtime_context), clock, interval)
        self._engine = Engine(
            plan,
            FlinkKeyedState(runtime_context),
            self._scope,
            self._timers,
            clock,
            self._executor,
            segments=None if self._held is None else self._held.segments,
        )

    def close(self) -> None:
        engine = self.__dict__.pop("_engine", None)
        if engine is not None:
            engine.close()
            self._executor.close()
            self._plan.close()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        engine = self._engine
        if value is None and self._held is not None and ctx.get_current_key() in self._synthetic_keys:
            self._held.start(ctx.get_current_key(), ctx.timer_service())
            return ()
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
        held = self._held
        if timestamp < RESUME_AT_END:
            if held is None:
                engine.timer(key)
            elif ctx.time_domain() == TimeDomain.EVENT_TIME:
                held.event_timer(key, self._timers.service)
            else:
                held.processing_timer()
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
        held = self._held
        if held is None:
            emitted = [value for value, _ in effects.take_outputs()]
            if effects.side_outputs:
                for tag, value, _ in effects.take_side_outputs():
                    if tag in self._side_outputs:
                        emitted.append((self._side_outputs[tag][0], value))
            return emitted
        return self._held_emissions(held)

    def _held_emissions(self, held: HeldWatermark) -> list[Any]:
        """Outputs first, with the watermark that downstream knows already; then word of its progress."""
        effects = self._engine.effects
        layout: Any = self._layout
        known = held.emitted
        emitted: list[Any] = [layout.row(value, run.timestamp, known) for value, run in effects.take_outputs()]
        if effects.side_outputs:
            for tag, value, run in effects.take_side_outputs():
                declared = self._side_outputs.get(tag)
                if declared is not None:
                    side: Any = declared[1]
                    emitted.append((declared[0], side.row(value, run.timestamp, known)))
        released = held.segments.released
        if released > known:
            held.emitted = released
            emitted.append(layout.marker(released))
            for output_tag, side in self._side_outputs.values():
                emitted.append((output_tag, side.marker(released)))
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
