"""A call of an external action as an awaitable: a durable call whose outcome is an ActionResult, whatever happened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flink_agents_py.engine.calls import DurableCall
from flink_agents_py.engine.journal import PENDING
from flink_agents_py.errors import AgentDefinitionError, CallTimeoutError
from flink_agents_py.external.attempt import attempt_of, keep
from flink_agents_py.external.classify import action_error
from flink_agents_py.external.codes import RETRYABLE, ActionCode
from flink_agents_py.external.failures import ActionError, TotalTimeout
from flink_agents_py.external.records import ActionCall, ActionResult, AttemptError
from flink_agents_py.policies import NO_RETRY, NO_TIMEOUTS
from flink_agents_py.serde import to_plain
from flink_agents_py.serde.text import dumps

if TYPE_CHECKING:
    from flink_agents_py.engine.journal import CallRecord
    from flink_agents_py.engine.lanes import Breaker, Lane
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.external.bindings import Binding
    from flink_agents_py.external.handler import Shared


class ExternalCall(DurableCall):
    """One call of an external action.

    While it has no outcome its journal record holds the errors of the attempts so far, so that a dead letter written
    after a restart knows all of them.
    """

    __slots__ = ("binding", "breaker", "call", "call_id", "errors", "followers", "lane", "queued", "recovered")

    def __init__(
        self,
        task: ActionTask,
        ordinal: int,
        record: CallRecord,
        call: ActionCall,
        binding: Binding | None,
        key: str,
        call_id: str,
    ) -> None:
        super().__init__(task, ordinal, record, None, (), {}, NO_TIMEOUTS, NO_RETRY, key)
        self.call = call
        self.call_id = call_id  # of this very call, where the idempotency key is that of the deed
        self.binding = binding
        self.lane: Lane | None = None
        self.breaker: Breaker | None = None
        self.errors: list[AttemptError] = []
        self.followers: list[ExternalCall] = []  # equal calls that wait for the outcome of this one
        self.recovered = False  # whether an earlier attempt of the job had started it
        self.queued = False  # whether this attempt has put it into a queue before
        if record.status == PENDING and record.payload != "null":
            self.errors.extend(AttemptError.from_plain(error) for error in json.loads(record.payload))

    def prepare(self, lane: Lane, breaker: Breaker | None, shared: Shared, *, reconcile: bool) -> None:
        """Get ready to be started; ``reconcile`` if a restart interrupted an attempt."""
        binding = self.binding
        if binding is None:
            raise ValueError("a call of an unknown action is never started")
        spec = binding.spec
        self.lane, self.breaker = lane, breaker
        self.retry = spec.retry.policy
        self.timeouts = self.timeouts.model_copy(update={"total": spec.timeouts.total})
        self.func = attempt_of(binding, self.idempotency_key, shared, lane.pace, reconcile=reconcile)
        self.args = (self.call,)

    @property
    def graced(self) -> bool:
        """Whether the callback that begins the call may wait for it a moment."""
        return self.binding is not None and self.binding.spec.grace_wait_ms > 0

    # --- what the desk asks -----------------------------------------------------------------------------------------

    def launching(self, now_ms: int) -> None:
        """An attempt is about to be made."""
        total = self.timeouts.total or 0.0
        left = (self.record.started_ms - now_ms) / 1000 + total
        self.kwargs = {"attempt": self.record.attempts, "seconds": max(0.0, left)}

    def attempt_ended(self, error: BaseException | None, now_ms: int) -> ActionError | None:
        """Note how an attempt ended; the error as one with a code."""
        failure = None if error is None else action_error(error)
        if self.breaker is not None:
            self.breaker.ended(self, now_ms, failed=failure is not None and failure.code in RETRYABLE)
        if failure is not None:
            self.note(failure, self.record.attempts, now_ms, error)
            if self.func is not None:
                self.func.reconcile = False  # type: ignore[attr-defined]  # it has been asked; from here on it is known
        return failure

    def note(self, failure: ActionError, attempt: int, now_ms: int, error: BaseException | None = None) -> None:
        """Add an error to the record."""
        cause = failure.__cause__ or error or failure
        self.errors.append(
            AttemptError(
                attempt,
                failure.code,
                failure.message,
                f"{type(cause).__module__}.{type(cause).__qualname__}",
                now_ms,
                _plain(failure.detail),
            )
        )
        self.record.payload = dumps([each.to_plain() for each in self.errors])

    def retries(self, error: BaseException) -> bool:
        """Whether the spec wants another attempt after this error."""
        return self.binding is not None and isinstance(error, ActionError) and error.code in self.binding.spec.retry.on

    def outcome(self, error: BaseException | None, result: Any, now_ms: int) -> ActionResult:
        """What the agent gets."""
        if isinstance(error, CallTimeoutError):
            interrupted = self.record.attempts > sum(1 for each in self.errors if each.attempt)
            if self.breaker is not None and interrupted:
                self.breaker.ended(self, now_ms, failed=True)
            self.note(TotalTimeout(error.what), self.record.attempts, now_ms, error)
        if isinstance(result, ActionResult):
            return result
        if error is not None:
            code = self.errors[-1].code if self.errors else ActionCode.UNKNOWN
            return self.result(code, now_ms, phase="execute")
        binding = self.binding
        kept = keep(result, binding.spec.max_result_bytes if binding is not None else 0)
        return self.result(
            ActionCode.SUCCESS,
            now_ms,
            value=kept.value,
            size=kept.size,
            digest=kept.digest,
            truncated=kept.truncated,
        )

    def result(self, code: str, now_ms: int, *, phase: str = "return", **fields: Any) -> ActionResult:
        """A result of this call."""
        spec = None if self.binding is None else self.binding.spec
        call = self.call
        return ActionResult(
            code=code,
            action=call.action,
            trace_id=call.trace_id,
            sequence=call.sequence,
            idempotency_key=self.idempotency_key,
            attempts=self.record.attempts,
            errors=tuple(self.errors),
            phase=phase,
            version="" if spec is None else spec.version,
            spec="" if spec is None else spec.fingerprint,
            target="" if spec is None else spec.where,
            started_ms=self.record.started_ms or now_ms,
            finished_ms=now_ms,
            **fields,
        )


def _plain(detail: Any) -> Any:
    try:
        return to_plain(detail, allow_pickle=False)
    except Exception:  # noqa: BLE001 - a detail is for people; one without a JSON form is shown instead
        return repr(detail)


def no_external_actions(name: str, where: str) -> AgentDefinitionError:
    """The error of an agent that calls external actions and has none."""
    return AgentDefinitionError(
        f"ctx.call({name!r}) in an agent without external actions",
        where=where,
        fix="register them: agent.add_action_registry(registry), or agents_env.add_action_registry(registry)",
    )
