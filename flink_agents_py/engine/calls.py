"""What an async action can await: a durable call, several of them, or a durable sleep.

Each of them suspends by yielding itself to the engine, which resumes the action when it is done. Whatever else an
action awaits arrives at the engine as a foreign object and is refused (see :mod:`flink_agents_py.engine.task`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from flink_agents_py.errors import AwaitError

if TYPE_CHECKING:
    from flink_agents_py.engine.journal import CallRecord
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.policies import RetryPolicy, Timeouts


class DurableCall:
    """One durable call of an action: its record, how to make it, and its outcome once there is one."""

    __slots__ = (
        "again",
        "args",
        "awaited",
        "done",
        "error",
        "func",
        "idempotency_key",
        "kwargs",
        "number",
        "ordinal",
        "record",
        "retry",
        "started",
        "task",
        "timeouts",
        "value",
    )

    def __init__(
        self,
        task: ActionTask,
        ordinal: int,
        record: CallRecord,
        func: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        timeouts: Timeouts,
        retry: RetryPolicy,
        idempotency_key: str,
    ) -> None:
        self.task = task
        self.ordinal = ordinal
        self.record = record
        self.func = func  # None: a sleep
        self.args = args
        self.kwargs = kwargs
        self.timeouts = timeouts
        self.retry = retry
        self.idempotency_key = idempotency_key
        self.number = 0  # of the attempt in flight; 0 = none
        self.started = False
        self.again = False  # whether the next attempt is the one that a restart interrupted
        self.awaited = False
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None

    def __await__(self) -> Generator[DurableCall, None, Any]:
        if self.awaited:
            raise AwaitError(
                f"the durable call {self.record.function} is awaited twice",
                where=self.task.place(),
                fix="keep its result in a variable, or make a second call",
            )
        self.awaited = True
        if not self.done:
            yield self
        if self.error is not None:
            raise self.error
        return self.value

    def retries(self, error: BaseException) -> bool:
        """Whether the error is worth another attempt."""
        return self.retry.retries(error)

    def __repr__(self) -> str:
        return f"<durable call {self.ordinal}: {self.record.function}>"


class Gathering:
    """Several durable calls awaited together."""

    __slots__ = ("calls", "return_exceptions", "task")

    def __init__(self, task: ActionTask, calls: tuple[DurableCall, ...], *, return_exceptions: bool) -> None:
        self.task = task
        self.calls = calls
        self.return_exceptions = return_exceptions

    @property
    def done(self) -> bool:
        return all(call.done for call in self.calls)

    def __await__(self) -> Generator[Gathering, None, list[Any]]:
        for call in self.calls:
            call.awaited = True
        if not self.done:
            yield self
        if not self.return_exceptions:
            for call in self.calls:
                if call.error is not None:
                    raise call.error
        return [call.value if call.error is None else call.error for call in self.calls]


Suspension = DurableCall | Gathering
