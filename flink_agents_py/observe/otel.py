"""OpenTelemetry spans of runs, actions and calls, by the semantic conventions for generative AI where they apply.

Calls that a journal answers and actions that the store recalls get no span, since their first execution had one. What
a restart interrupted has no end and is not exported; what goes on after it has ``flink_agents.resumed``. Trace ids are
the ids of runs, so all attempts of a run are in one trace.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from flink_agents_py.engine.failures import message_of
from flink_agents_py.engine.journal import RAISED
from flink_agents_py.engine.stats import code_of
from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.events import derive_id

if TYPE_CHECKING:
    from flink_agents_py.engine.calls import DurableCall
    from flink_agents_py.engine.run import Run
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.events import Event

_USAGE = {
    "model": "gen_ai.request.model",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
}


class SpanObserver:
    """Makes spans through the tracer provider that is set, or that ``OTEL_*`` variables describe.

    Raises:
        EnvironmentSetupError: the extra ``otel`` is not installed.
    """

    whole_runs = True

    def __init__(self, agent: str, *, subtask: int = 0, attempt: int = 0, provider: Any = None) -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            raise EnvironmentSetupError(
                "otel.spans is on, but OpenTelemetry is not installed", fix="pip install 'flink-agents-py[otel]'"
            ) from None
        self._api = trace
        self._tracer = (provider or _provider(trace)).get_tracer("flink_agents_py")
        self._agent = agent
        self._common = {"gen_ai.agent.name": agent, "flink_agents.subtask": subtask, "flink_agents.attempt": attempt}
        self._runs: dict[Run, Any] = {}
        self._actions: dict[ActionTask, Any] = {}

    def run_began(self, run: Run, *, resumed: bool) -> None:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "flink_agents.key": str(run.key),
            "flink_agents.sequence": run.sequence,
            "flink_agents.resumed": resumed,
        }
        self._runs[run] = self._start(f"invoke_agent {self._agent}", self._trace_of(run), time.time_ns(), attributes)

    def run_suspended(self, run: Run) -> None:
        """Its span goes on."""

    def run_ended(self, run: Run) -> None:
        span = self._runs.pop(run, None)
        if span is not None:
            span.end()

    def event(
        self,
        run: Run,  # noqa: ARG002 - the protocol's
        event: Event,  # noqa: ARG002 - the protocol's
        ended: ActionTask | None = None,
        begins: ActionTask | None = None,
    ) -> None:
        """Events are in the event log; spans are for what takes time."""
        if ended is not None:
            self.action_ended(ended, "finished")
        if begins is not None:
            self.action_began(begins)

    def action_began(self, task: ActionTask) -> None:
        attributes = {
            "flink_agents.action": task.route.name,
            "flink_agents.event.type": task.event.type,
            "flink_agents.resumed": task.journal is not None,
        }
        context = self._inside(self._runs.get(task.run))
        self._actions[task] = self._start(f"action {task.route.name}", context, time.time_ns(), attributes)

    def action_ended(self, task: ActionTask, outcome: str, error: BaseException | None = None) -> None:
        span = self._actions.pop(task, None)
        if span is None:
            return  # recalled: it has not run
        span.set_attribute("flink_agents.outcome", outcome)
        self._end(span, error)
        if outcome == "failed":
            run = self._runs.pop(task.run, None)
            if run is not None:
                self._end(run, error)

    def call_attempted(self, call: DurableCall) -> None:
        """The call's span counts its attempts."""

    def call_retried(self, call: DurableCall, error: BaseException, delay_s: float) -> None:
        """The call's span counts its attempts."""

    def call_ended(self, call: DurableCall, *, replayed: bool) -> None:
        if replayed or call.func is None:
            return
        record = call.record
        attributes = {
            "flink_agents.call": call.ordinal,
            "code.function.name": record.function,
            "flink_agents.call.attempts": record.attempts,
            "flink_agents.outcome": "raised" if record.status == RAISED else "returned",
            "flink_agents.idempotency_key": call.idempotency_key,
        }
        context = self._inside(self._actions.get(call.task))
        self._end(self._start(record.function, context, record.started_ms * 1_000_000, attributes), call.error)

    def noted(self, task: ActionTask, kind: str, fields: dict[str, Any]) -> None:
        span = self._actions.get(task)
        if span is None:
            return
        names = _USAGE if kind == "usage" else {}
        plain = {
            names.get(name, f"flink_agents.{kind}.{name}"): value
            if isinstance(value, (bool, int, float))
            else str(value)
            for name, value in fields.items()
        }
        if kind == "usage":
            plain["gen_ai.operation.name"] = "chat"
        span.add_event(kind, plain)

    def _trace_of(self, run: Run) -> Any:
        """A context in the trace of the run."""
        own = run.id_bytes
        parent = self._api.SpanContext(
            int.from_bytes(own, "big"),
            int.from_bytes(derive_id(own, "span", 0)[:8], "big"),
            is_remote=True,
            trace_flags=self._api.TraceFlags(self._api.TraceFlags.SAMPLED),
        )
        return self._api.set_span_in_context(self._api.NonRecordingSpan(parent))

    def _inside(self, span: Any) -> Any:
        return None if span is None else self._api.set_span_in_context(span)

    def _start(self, name: str, context: Any, began_ns: int, attributes: dict[str, Any]) -> Any:
        return self._tracer.start_span(
            name, context=context, start_time=began_ns, attributes={**self._common, **attributes}
        )

    def _end(self, span: Any, error: BaseException | None) -> None:
        if error is not None:
            span.set_attribute("error.type", code_of(error))
            span.set_status(self._api.StatusCode.ERROR, message_of(error))
        span.end()


def _provider(trace: Any) -> Any:
    """The provider the process has; one of the SDK that exports by OTLP, if it has none yet and the SDK is there."""
    provider = trace.get_tracer_provider()
    if type(provider).__name__ != "ProxyTracerProvider":
        return provider
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise EnvironmentSetupError(
            "otel.spans is on, but OpenTelemetry has no provider and its SDK is not installed",
            fix="pip install 'flink-agents-py[otel]', or set a tracer provider of your own",
        ) from None
    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(made)
    return made
