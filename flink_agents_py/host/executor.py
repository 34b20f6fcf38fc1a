"""Runs durable calls: coroutines on the process's asyncio loop, sync functions on a pool of daemon threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from flink_agents_py.errors import CallCancelledError
from flink_agents_py.host import loop as shared_loop
from flink_agents_py.host.threads import DaemonPool

if TYPE_CHECKING:
    from flink_agents_py.engine.ports import Completion

_current: dict[Any, BackgroundExecutor] = {}
_registry = threading.Lock()


class BackgroundExecutor:
    """The executor of one subtask and attempt; see :class:`flink_agents_py.engine.ports.CallExecutor`.

    Args:
        threads: limit of threads for sync functions.
        owner: what there may be only one executor of at a time (job and subtask). Opening a second one closes the
            first: Flink does not call ``close()`` after a failure in thread mode, and the interpreter lives on (S15).
    """

    real_time = True

    def __init__(self, threads: int, owner: Any = None) -> None:
        self.threads = threads
        self._owner = owner
        self._done: deque[Completion] = deque()
        self._arrived = threading.Event()
        self._waiting = False
        self._closed = False
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()  # the loop itself only refers to tasks weakly
        self._pool: DaemonPool | None = None
        self._last: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._loop = shared_loop.acquire()
        if owner is not None:
            with _registry:
                earlier = _current.get(owner)
                _current[owner] = self
            if earlier is not None:
                earlier.close()

    def submit(
        self, number: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, threaded: bool
    ) -> None:
        if threaded:
            if self._pool is None:
                self._pool = DaemonPool(self.threads, "flink-agents-py-call")
            self._pool.submit(lambda: self._call(number, func, args, kwargs))
        else:
            self._loop.call(lambda: self._spawn(number, func, args, kwargs))

    def cancel(self, number: int) -> None:
        # A thread cannot be cancelled: its completion arrives when the function returns.
        self._loop.call(lambda: self._cancel(number))

    def background(self, job: Callable[[Callable[[], bool]], None]) -> None:
        # A thread of its own, not one of the pool's: those are for calls that somebody waits for.
        threading.Thread(
            target=job, args=(lambda: self._closed,), name="flink-agents-py-background", daemon=True
        ).start()

    def completions(self) -> list[Completion]:
        done = self._done
        taken = []
        while done:
            taken.append(done.popleft())
        return taken

    def wait(self, timeout_s: float) -> None:
        self._waiting = True
        try:
            if not self._done:
                self._arrived.wait(timeout_s)
        finally:
            self._waiting = False
            self._arrived.clear()

    def on_close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``last`` on the loop once everything else there was cancelled; nobody waits for it."""
        self._last.append(last)

    def close(self) -> None:
        """Cancel what runs on the loop, let the threads end, drop what still completes."""
        with _registry:
            if self._closed:
                return
            self._closed = True
            if _current.get(self._owner) is self:
                del _current[self._owner]
        finished = threading.Event()
        self._loop.call(lambda: self._cancel_all(finished))
        finished.wait(2)
        if self._pool is not None:
            self._pool.close()
        shared_loop.release()

    def close_after(self, user: object) -> None:
        """Close when ``user`` is garbage, in case nobody calls :meth:`close`.

        In thread mode Flink does not when a job fails for good or is cancelled, and no later attempt does it instead.
        """
        # On a thread of its own: garbage is collected anywhere, also where one of the locks needed here is held.
        closing = weakref.finalize(user, _close_in_background, self)
        closing.atexit = False

    # --- on the threads ---------------------------------------------------------------------------------------------

    def _complete(self, number: int, error: BaseException | None, result: Any) -> None:
        if not self._closed:
            self._done.append((number, error, result))
            if self._waiting:
                self._arrived.set()

    def _call(self, number: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._closed:
            return
        try:
            result = func(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a call is an outcome, not the end of the thread
            self._complete(number, error, None)
            return
        if not inspect.iscoroutine(result):
            self._complete(number, None, result)
        elif self._closed:
            result.close()  # the loop may be gone already
        else:
            # A sync function that returns a coroutine (a lambda, say): go on with it on the loop.
            coroutine = result
            self._loop.call(lambda: self._spawn_coroutine(number, coroutine))

    # --- on the loop ------------------------------------------------------------------------------------------------

    def _spawn(self, number: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            coroutine = func(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - wrong arguments, for one
            self._complete(number, error, None)
            return
        self._spawn_coroutine(number, coroutine)

    def _spawn_coroutine(self, number: int, coroutine: Coroutine[Any, Any, Any]) -> None:
        if self._closed:
            coroutine.close()
            return
        task = self._tasks[number] = self._loop.loop.create_task(self._run(number, coroutine))
        task.add_done_callback(lambda task: self._ended(number, coroutine, task))

    async def _run(self, number: int, coroutine: Coroutine[Any, Any, Any]) -> None:
        try:
            result = await coroutine
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit must not end the loop
            self._complete(number, error, None)
        else:
            self._complete(number, None, result)

    def _ended(self, number: int, coroutine: Coroutine[Any, Any, Any], task: asyncio.Task[None]) -> None:
        self._tasks.pop(number, None)
        if task.cancelled():  # perhaps before its first step: nothing inside it could tell
            coroutine.close()
            self._complete(number, CallCancelledError("the call was cancelled"), None)

    def _cancel(self, number: int) -> None:
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()

    def _cancel_all(self, finished: threading.Event) -> None:
        for task in list(self._tasks.values()):
            task.cancel()
        for last in self._last:
            closing = self._loop.loop.create_task(last())
            closing.add_done_callback(self._closing.discard)
            self._closing.add(closing)
        finished.set()


def _close_in_background(executor: BackgroundExecutor) -> None:
    threading.Thread(target=executor.close, name="flink-agents-py-close", daemon=True).start()
