"""An action task: one action handling one event, and the context the action sees while it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from hashlib import blake2b
from threading import get_ident
from typing import TYPE_CHECKING, Any

from flink_agents_py.context import RunnerContext
from flink_agents_py.engine.called_agent import AgentCall
from flink_agents_py.engine.calls import DurableCall, Gathering, Suspension
from flink_agents_py.engine.external_call import ExternalCall, no_external_actions
from flink_agents_py.engine.journal import (
    PENDING,
    RAISED,
    CallRecord,
    Journal,
    arguments_digest,
    function_id,
    takes_idempotency_key,
)
from flink_agents_py.engine.outcome import decode_error
from flink_agents_py.errors import AwaitError, EncodeError, WrongThreadError
from flink_agents_py.events import Event, encode_event
from flink_agents_py.policies import NO_RETRY, NO_TIMEOUTS, RetryPolicy, Timeouts
from flink_agents_py.serde import decode
from flink_agents_py.serde.text import quote

if TYPE_CHECKING:
    from flink_agents_py.config import AgentConfiguration
    from flink_agents_py.engine.engine import Engine
    from flink_agents_py.engine.memory import TaskMemory
    from flink_agents_py.engine.routes import Route
    from flink_agents_py.engine.run import Run
    from flink_agents_py.external.records import ActionResult
    from flink_agents_py.long_term import LongTermMemory
    from flink_agents_py.memory import MemoryObject
    from flink_agents_py.metrics import MetricGroup
    from flink_agents_py.resources.base import ResourceType

SLEEP = "ctx.sleep"


class ActionTask(RunnerContext):
    """Task and context in one object: the hot path allocates it once per action execution.

    Effects collect in ``sent``, ``side_outputs`` and the task's memory views; the engine applies them when the action
    has finished (S3).
    """

    __slots__ = (
        "_claims",
        "_engine",
        "_sensory",
        "_short_term",
        "calls",
        "closed",
        "coroutine",
        "event",
        "journal",
        "observed",  # set and read by the observer alone, where there is one
        "route",
        "run",
        "sent",
        "side_outputs",
        "waiting_on",
    )

    observed: Any

    def __init__(self, engine: Engine, run: Run, route: Route, event: Event, journal: Journal | None = None) -> None:
        self._engine = engine
        self.run = run
        self.route = route
        self.event = event
        self.sent: list[Event] = []
        self.side_outputs: list[tuple[str, Any]] | None = None
        self.journal = journal
        self.calls: list[DurableCall] | None = None
        self.coroutine: Coroutine[Any, Any, Any] | None = None
        self.waiting_on: Suspension | None = None
        self.closed = False
        self._claims = 0
        self._short_term: TaskMemory | None = None
        self._sensory: TaskMemory | None = None

    # --- the run ----------------------------------------------------------------------------------------------------

    @property
    def key(self) -> Any:
        return self.run.key

    @property
    def timestamp(self) -> int | None:
        return self.run.timestamp

    @property
    def watermark(self) -> int | None:
        return self.run.watermark

    @property
    def sequence(self) -> int:
        return self.run.sequence

    @property
    def plan_version(self) -> str:
        return self.route.version.digest

    # --- configuration ----------------------------------------------------------------------------------------------

    @property
    def config(self) -> AgentConfiguration:
        return self._engine.config

    @property
    def action_config(self) -> dict[str, Any]:
        return self.route.config

    def get_action_config_value(self, key: str) -> Any:
        return self.route.config.get(key)

    def get_resource(self, name: str, type: ResourceType) -> Any:
        return self.route.version.plan.get_resource(name, type)

    # --- memory -----------------------------------------------------------------------------------------------------

    @property
    def short_term_memory(self) -> MemoryObject:
        memory = self._short_term
        if memory is None:
            self._check()
            memory = self._short_term = self.run.short_term.begin(self._check)
        return memory.opened or memory.root

    @property
    def sensory_memory(self) -> MemoryObject:
        memory = self._sensory
        if memory is None:
            self._check()
            memory = self._sensory = self.run.sensory.begin(self._check)
        return memory.opened or memory.root

    @property
    def long_term_memory(self) -> LongTermMemory:
        self._check()
        return self._engine.long_term_memory(self)

    def memories(self) -> tuple[TaskMemory | None, TaskMemory | None]:
        """Sensory and short-term memory, as far as the action has used them."""
        return self._sensory, self._short_term

    def commit_memory(self) -> None:
        if self._short_term is not None:
            self._short_term.commit()
            self._short_term = None  # it knows `_check`, and thereby this task: a cycle
        if self._sensory is not None:
            self._sensory.commit()
            self._sensory = None

    # --- what others can see ----------------------------------------------------------------------------------------

    @property
    def agent_metric_group(self) -> MetricGroup:
        return self._engine.metrics

    @property
    def action_metric_group(self) -> MetricGroup:
        return self._engine.metrics.get_sub_group("action", self.route.name)

    @property
    def replaying(self) -> bool:
        calls = self.calls
        return calls is not None and bool(calls) and calls[-1].done and not calls[-1].started

    def observe(self, kind: str, **fields: Any) -> None:
        if self._engine.watch is not None:
            self._engine.watch.noted(self, kind, fields)

    # --- effects ----------------------------------------------------------------------------------------------------

    def send_event(self, event: Event) -> None:
        if self.closed or self._engine.thread != get_ident():
            self._check()
        if not isinstance(event, Event):
            raise TypeError(f"send_event takes an Event, got {type(event).__name__}; wrap a result in OutputEvent(...)")
        values = event.__dict__
        origin = values.get("_origin")
        if "_sent" in values or (origin is not None and origin[0] is not self.event):
            # Sent before, or received from elsewhere and passed on: a new occurrence, with an id of its own.
            event = event.model_copy()
            values = event.__dict__
            for name in ("_id", "_origin", "_lineage", "_encoded", "_sent"):
                values.pop(name, None)
            origin = None
        if origin is None:
            ordinal = self._claims
            self._claims = ordinal + 1
            values["_origin"] = (self.event, self.route.name, ordinal)
        values["_sent"] = True
        self.sent.append(event)

    def claim(self, event: Event) -> None:
        """Give an event its place before it is sent, because somebody reads its id (see ``events.IdSource``)."""
        event.__dict__["_origin"] = (self.event, self.route.name, self._claims)
        self._claims += 1

    def side_output(self, tag: str, value: Any) -> None:
        self._check()
        if self.side_outputs is None:
            self.side_outputs = []
        self.side_outputs.append((tag, value))

    # --- durable calls ----------------------------------------------------------------------------------------------

    def durable_execute(
        self,
        func: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        reconciler: Callable[[], Any] | None = None,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> Any:
        call = self._new_call(func, args, kwargs, name, NO_TIMEOUTS, NO_RETRY, reconciler, idempotency_key)
        call.awaited = True
        if not call.done:
            self._engine.call_now(call)
        if call.error is not None:
            raise call.error
        return call.value

    def durable_execute_async(
        self,
        func: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        timeouts: Timeouts | float | None = None,
        retry: RetryPolicy | None = None,
        reconciler: Callable[[], Any] | None = None,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> Awaitable[Any]:
        limits = self.route.timeouts if timeouts is None else Timeouts.model_validate(timeouts)
        policy = self.route.retry if retry is None else retry
        return self._new_call(func, args, kwargs, name, limits, policy, reconciler, idempotency_key)

    def gather(self, *calls: Awaitable[Any], return_exceptions: bool = False) -> Awaitable[list[Any]]:
        self._check()
        own = tuple(call for call in calls if isinstance(call, DurableCall) and call.task is self)
        if len(own) != len(calls):
            wrong = next(call for call in calls if not (isinstance(call, DurableCall) and call.task is self))
            if isinstance(wrong, Coroutine):
                wrong.close()  # it will never run; Python's own "never awaited" warning would only distract
            raise AwaitError(
                f"ctx.gather cannot wait for {describe_awaitable(wrong)}",
                where=self.place(),
                fix="pass the durable calls themselves: "
                "ctx.gather(ctx.durable_execute_async(f, x), ctx.durable_execute_async(g, y))",
            )
        return Gathering(self, own, return_exceptions=return_exceptions)

    def call(
        self, name: str, params: Any = None, *, trace_id: str | None = None, sequence: int = 0
    ) -> Awaitable[ActionResult]:
        self._check()
        external = self._engine.external
        if external is None:
            raise no_external_actions(name, self.place())
        return external.call(self, name, params, trace_id, sequence)

    def call_agent(self, name: str, value: Any = None) -> Awaitable[list[Any]]:
        self._check()
        return AgentCall(self, self, self.route.version.agent(name), name).run(value)

    def sleep(self, seconds: float) -> Awaitable[None]:
        self._check()
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"ctx.sleep takes a finite number of seconds from 0 on, got {seconds!r}")
        call = self.claim_call(SLEEP, arguments_digest((float(seconds),), {}))
        call.args = (seconds,)
        return call

    def _new_call(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None,
        timeouts: Timeouts,
        retry: RetryPolicy,
        reconciler: Callable[[], Any] | None,
        idempotency_key: str | None,
    ) -> DurableCall:
        self._check()
        if not callable(func):
            raise TypeError(
                f"a durable call takes a function and its arguments, not {_what_was_given(func)}: "
                "ctx.durable_execute_async(func, arg), not ctx.durable_execute_async(func(arg))"
            )
        identity = name or function_id(func)
        try:
            digest = arguments_digest(args, kwargs)
        except EncodeError as error:
            raise EncodeError(
                f"an argument of the durable call {identity} has no stable identity: {error.what}",
                where=f"{self.place()}, {error.where}",
                fix="pass plain data, dataclasses or pydantic models; bring clients and other objects in through a "
                "closure, functools.partial or a bound method",
            ) from None
        call = self.claim_call(identity, digest, timeouts, retry, idempotency_key)
        if call.done:
            return call
        recovered = self.journal is not None and call.ordinal < self.journal.recovered
        if recovered and reconciler is not None:
            # The call was in flight when the previous attempt ended: ask what became of it instead of repeating it.
            call.func, call.args, call.kwargs, call.retry = reconciler, (), {}, NO_RETRY
            self._engine.stats.reconciled += 1
            return call
        call.func, call.args = func, args
        call.kwargs = {**kwargs, "idempotency_key": call.idempotency_key} if takes_idempotency_key(func) else kwargs
        return call

    def claim_call(
        self,
        function: str,
        digest: str,
        timeouts: Timeouts = NO_TIMEOUTS,
        retry: RetryPolicy = NO_RETRY,
        idempotency_key: str | None = None,
        make: Callable[[int, CallRecord, str], ExternalCall] | None = None,
    ) -> DurableCall:
        """The next call of the action: its place in the journal, and its outcome if that knows it."""
        journal = self.journal
        if journal is None:
            journal = self.journal = Journal()
            self.calls = []
        ordinal, record, recorded, mismatch = journal.claim(
            function, digest, on_mismatch_fail=self._engine.fail_on_mismatch
        )
        if mismatch:
            self._engine.report_mismatch(self, ordinal, function, digest)
        key = idempotency_key or self._idempotency_key(ordinal, record.generation)
        call = (
            DurableCall(self, ordinal, record, None, (), {}, timeouts, retry, key)
            if make is None
            else make(ordinal, record, key)
        )
        if recorded and record.status != PENDING:
            call.done = True
            self._engine.stats.journal_hits += 1
            if record.status == RAISED:
                call.error = decode_error(record.payload)
            else:
                call.value = decode(record.payload)
            if self._engine.watch is not None:
                self._engine.watch.call_ended(call, replayed=True)
        else:
            self._engine.stats.journal_misses += 1
        if self.calls is None:
            self.calls = []
        self.calls.append(call)
        return call

    def _idempotency_key(self, ordinal: int, generation: int) -> str:
        """S7: the event id already stands for job identifier, key, sequence and event path."""
        name = self.route.name.encode()
        return blake2b(
            b"%bcall%d:%b%d:%d" % (self.event.id_bytes, len(name), name, ordinal, generation), digest_size=16
        ).hexdigest()

    # --- for the engine ---------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._engine.thread != get_ident():
            raise WrongThreadError(
                "the context was used outside of the operator thread",
                where=self.place(),
                fix="read memory and build the arguments before the durable call; write memory and send events with "
                "its result afterwards",
            )
        if self.closed:
            raise WrongThreadError(
                "the context was used after its action had finished",
                where=self.place(),
                fix="do not keep ctx; each action gets its own",
            )

    def check(self) -> None:
        """Refuse what is done outside of the operator thread, or after the action has finished.

        Raises:
            WrongThreadError: it is.
        """
        self._check()

    def abandon(self) -> None:
        """End it without a trace: what its ``finally`` blocks do now must not reach the context."""
        self.closed = True
        if self.coroutine is not None:
            with suppress(Exception):  # one that awaits in `finally` says so by RuntimeError
                self.coroutine.close()

    def place(self) -> str:
        """Where this task is, for messages."""
        return (
            f"agent {self._engine.plan.agent_name}, action {self.route.name}, key {self.run.key!r}, "
            f"sequence {self.run.sequence}, event {self.event.type}"
        )

    def to_json(self) -> str:
        """The task inside the run's record: action, event, journal."""
        journal = "[]" if self.journal is None else self.journal.to_json()
        return f"[{quote(self.route.name)},{encode_event(self.event)},{journal}]"


def _what_was_given(thing: Any) -> str:
    if isinstance(thing, Coroutine):
        thing.close()  # it will never run; Python's own "never awaited" warning would only distract
        return f"{describe_awaitable(thing)}, which is the result of calling one"
    return f"the value {thing!r}"


def describe_awaitable(thing: Any) -> str:
    """A foreign awaitable in words a user recognises."""
    if isinstance(thing, Coroutine):
        return f"the coroutine {getattr(thing, '__qualname__', type(thing).__name__)}()"
    return f"a {type(thing).__module__}.{type(thing).__qualname__}"
