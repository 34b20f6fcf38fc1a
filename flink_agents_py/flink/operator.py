"""The agent operator: one engine per subtask, driven by Flink's callbacks."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from pyflink.common import Row
from pyflink.datastream import KeyedProcessFunction, OutputTag, TimeDomain

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.archive import PlanArchive
from flink_agents_py.engine.engine import Engine
from flink_agents_py.engine.held_watermark import HeldWatermark
from flink_agents_py.engine.identity import job_identity
from flink_agents_py.engine.registry import UnfinishedRegistry
from flink_agents_py.engine.segments import NO_WATERMARK
from flink_agents_py.engine.unfinished import END_OF_INPUT, RESUME_AT_END
from flink_agents_py.engine.updates import PlanUpdates
from flink_agents_py.errors import PipelineError
from flink_agents_py.flink.internals import (
    ProcessKeyScope,
    ThreadKeyScope,
    attempt_number,
    in_thread_mode,
    key_group_layout,
    parallelism_of,
    subtask_index,
)
from flink_agents_py.flink.key_groups import KeyGroups, may_be_synthetic
from flink_agents_py.flink.metrics import MetricsReport
from flink_agents_py.flink.state import FlinkKeyedState, FlinkTimers
from flink_agents_py.host.clock import SystemClock
from flink_agents_py.host.executor import BackgroundExecutor
from flink_agents_py.host.failpoints import arm_from_environment
from flink_agents_py.observe.metrics import BuiltInMetrics
from flink_agents_py.observe.observation import Observation
from flink_agents_py.plan.plan import AgentPlan
from flink_agents_py.stores.factory import open_store

if TYPE_CHECKING:
    from pyflink.datastream import RuntimeContext, TimerService

    from flink_agents_py.flink.layout import HeldLayout, PlainLayout
    from flink_agents_py.plan.updates import PlanFile


class AgentOperator(KeyedProcessFunction):
    """Runs an agent plan over a keyed stream.

    Args:
        plan_json: the plan; it travels as text and is rebuilt in :meth:`open`.
        submission: unique per submitted operator, the same in all its attempts: tells this operator's background
            threads of an earlier attempt from those of other jobs in the same process (S15).
        layout: how outputs leave the operator.
        side_outputs: tags declared on the builder, and how their values leave it.
        event_time: whether watermarks are held back.
        start_keys: synthetic keys that get a start record.
        beats: the kind of keys, where beats come under the synthetic key of each key group (process mode).
        updates: a file of plans; ``"stream"`` if they come to :meth:`process_plan`.
        marks: whether outputs are pairs of the plan's version and the value.
        homes: the kind of keys, where plans can be kept for runs that outlive them; ``None`` where they cannot.
        restored: whether the job is submitted with a savepoint.
        read: makes the input of what comes; ``None`` if that is the input.
        gives_key: outputs go as ``(key, value)`` to the agent behind this one.
    """

    def __init__(
        self,
        plan_json: str,
        submission: str,
        layout: PlainLayout | HeldLayout,
        side_outputs: dict[str, PlainLayout | HeldLayout],
        *,
        event_time: bool = False,
        start_keys: Iterable[Any] = (),
        beats: str | None = None,
        homes: str | None = None,
        updates: PlanFile | Literal["stream"] | None = None,
        marks: bool = False,
        restored: bool = False,
        read: Callable[[Any], Any] | None = None,
        gives_key: bool = False,
    ) -> None:
        self._plan_json = plan_json
        self._submission = submission
        self._layout = layout
        self._side_layouts = side_outputs
        self._event_time = event_time
        self._synthetic_keys = frozenset(start_keys)
        self._beats = beats
        self._homes = homes
        self._updates = updates
        self._marks = marks
        self._restored = restored
        self._read = read
        self._gives_key = gives_key

    def open(self, runtime_context: RuntimeContext) -> None:
        # Our own builder wrote the plan a moment ago: pickled functions in it are as trusted as this operator.
        self._plan = plan = AgentPlan.from_json(self._plan_json, allow_pickled=True)
        threshold = plan.config.get(AgentOptions.GC_THRESHOLD)
        if gc.isenabled() and gc.get_threshold()[0] < threshold:
            gc.set_threshold(threshold, 20, 50)
        threaded = in_thread_mode(runtime_context)
        if threaded:
            gc.collect()  # operators of failed jobs, which Flink does not close: their threads end with them
        self._scope: Any = ThreadKeyScope(runtime_context) if threaded else ProcessKeyScope(runtime_context)
        self._copies_input = not threaded
        self._moment = _Moment()
        self._timers = FlinkTimers()
        state = FlinkKeyedState(runtime_context)
        self._executor = BackgroundExecutor(
            plan.config.get(AgentOptions.NUM_ASYNC_THREADS),
            owner=(self._submission, subtask_index(runtime_context)),
        )
        self._executor.close_after(self)
        self._side_outputs = {tag: (OutputTag(tag), layout) for tag, layout in self._side_layouts.items()}
        clock = SystemClock()
        registry, own_keys = None, None
        if self._beats is not None:
            subtask, parallelism, number = key_group_layout(runtime_context)
            groups = KeyGroups(self._beats, number, threaded=False)
            registry = UnfinishedRegistry(state.unfinished, self._scope, groups)
            own_keys = groups.owned(subtask, parallelism)
            self._synthetic_keys = frozenset(groups.synthetic)
            self._met: set[Any] = set()
        self._held: HeldWatermark | None = None
        if self._event_time:
            self._held = HeldWatermark(
                state.beat,
                self._timers,
                clock,
                plan.config.get(AgentOptions.RESUME_TIMER_INTERVAL),
                restored=self._restored or attempt_number(runtime_context) > 0,
                hold=plan.config.get(AgentOptions.HOLD_WATERMARK),
                awaited=own_keys,
            )
        self._plan_offered = ""
        self._eager = self._copies_input or self._held is not None or self._read is not None or self._gives_key
        self._eager = self._eager or self._marks
        arm_from_environment()
        self._store = open_store(plan.config, job_identity(plan))
        self._observation = Observation(
            plan,
            clock,
            submission=self._submission,
            subtask=subtask_index(runtime_context),
            attempt=attempt_number(runtime_context),
        )
        self._engine = Engine(
            plan,
            state,
            self._scope,
            self._timers,
            clock,
            self._executor,
            segments=None if self._held is None else self._held.segments,
            store=self._store,
            watch=self._observation.observer,
            registry=registry,
            archive=self._archive(runtime_context, state),
            updates=self._new_updates(),
            parallelism=parallelism_of(runtime_context),
        )
        if self._engine.external is not None:
            self._executor.on_close(self._engine.external.shared.aclose)

        self._observation.attach(self._engine)
        self._report: MetricsReport | None = None
        group = runtime_context.get_metrics_group() if plan.config.get(AgentOptions.METRICS) else None
        if group is not None:  # there is none where python.metric.enabled is off
            built_in = BuiltInMetrics(self._engine, self._observation, self._lag_ms)
            self._report = MetricsReport(group, built_in, self._engine.metrics, threaded=threaded)
        self._look = 0 if self._report is None else self._report.samples

    def _archive(self, context: RuntimeContext, state: FlinkKeyedState) -> PlanArchive | None:
        kept = self._plan.config.get(AgentOptions.PLAN_VERSIONS_KEPT)
        if self._homes is None or not kept:
            return None
        subtask, parallelism, number = key_group_layout(context)
        groups = KeyGroups(self._homes, number, threaded=not self._copies_input)
        return PlanArchive(state.plans, self._scope, groups, groups.owned(subtask, parallelism), kept)

    def _new_updates(self) -> PlanUpdates | None:
        if self._updates is None:
            return None
        return PlanUpdates(None) if self._updates == "stream" else PlanUpdates.of(self._updates)

    def process_plan(self, text: str, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        """A plan has come, under the synthetic key of one key group; it comes for each of them."""
        engine = self._engine
        self._timers.service = ctx.timer_service()
        if text != self._plan_offered and engine.updates is not None:
            self._plan_offered = text
            engine.updates.offer(text, "the stream of plans")
        return self._emissions()

    def close(self) -> None:
        engine = self.__dict__.pop("_engine", None)
        if engine is not None:
            engine.close()
            try:
                self._plan.close()  # its resources close their connections on the executor's loop
            finally:
                self._executor.close()
                if self._store is not None:
                    self._store.close()
                self._observation.close()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        if self._look:
            return self._process_timed(value, ctx)
        if value is None and self._synthetic_keys and ctx.get_current_key() in self._synthetic_keys:
            return self._beat(ctx)
        engine = self._engine
        if engine.saturated:
            return self._process_when_free(value, ctx)
        if self._eager:
            self._process(value, ctx)
            return self._emissions()
        # The plain case, in thread mode and without event time: no call into the JVM that nobody needs the answer of.
        self._moment.context = ctx
        self._timers.service = ctx.timer_service()
        engine.process(ctx.get_current_key(), value, moment=self._moment)
        effects = engine.effects
        if effects.side_outputs:
            return self._emissions()
        fit, outputs = self._layout.fit, effects.outputs
        if len(outputs) == 1:
            return (fit(outputs.pop()[0]),)
        return [fit(value) for value, _ in effects.take_outputs()] if outputs else ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        report = self._report
        if report is None:
            return self._on_timer(timestamp, ctx)
        if timestamp >= report.due_ms:
            report.publish()
            self._look = report.samples
            return self._on_timer(timestamp, ctx)
        if not report.armed:
            ctx.timer_service().register_processing_time_timer(report.arm(time.time_ns() // 1_000_000))
        began = time.perf_counter()
        emitted = self._on_timer(timestamp, ctx)
        report.timed((time.perf_counter() - began) * 1e6)
        return emitted

    def _process_timed(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Some callbacks after each report: they are timed, and see to it that there is a next report."""
        report, left = self._report, self._look - 1
        if report is None:
            self._look = 0
            return self.process_element(value, ctx)
        if not report.armed:
            ctx.timer_service().register_processing_time_timer(report.arm(time.time_ns() // 1_000_000))
        self._look = 0
        began = time.perf_counter()
        try:
            return self.process_element(value, ctx)
        finally:
            report.timed((time.perf_counter() - began) * 1e6)
            self._look = left

    def _lag_ms(self) -> int:
        """How far what downstream has been told of is behind the newest watermark."""
        held = self._held
        if held is None or held.emitted == NO_WATERMARK or held.segments.watermark >= RESUME_AT_END:
            return 0
        return max(0, held.segments.watermark - held.emitted)

    def _on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        engine = self.__dict__.get("_engine")
        if engine is None:
            return ()  # thread mode lets a processing-time timer fire once more between close() and the task's end
        service = self._timers.service = ctx.timer_service()
        key = ctx.get_current_key()
        if timestamp < RESUME_AT_END:
            held = self._held
            if held is None:
                engine.timer(key)
            elif ctx.time_domain() == TimeDomain.EVENT_TIME:
                held.event_timer(key, _watermark(service))
            else:
                watermark = _watermark(service)
                held.tick(timestamp, watermark)
                if self._beats is not None or not (may_be_synthetic(key) and held.watch(key, watermark)):
                    engine.timer(key)
        elif self._copies_input:
            return self._end(key)
        elif timestamp == RESUME_AT_END:
            handle = self._scope.current()
            if engine.resume(key):
                self._scope.switch(handle)
                self._timers.event_time(END_OF_INPUT)
        else:
            return self._finish(key)
        return self._emissions()

    def _beat(self, ctx: KeyedProcessFunction.Context) -> list[Any]:
        """A callback of ours under a synthetic key."""
        service = self._timers.service = ctx.timer_service()
        key, held = ctx.get_current_key(), self._held
        if self._beats is None:
            if held is not None:
                held.start(key, _watermark(service))
            return []
        if key not in self._met:
            self._met.add(key)
            self._timers.event_time(RESUME_AT_END)
            handle = self._scope.current()
            self._engine.resume_listed()
            self._scope.switch(handle)
        if held is not None:
            held.beat(key, _watermark(service))
        return self._emissions()

    def _process(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        service = self._timers.service = ctx.timer_service()
        watermark = _said(service.current_watermark())
        if self._held is not None and watermark is not None:
            self._held.advance(watermark)
        if self._copies_input:
            value = own_copy(value)
        if self._read is not None:
            value = self._read(value)
        self._engine.process(ctx.get_current_key(), value, _said(ctx.timestamp()), watermark)

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

    def _end(self, key: Any) -> Iterator[Any]:
        """End of input in process mode, where it is not certain that a timer registered now still fires."""
        engine = self._engine
        if self._beats is not None and key in self._synthetic_keys:
            engine.resume_listed()
        else:
            engine.resume(key)
        yield from self._emissions()
        while not engine.idle:
            engine.wait_slice()
            yield from self._emissions()

    def _emissions(self) -> list[Any]:
        effects = self._engine.effects
        held = self._held
        # What this callback emits goes with the watermark that downstream knows already; word of progress follows.
        known = NO_WATERMARK if held is None else held.emitted
        row = self._layout.row
        if self._marks:
            emitted = [row((run.version.digest, value), run.timestamp, known) for value, run in effects.take_outputs()]
        elif self._gives_key:
            emitted = [row((run.key, value), run.timestamp, known) for value, run in effects.take_outputs()]
        else:
            emitted = [row(value, run.timestamp, known) for value, run in effects.take_outputs()]
        if effects.side_outputs:
            for tag, value, run in effects.take_side_outputs():
                declared = self._side_outputs.get(tag)
                if declared is None:
                    raise _undeclared(tag, self._plan.agent_name, list(self._side_outputs))
                emitted.append((declared[0], declared[1].row(value, run.timestamp, known)))
        if held is not None and held.released > known:
            held.emitted = released = held.released
            emitted.append(self._layout.marker(released))
            for output_tag, side in self._side_outputs.values():
                emitted.append((output_tag, side.marker(released)))
        return emitted


def _said(moment: int | None) -> int | None:
    """A timestamp or watermark; Flink says the least number there is where there is none."""
    return None if moment == NO_WATERMARK else moment


def _watermark(service: TimerService) -> int:
    watermark = service.current_watermark()
    return NO_WATERMARK if watermark is None else int(watermark)


def _undeclared(tag: str, agent: str, declared: list[str]) -> PipelineError:
    return PipelineError(
        f"agent {agent} wrote to the side output {tag!r}, which was not declared (declared: {declared or 'none'})",
        where=f"ctx.side_output({tag!r}, ...)",
        fix=f"declare it: apply(agent, side_outputs={{{tag!r}: Types.STRING()}}), with the type of its values",
    )


class _Moment:
    """Event time of the element that is being processed, read from Flink when asked for."""

    context: KeyedProcessFunction.Context

    def timestamp(self) -> int | None:
        return _said(self.context.timestamp())

    def watermark(self) -> int | None:
        return _said(self.context.timer_service().current_watermark())


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
