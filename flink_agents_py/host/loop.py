"""One background asyncio loop per process, shared by all subtasks in it.

Shared, so that asyncio clients with connection pools can be used from every durable call of the process. It starts
with the first user and stops when the last one has let go.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

_LOOK_S = 0.001
_IDLE_LOOKS = 5
_CLEANUP_S = 1

_lock = threading.Lock()
_shared: BackgroundLoop | None = None
_users = 0


class BackgroundLoop:
    """An asyncio loop on a daemon thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._todo: deque[Callable[[], None]] = deque()
        self._awake = False
        self._idle_looks = 0
        self._thread = threading.Thread(target=self._run, name="flink-agents-py-loop", daemon=True)
        self._thread.start()

    def call(self, job: Callable[[], None]) -> None:
        """Run ``job`` on the loop's thread.

        Waking a loop costs a system call and a change of threads, more than most jobs. So while jobs keep coming the
        loop looks for them every millisecond by itself, and only a sleeping one is woken.
        """
        self._todo.append(job)
        if not self._awake:
            self._awake = True
            self.loop.call_soon_threadsafe(self._work)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def _work(self) -> None:
        todo = self._todo
        self._idle_looks = 0 if todo else self._idle_looks + 1
        if self._idle_looks > _IDLE_LOOKS:
            # Before the last look: a job appended from here on wakes the loop again, so none is left lying.
            self._awake = False
            self._idle_looks = 0
        else:
            self.loop.call_later(_LOOK_S, self._work)
        while todo:
            todo.popleft()()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        # Clients close their connections in more than one step, and a second cancel would break into the first one's
        # cleanup: so wait for what the executors have cancelled, and only then cancel what nobody has.
        self._wait_for_tasks(_CLEANUP_S / 5)
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self._wait_for_tasks(_CLEANUP_S)
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def _wait_for_tasks(self, seconds: float) -> None:
        tasks = asyncio.all_tasks(self.loop)
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=seconds))


def acquire() -> BackgroundLoop:
    """The process's loop; give it back with :func:`release`."""
    global _shared, _users  # noqa: PLW0603 - one per process is the point
    with _lock:
        if _shared is None:
            _shared = BackgroundLoop()
        _users += 1
        return _shared


def release() -> None:
    """Give the loop back; the last user stops it."""
    global _shared, _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        stopping = _shared if _users == 0 else None
        if stopping is not None:
            _shared = None
    if stopping is not None:
        stopping.stop()
