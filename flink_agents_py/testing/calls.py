"""Durable calls under test control."""

from __future__ import annotations

import asyncio
import heapq
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flink_agents_py.engine.journal import function_id
from flink_agents_py.errors import CallCancelledError
from flink_agents_py.events import active

if TYPE_CHECKING:
    from flink_agents_py.engine.calls import DurableCall
    from flink_agents_py.engine.engine import Engine
    from flink_agents_py.engine.ports import Completion
    from flink_agents_py.testing.clock import VirtualClock


class PendingCall:
    """A durable call that has been started and has no outcome yet."""

    def __init__(self, executor: ManualExecutor, number: int, durable: DurableCall, *, threaded: bool) -> None:
        self._executor = executor
        self._record = durable.record
        self.number = number
        self.func: Callable[..., Any] = durable.func or print
        self.args = durable.args
        self.kwargs = durable.kwargs
        self.idempotency_key = durable.idempotency_key
        self.threaded = threaded
        self.cancelled = False
        """Whether the engine has given it up. A sync function goes on all the same, and may still be completed."""

    @property
    def name(self) -> str:
        """The function's own name, without module and enclosing scopes."""
        return function_id(self.func).rpartition(":")[2].rpartition(".")[2]

    @property
    def identity(self) -> str:
        """What a replay recognises the call by, beside its place: function and digest of its arguments."""
        return f"{self._record.function}:{self._record.arguments}"

    def complete(self, result: Any = None) -> None:
        """Let the call return ``result``; the agent goes on at once."""
        self._executor.finish(self, None, result)

    def fail(self, error: BaseException) -> None:
        """Let the call raise ``error``."""
        self._executor.finish(self, error, None)

    def run(self) -> None:
        """Call the function for real and deliver what it returns or raises."""
        error, result = self._executor.make(self)
        self._executor.finish(self, error, result)

    def __repr__(self) -> str:
        return f"<pending {self.name}{self.args!r}>"


class ManualExecutor:
    """An executor whose calls finish when the test says so, or after a virtual latency.

    Args:
        latency: seconds from the start of a call to its completion; the function itself is called at the start, as
            its effect in the outside world would be. ``None``: calls wait for the test.
        on_wait: called when the engine waits; must let something happen.
    """

    real_time = False

    def __init__(
        self,
        clock: VirtualClock,
        latency: Callable[[PendingCall], float] | None,
        threads: int,
        on_wait: Callable[[float], None],
        on_finish: Callable[[], None],
        before_call: Callable[[PendingCall], None] | None = None,
    ) -> None:
        self.threads = threads
        self.engine: Engine
        self.pending: dict[int, PendingCall] = {}
        self._clock = clock
        self._latency = latency
        self._on_wait = on_wait
        self._on_finish = on_finish
        self._before_call = before_call
        self.background_jobs: list[Callable[[Callable[[], bool]], None]] = []
        self._done: list[Completion] = []
        self._scheduled: list[tuple[int, int, Completion]] = []
        self._threaded: set[int] = set()

    # --- the engine's side ------------------------------------------------------------------------------------------

    def submit(
        self,
        number: int,
        func: Callable[..., Any],  # noqa: ARG002 - the durable call behind the number has all of it
        args: tuple[Any, ...],  # noqa: ARG002
        kwargs: dict[str, Any],  # noqa: ARG002
        *,
        threaded: bool,
    ) -> None:
        """Take a call: to keep for the test, or to make now and let its outcome arrive later."""
        call = PendingCall(self, number, self.engine.call_in_flight(number), threaded=threaded)
        if threaded:
            self._threaded.add(number)
        if self._latency is None:
            self.pending[number] = call
            return
        due = self._clock.now_ms() + round(self._latency(call) * 1000)
        error, result = self.make(call)
        heapq.heappush(self._scheduled, (due, number, (number, error, result)))

    def background(self, job: Callable[[Callable[[], bool]], None]) -> None:
        """Keep it for the test; where calls are made at once, so is this."""
        if self._latency is None:
            self.background_jobs.append(job)
        else:
            self._in_background(job)

    def run_background(self) -> None:
        """Run what was kept."""
        while self.background_jobs:
            self._in_background(self.background_jobs.pop(0))

    def _in_background(self, job: Callable[[Callable[[], bool]], None]) -> None:
        engine, source = self.engine, active.source
        thread = engine.thread
        engine.thread, active.source = 0, None
        try:
            job(lambda: False)
        finally:
            engine.thread, active.source = thread, source

    def cancel(self, number: int) -> None:
        """Cancel a coroutine; leave a sync function alone."""
        if number in self._threaded:
            if number in self.pending:
                self.pending[number].cancelled = True
            return  # as in the real executor: a thread holds its place until the function returns
        self._scheduled = [entry for entry in self._scheduled if entry[1] != number]
        heapq.heapify(self._scheduled)
        self.pending.pop(number, None)
        self._done.append((number, CallCancelledError("the call was cancelled"), None))

    def completions(self) -> list[Completion]:
        """What has finished since the last call."""
        now = self._clock.now_ms()
        while self._scheduled and self._scheduled[0][0] <= now:
            self._done.append(heapq.heappop(self._scheduled)[2])
        done, self._done = self._done, []
        return done

    def wait(self, timeout_s: float) -> None:
        """Let virtual time pass until something completes."""
        if not self._done:
            self._on_wait(timeout_s)

    # --- the test's side --------------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When the next virtual latency ends."""
        return self._scheduled[0][0] if self._scheduled else None

    def make(self, call: PendingCall) -> tuple[BaseException | None, Any]:
        """Call the function as a worker thread would: without the right to use the context."""
        engine, source = self.engine, active.source
        thread = engine.thread
        if self._before_call is not None:
            self._before_call(call)
        engine.thread, active.source = 0, None
        try:
            result = call.func(*call.args, **call.kwargs)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
        except Exception as error:  # noqa: BLE001 - the outcome of the call
            return error, None
        except SystemExit as error:
            return error, None
        else:
            return None, result
        finally:
            engine.thread, active.source = thread, source

    def call_now(self, durable: DurableCall) -> None:
        """A ``ctx.durable_execute``: the engine makes it itself, the ledger hears of it here."""
        if self._before_call is not None:
            self._before_call(PendingCall(self, 0, durable, threaded=True))

    def finish(self, call: PendingCall, error: BaseException | None, result: Any) -> None:
        """Give a call that waits for the test its outcome."""
        if self.pending.pop(call.number, None) is None:
            raise ValueError(f"{call!r} has finished already, was cancelled, or was lost in a crash")
        self._done.append((call.number, error, result))
        self._on_finish()
