"""External actions in the engine: the four phases of a call, and what it leaves behind.

1. *validate*: structure, registry, schema; nothing external is touched by a call that fails here;
2. *idempotency*: a success that is remembered under the same content is returned; an equal call that is in flight under
   the key is waited for;
3. *execute*: through the lane of the action, as a durable call: journaled, retried on timers, resumed after a restart;
4. *return*: an :class:`ActionResult`, recorded as the outcome of the durable call. When the action that made it has
   finished, results, dead letters and audit leave by side outputs, and failures come back as events (S3).

Successes and audit are written to keyed state in the callback in which the outcome arrives, with the journal's record.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.external_call import ExternalCall
from flink_agents_py.engine.external_state import ExternalState
from flink_agents_py.engine.journal import arguments_digest
from flink_agents_py.engine.keys import token_of
from flink_agents_py.engine.lanes import Lanes
from flink_agents_py.errors import EncodeError
from flink_agents_py.external.codes import ActionCode
from flink_agents_py.external.events import ActionFailedEvent
from flink_agents_py.external.failures import ActionError
from flink_agents_py.external.handler import Shared
from flink_agents_py.external.records import ActionCall, ActionResult, FailedAction
from flink_agents_py.external.tags import ACTION_AUDIT, ACTION_RESULTS, DEAD_LETTERS
from flink_agents_py.serde import to_plain

if TYPE_CHECKING:
    from flink_agents_py.engine.desk import CallDesk
    from flink_agents_py.engine.engine import Engine
    from flink_agents_py.engine.journal import CallRecord
    from flink_agents_py.engine.ports import KeyedState, Timers
    from flink_agents_py.engine.run import Run
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.external.bindings import Bindings

log = logging.getLogger("flink_agents_py.external")


class ExternalActions:
    """One per engine whose plan has external actions.

    Args:
        parallelism: subtasks of the operator, for limits that are divided among them.
        paced: whether calls take time by the clock on the wall; see :class:`~flink_agents_py.engine.lanes.Lanes`.
    """

    desk: CallDesk

    def __init__(
        self,
        engine: Engine,
        bindings: Bindings,
        state: KeyedState,
        timers: Timers,
        *,
        parallelism: int,
        paced: bool,
    ) -> None:
        self.bindings = bindings
        self.lanes = Lanes(parallelism, paced=paced)
        self.shared = Shared()
        limit = engine.config.get(AgentOptions.EXTERNAL_AUDIT_SIZE)
        self.state = ExternalState(state.idem, state.audit, engine.clock, timers, limit)
        self.graced: list[ExternalCall] = []
        """Calls begun in this callback that it may wait for a moment."""
        self._engine = engine
        self._clock = engine.clock
        self._metrics = engine.metrics.get_sub_group("external")
        self._leaders: dict[tuple[Any, str], ExternalCall] = {}
        self._unwritten: dict[Run, list[tuple[dict[str, Any], ActionResult | None]]] = {}

    # --- phases 1 and 2, when the action makes the call -------------------------------------------------------------

    def call(self, task: ActionTask, name: Any, params: Any, trace_id: str | None, sequence: int) -> ExternalCall:
        """Make a call of an action; it has its outcome already if it is refused, remembered or in the journal."""
        now = self._clock.now_ms()
        if isinstance(params, BaseModel):
            params = params.model_dump(mode="json")
        call = ActionCall(
            task.run.id_bytes.hex() if trace_id is None else trace_id, name, {} if params is None else params, sequence
        )
        binding = self.bindings.get(name, now) if isinstance(name, str) else None
        problem = call.problem()
        key, digest = "", "unencodable"
        try:
            digest = arguments_digest((name, call.params, call.trace_id, sequence), {})
            if problem is None:
                key = call.idempotency_key
                call = dataclasses.replace(call, params=copy.deepcopy(call.params))  # the action may go on with its own
        except EncodeError as error:
            problem = problem or f"params have no stable form: {error.what}"

        def make(ordinal: int, record: CallRecord, call_id: str) -> ExternalCall:
            return ExternalCall(task, ordinal, record, call, binding, key, call_id)

        made = task.claim_call(f"ctx.call:{name}", digest, make=make)
        assert isinstance(made, ExternalCall)
        if made.done:
            self._replayed(made)
            return made
        record = made.record
        made.recovered = record.started_ms != 0
        if binding is None and problem is None:
            known = ", ".join(sorted(self.bindings.names())) or "none"
            self._refuse(made, ActionCode.UNKNOWN_ACTION, f"there is no external action {name!r}; there are: {known}")
            return made
        if not made.recovered:
            if problem is None and binding is not None:
                problem = binding.check(call.params)
            if problem is not None:
                self._refuse(made, ActionCode.INVALID_CALL, problem)
                return made
        if binding is None:
            raise AssertionError("refused above")
        spec = binding.spec
        if spec.idempotency_ttl_s > 0:
            earlier = self._remembered(task.run, key)
            if earlier is not None:
                again = dataclasses.replace(earlier, deduplicated=True, sequence=sequence, phase="idempotency")
                self.desk.answer(made, again)
                return made
        reconcile = made.recovered and record.attempts > 0 and record.due_ms == 0 and binding.reconcile is not None
        if reconcile:
            self._engine.stats.reconciled += 1
        made.prepare(self.lanes.of(spec), self.lanes.breaker(spec), self.shared, reconcile=reconcile)
        return made

    def _refuse(self, call: ExternalCall, code: str, message: str) -> None:
        now = self._clock.now_ms()
        error = ActionError(message)
        error.code = code  # type: ignore[misc]  # of this one
        call.note(error, 0, now)
        self.desk.answer(call, call.result(code, now, phase="execute" if call.recovered else "validate"))

    def _remembered(self, run: Run, key: str) -> ActionResult | None:
        for _, result in self._unwritten.get(run, ()):
            if result is not None and result.idempotency_key == key:
                return result
        return self.state.recall(key)

    # --- phase 3, for the desk --------------------------------------------------------------------------------------

    def enqueue(self, call: ExternalCall) -> None:
        """The call is to be made, for the first time or again: it goes to its lane, or behind an equal one."""
        lane = call.lane
        if lane is None or call.binding is None:
            raise AssertionError("not prepared")
        if not call.queued:
            call.queued = True
            if call.binding.spec.idempotency_ttl_s > 0:
                deed = (token_of(call.task.run.key), call.idempotency_key)
                leader = self._leaders.setdefault(deed, call)
                if leader is not call and not leader.done:
                    leader.followers.append(call)
                    return
                self._leaders[deed] = call
            if lane.full and not call.recovered:
                self.refuse(call, ActionCode.QUEUE_FULL, f"{lane.waiting} calls of {call.call.action} wait already")
                return
        lane.add(call)

    def refuse(self, call: ExternalCall, code: str, message: str) -> None:
        """End a call that waits for its turn."""
        now = self._clock.now_ms()
        error = ActionError(message)
        error.code = code  # type: ignore[misc]  # of this one
        call.note(error, 0, now)
        self.desk.settle(call, call.result(code, now, phase="execute"))

    def grace_s(self) -> float:
        """Seconds the callback may wait for the calls it has begun."""
        return max((call.binding.spec.grace_wait_ms for call in self.graced if call.binding), default=0) / 1000

    def awaits_graced(self) -> bool:
        """Whether one of them is still in flight."""
        return any(call.number for call in self.graced)

    def settled(self, call: ExternalCall) -> None:
        """The call has its outcome: note it, and give it to those that wait for the same deed."""
        if call.lane is not None:
            call.lane.forget(call)
        self._release(call)
        result = call.value
        if not isinstance(result, ActionResult):
            return  # it could not be recorded; the action is told by an exception
        self._count(call, result)
        self._note(call, result)
        followers, call.followers = call.followers, []
        for follower in followers:
            if not follower.done:
                shared = dataclasses.replace(result, deduplicated=True, sequence=follower.call.sequence)
                self.desk.settle(follower, shared)

    def cancelled(self, call: ExternalCall) -> None:
        """Nobody waits for the call any more; the first of those that wait for the same deed does it instead."""
        if call.lane is not None:
            call.lane.forget(call)
        self._release(call)
        followers = [follower for follower in call.followers if not follower.done]
        call.followers = []
        if followers and followers[0].lane is not None:
            leader, *leader.followers = followers
            self._leaders[token_of(leader.task.run.key), leader.idempotency_key] = leader
            if leader.lane is not None:
                leader.lane.add(leader)

    def _release(self, call: ExternalCall) -> None:
        deed = (token_of(call.task.run.key), call.idempotency_key)
        if self._leaders.get(deed) is call:
            del self._leaders[deed]

    # --- phase 4 ----------------------------------------------------------------------------------------------------

    def outputs_of(self, task: ActionTask) -> list[tuple[str, Any]]:
        """What the calls of an action leave by side outputs."""
        outputs: list[tuple[str, Any]] = []
        for call in task.calls or ():
            if isinstance(call, ExternalCall) and call.done and isinstance(call.value, ActionResult):
                result = call.value
                outputs.append((ACTION_RESULTS, result.to_plain()))
                outputs.append((ACTION_AUDIT, self._audit_record(call, result)))
                if not result.ok and not result.deduplicated:
                    outputs.append((DEAD_LETTERS, self._failed(call, result).to_plain()))
        return outputs

    def finish(self, task: ActionTask) -> None:
        """The action is about to finish: its calls' outputs and events become part of its effects."""
        for tag, value in self.outputs_of(task):
            task.side_output(tag, value)
        if task.route.version.hears_failures:
            for call in task.calls or ():
                if isinstance(call, ExternalCall) and call.done and isinstance(call.value, ActionResult):
                    result = call.value
                    if not result.ok and not result.deduplicated:
                        task.send_event(ActionFailedEvent(self._failed(call, result)))

    def recalled(self, task: ActionTask) -> None:
        """The action had finished in an earlier attempt, after the checkpoint: keyed state does not know its calls."""
        outputs = task.side_outputs or []
        results = {
            value["idempotency_key"]: ActionResult.from_plain(value, allow_pickle=True)
            for tag, value in outputs
            if tag == ACTION_RESULTS and value["code"] == ActionCode.SUCCESS
        }
        for tag, record in outputs:
            if tag == ACTION_AUDIT and not self._audited(record["call_id"]):
                self._write(task.run, record, results.get(record["idempotency_key"]))

    def flush(self, run: Run) -> None:
        """Write what has gathered; the key scope must be the run's."""
        unwritten = self._unwritten.pop(run, None)
        for record, result in unwritten or ():
            self.state.audit(record)
            if result is not None and record["expires_ms"]:
                self.state.remember(
                    token_of(run.key), result.idempotency_key, result.to_plain(), int(record["expires_ms"])
                )

    def _replayed(self, call: ExternalCall) -> None:
        # A store may know an outcome that keyed state was rolled back behind. Without one they agree.
        if (
            self._engine.recorder is not None
            and isinstance(call.value, ActionResult)
            and not self._audited(call.call_id)
        ):
            self._note(call, call.value)

    def _audited(self, call_id: str) -> bool:
        return any(record["call_id"] == call_id for record in self.state.audited())

    def _note(self, call: ExternalCall, result: ActionResult) -> None:
        self._write(call.task.run, self._audit_record(call, result), result if result.ok else None)

    def _write(self, run: Run, record: dict[str, Any], result: ActionResult | None) -> None:
        keep = result if result is not None and not result.deduplicated else None
        self._unwritten.setdefault(run, []).append((record, keep))

    def _count(self, call: ExternalCall, result: ActionResult) -> None:
        self._metrics.get_counter("calls").inc()
        self._metrics.get_counter("deduplicated" if result.deduplicated else result.code).inc()
        if not result.ok and not result.deduplicated:
            log.warning(
                "external action %s failed: %s after %d attempt(s): %s (%s)",
                call.call.action,
                result.code,
                result.attempts,
                result.message,
                call.task.place(),
            )

    def _audit_record(self, call: ExternalCall, result: ActionResult) -> dict[str, Any]:
        ttl_s = 0.0 if call.binding is None else call.binding.spec.idempotency_ttl_s
        remembered = result.ok and not result.deduplicated and ttl_s > 0
        return {
            "call_id": call.call_id,
            "trace_id": result.trace_id,
            "action": result.action,
            "sequence": result.sequence,
            "target": result.target,
            "version": result.version,
            "spec": result.spec,
            "idempotency_key": result.idempotency_key,
            "code": result.code,
            "phase": result.phase,
            "attempts": result.attempts,
            "deduplicated": result.deduplicated,
            "size": result.size,
            "digest": result.digest,
            "truncated": result.truncated,
            "started_ms": result.started_ms,
            "finished_ms": result.finished_ms,
            "expires_ms": result.finished_ms + round(ttl_s * 1000) if remembered else 0,
            "agent": self._engine.plan.agent_name,
            "action_of": call.task.route.name,
            "run_sequence": call.task.run.sequence,
        }

    def _failed(self, call: ExternalCall, result: ActionResult) -> FailedAction:
        return FailedAction(
            call=ActionCall(call.call.trace_id, call.call.action, _plain_params(call.call.params), call.call.sequence),
            phase=result.phase,
            code=result.code,
            message=result.message,
            attempts=result.attempts,
            errors=result.errors,
            idempotency_key=result.idempotency_key,
            agent=self._engine.plan.agent_name,
            action_of=call.task.route.name,
            key=str(call.task.run.key),
            started_ms=result.started_ms,
            failed_ms=result.finished_ms,
            version=result.version,
            spec=result.spec,
            target=result.target,
        )


def _plain_params(params: Any) -> Any:
    """Parameters a dead letter can carry: those without an encoding are shown."""
    try:
        to_plain(params, allow_pickle=False)
    except EncodeError:
        return {"repr": repr(params)}
    return params
