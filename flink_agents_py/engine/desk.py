"""The call desk: starts durable calls within the limits, and times their attempts, retries and sleeps (S8, S13).

Single-threaded like the engine: it hands work to the executor and hears of completions only when drained. All waiting
is a due time in a heap; the host sees the earliest one through :meth:`next_due_ms` and arms its timer for it.
"""

from __future__ import annotations

import functools
import heapq
import inspect
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flink_agents_py.engine.external_call import ExternalCall
from flink_agents_py.engine.journal import RAISED, RETURNED
from flink_agents_py.engine.outcome import encode_error, encode_result
from flink_agents_py.errors import CallTimeoutError, FlinkAgentsError
from flink_agents_py.external.codes import ActionCode
from flink_agents_py.policies import retry_after_of

if TYPE_CHECKING:
    from flink_agents_py.engine.calls import DurableCall
    from flink_agents_py.engine.external import ExternalActions
    from flink_agents_py.engine.ports import CallExecutor, Clock, RunObserver
    from flink_agents_py.engine.stats import Stats

_ATTEMPT, _TOTAL, _DUE = "attempt", "total", "due"


def is_async_function(func: Callable[..., Any]) -> bool:
    """Whether calling ``func`` gives a coroutine (functions, methods, partials and objects with async ``__call__``)."""
    while isinstance(func, functools.partial):
        func = func.func
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(getattr(func, "__call__", None))  # noqa: B004


class CallDesk:
    """Owner of all calls that have been started and have no outcome yet.

    Args:
        settled: told about each call that has got its outcome.
        changed: told about each call whose record changed without an outcome (an attempt was counted, a retry is due).
        deferred: attempts wait for :meth:`send`, so that what is noted of them can be written first.
        external: the external actions of the agent, whose calls go through lanes of their own.
    """

    def __init__(
        self,
        executor: CallExecutor,
        clock: Clock,
        stats: Stats,
        *,
        max_in_flight: int,
        max_result_bytes: int,
        settled: Callable[[DurableCall], None],
        changed: Callable[[DurableCall], None],
        deferred: bool = False,
        watch: RunObserver | None = None,
        external: ExternalActions | None = None,
    ) -> None:
        self._watch = watch
        self._external = external
        self._first_lane = 0
        self._executor = executor
        self._clock = clock
        self._stats = stats
        self._max_in_flight = max_in_flight
        self._max_result_bytes = max_result_bytes
        self._settled = settled
        self._changed = changed
        self._number = 0
        self._deferred = deferred
        self._unsent: list[DurableCall] = []
        # Attempt number -> (call, threaded). An attempt that timed out stays until its completion arrives: until
        # then it occupies its thread or connection, and that is what the limit is about.
        self._in_flight: dict[int, tuple[DurableCall, bool]] = {}
        self._threaded = 0
        self._waiting: deque[DurableCall] = deque()
        self._waiting_threaded: deque[DurableCall] = deque()
        self._timers: list[tuple[int, int, str, DurableCall, int]] = []
        self._timer_order = 0
        self._compact_at = 1024

    # --- for the engine ---------------------------------------------------------------------------------------------

    @property
    def load(self) -> int:
        """Calls in flight or waiting for a place."""
        return len(self._in_flight) + len(self._waiting) + len(self._waiting_threaded)

    @property
    def waiting(self) -> int:
        """Calls waiting for a place."""
        waiting = len(self._waiting) + len(self._waiting_threaded)
        return waiting if self._external is None else waiting + self._external.lanes.waiting

    @property
    def attempts_in_flight(self) -> Mapping[int, Any]:
        """The attempts in flight by number: always the same mapping, which changes."""
        return self._in_flight

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def call_in_flight(self, number: int) -> DurableCall:
        return self._in_flight[number][0]

    def start(self, call: DurableCall) -> None:
        """Make the call, or go on with one that a restart interrupted."""
        call.started = True
        record = call.record
        now = self._clock.now_ms()
        if record.started_ms == 0:
            record.started_ms = now
            if call.func is None:
                record.due_ms = now + round(call.args[0] * 1000)
            self._note(call)
        elif record.due_ms == 0 and record.attempts:
            # In flight when the last attempt of the job ended: it is made again, not used up. Until it is, the record
            # stays as it is; another restart must find it in flight as well.
            call.again = True
        total = call.timeouts.total
        if total is not None:
            self._push(record.started_ms + round(total * 1000), _TOTAL, call)
        if call.func is None or record.due_ms > now:
            self._push(record.due_ms, _DUE, call)
        else:
            self._enqueue(call)

    def send(self) -> None:
        """Hand over the attempts that were deferred."""
        unsent, self._unsent = self._unsent, []
        for call in unsent:
            self._submit(call)

    def drain(self) -> int:
        """Take in completions and due times; tells the engine about every call that got its outcome.

        Returns:
            how many attempts have completed.
        """
        completions = self._executor.completions()
        for number, error, result in completions:
            entry = self._in_flight.pop(number, None)
            if entry is None:
                continue
            call, threaded = entry
            if threaded:
                self._threaded -= 1
            if isinstance(call, ExternalCall) and call.lane is not None:
                call.lane.ended()
            if call.number == number:
                call.number = 0
                if not call.done:
                    self._attempt_ended(call, error, result)
        if self._timers:
            self._fire(self._clock.now_ms())
        if self._waiting or self._waiting_threaded or self._external is not None:
            self._launch_waiting()
        return len(completions)

    def next_due_ms(self) -> int | None:
        """When the earliest timeout, retry or sleep is due; ``None`` if nothing is timed."""
        while self._timers and self._timers[0][3].done:
            heapq.heappop(self._timers)
        due = self._timers[0][0] if self._timers else None
        if self._external is not None and len(self._in_flight) < self._max_in_flight:
            turn = self._external.lanes.next_due_ms()
            if turn is not None and (due is None or turn < due):
                return turn
        return due

    def cancel(self, call: DurableCall) -> None:
        """Give up a call nobody waits for any more; no attempt is made after this."""
        if not call.done:
            call.done = True
            self._give_up_attempt(call)
            if self._external is not None and isinstance(call, ExternalCall):
                self._external.cancelled(call)

    def answer(self, call: ExternalCall, result: Any) -> None:
        """Give a call its outcome while its action makes it: nobody waits for it yet."""
        self._record(call, None, result)
        self._note(call)
        if self._external is not None:
            self._external.settled(call)

    def settle(self, call: ExternalCall, result: Any) -> None:
        """Give a call that has been started its outcome."""
        self._settle(call, None, result)

    def call_now(self, call: DurableCall) -> None:
        """Make the call on this very thread (``ctx.durable_execute``)."""
        call.started = True
        record = call.record
        record.started_ms = record.started_ms or self._clock.now_ms()
        record.attempts += 1
        self._stats.attempts += 1
        if self._watch is not None:
            self._watch.call_attempted(call)
        try:
            result = call.func(*call.args, **call.kwargs)  # type: ignore[misc]
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError(
                    f"ctx.durable_execute was given the coroutine function {record.function}; "
                    "write: await ctx.durable_execute_async(...)"
                )
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self._record(call, error, None)
        else:
            self._record(call, None, result)

    # --- attempts ---------------------------------------------------------------------------------------------------

    def _enqueue(self, call: DurableCall) -> None:
        if self._external is not None and isinstance(call, ExternalCall):
            self._external.enqueue(call)
        else:
            threaded = not is_async_function(call.func)  # type: ignore[arg-type]
            (self._waiting_threaded if threaded else self._waiting).append(call)
        self._launch_waiting()

    def _launch_waiting(self) -> None:
        waiting, threaded = self._waiting, self._waiting_threaded
        while waiting and len(self._in_flight) < self._max_in_flight:
            self._launch(waiting.popleft(), threaded=False)
        while threaded and len(self._in_flight) < self._max_in_flight and self._threaded < self._executor.threads:
            self._launch(threaded.popleft(), threaded=True)
        if self._external is not None:
            self._launch_external(self._external)

    def _launch_external(self, external: ExternalActions) -> None:
        """Make the calls whose turn it is; another lane is first each time, so that none starves the others."""
        now = self._clock.now_ms()
        lanes = external.lanes.all()
        self._first_lane += 1
        for number in range(len(lanes)):
            lane = lanes[(self._first_lane + number) % len(lanes)]
            while len(self._in_flight) < self._max_in_flight:
                call = lane.first(now)
                if call is None:
                    break
                threaded = call.binding is not None and not call.binding.is_async
                if threaded and self._threaded >= self._executor.threads:
                    break
                if call.breaker is not None and call.breaker.refuses(call, now):
                    external.refuse(call, ActionCode.CIRCUIT_OPEN, f"{call.breaker.failures} attempts in a row failed")
                    continue
                self._launch(call, threaded=threaded)
                if call.number:
                    lane.began(call, now)
                    if call.graced:
                        external.graced.append(call)

    def _launch(self, call: DurableCall, *, threaded: bool) -> None:
        if call.done:
            return  # timed out or cancelled while it waited for its place
        total = call.timeouts.total
        if total is not None and call.record.started_ms + round(total * 1000) <= self._clock.now_ms():
            self._timed_out(call, "total", total)  # overdue, but its timer is not the first to be looked at
            return
        self._number += 1
        number = self._number
        call.number = number
        if call.again:
            call.again = False
        else:
            call.record.attempts += 1
        call.record.due_ms = 0
        self._note(call)
        if isinstance(call, ExternalCall):
            call.launching(self._clock.now_ms())
        self._stats.attempts += 1
        if self._watch is not None:
            self._watch.call_attempted(call)
        self._in_flight[number] = (call, threaded)
        self._threaded += threaded
        self._stats.in_flight_max = max(self._stats.in_flight_max, len(self._in_flight))
        if call.timeouts.attempt is not None:
            self._push(self._clock.now_ms() + round(call.timeouts.attempt * 1000), _ATTEMPT, call, number)
        if self._deferred:
            self._unsent.append(call)
        else:
            self._submit(call)

    def _submit(self, call: DurableCall) -> None:
        threaded = self._in_flight[call.number][1]
        self._executor.submit(call.number, call.func, call.args, call.kwargs, threaded=threaded)  # type: ignore[arg-type]

    def _attempt_ended(self, call: DurableCall, error: BaseException | None, result: Any) -> None:
        if isinstance(call, ExternalCall):
            error = call.attempt_ended(error, self._clock.now_ms())
        if error is not None and call.record.attempts < call.retry.max_attempts and call.retries(error):
            delay = call.retry.delay_s(call.record.attempts, call.idempotency_key, retry_after_of(error))
            due = self._clock.now_ms() + round(delay * 1000)
            total = call.timeouts.total
            # A retry that could only start after the deadline is none: report the error now, while it is still news.
            if total is None or due < call.record.started_ms + round(total * 1000):
                call.record.due_ms = due
                self._stats.retried(error)
                if self._watch is not None:
                    self._watch.call_retried(call, error, delay)
                self._note(call)
                self._push(due, _DUE, call)
                return
        self._settle(call, error, result)

    def _fire(self, now: int) -> None:
        # `self._timers` each time: what fires may push, and a push may replace the list.
        while self._timers and self._timers[0][0] <= now:
            _, _, kind, call, number = heapq.heappop(self._timers)
            if call.done:
                continue
            if kind is _DUE:
                if call.func is None:
                    self._settle(call, None, None)
                else:
                    self._enqueue(call)
            elif kind is _TOTAL:
                self._timed_out(call, "total", call.timeouts.total)
            elif call.number == number:
                self._timed_out(call, "attempt", call.timeouts.attempt)

    def _timed_out(self, call: DurableCall, kind: str, seconds: float | None) -> None:
        self._stats.timeouts += 1
        self._give_up_attempt(call)
        error = CallTimeoutError(
            f"the durable call {call.record.function} did not finish within its {kind} timeout of {seconds:g} s "
            f"({call.record.attempts} attempt(s) made)",
            where=call.task.place(),
            fix="raise the timeout, or give the call a retry policy",
        )
        if kind == "attempt":
            self._attempt_ended(call, error, None)
        else:
            self._settle(call, error, None)

    def _give_up_attempt(self, call: DurableCall) -> None:
        number, call.number = call.number, 0
        if not number:
            return
        if call in self._unsent:  # it was never handed over, so no completion will give its place back
            self._unsent.remove(call)
            _, threaded = self._in_flight.pop(number)
            self._threaded -= threaded
            if isinstance(call, ExternalCall) and call.lane is not None:
                call.lane.ended()
        else:
            self._executor.cancel(number)

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def _settle(self, call: DurableCall, error: BaseException | None, result: Any) -> None:
        if isinstance(call, ExternalCall):
            error, result = None, call.outcome(error, result, self._clock.now_ms())
        self._record(call, error, result)
        if self._external is not None and isinstance(call, ExternalCall):
            self._external.settled(call)
        self._settled(call)

    def _record(self, call: DurableCall, error: BaseException | None, result: Any) -> None:
        record = call.record
        if error is None:
            try:
                record.payload = encode_result(result, self._max_result_bytes, record.function)
            except FlinkAgentsError as refused:
                error = refused
            else:
                record.status = RETURNED
                call.value = result
        if error is not None:
            record.payload, call.error = encode_error(error)
            record.status = RAISED
        call.done = True
        if self._watch is not None:
            self._watch.call_ended(call, replayed=False)
        if call.task.journal is not None:
            call.task.journal.changed(call.ordinal)

    def _note(self, call: DurableCall) -> None:
        if call.task.journal is not None:
            call.task.journal.changed(call.ordinal)
        self._changed(call)

    def _push(self, due_ms: int, kind: str, call: DurableCall, number: int = 0) -> None:
        self._timer_order += 1
        heapq.heappush(self._timers, (due_ms, self._timer_order, kind, call, number))
        if len(self._timers) > self._compact_at:
            # Timeouts of calls that are done long since would otherwise keep their runs in memory until they are due.
            self._timers = [timer for timer in self._timers if not timer[3].done]
            heapq.heapify(self._timers)
            self._compact_at = max(1024, 2 * len(self._timers))
