"""One background asyncio loop per process, shared by all subtasks in it.

Shared, so that asyncio clients with connection pools can be used from every durable call of the process. It starts
with the first user and stops when the last one has let go.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

_lock = threading.Lock()
_shared: BackgroundLoop | None = None
_users = 0


class BackgroundLoop:
    """An asyncio loop on a daemon thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._todo: deque[Callable[[], None]] = deque()
        self._woken = False
        self._thread = threading.Thread(target=self._run, name="flink-agents-py-loop", daemon=True)
        self._thread.start()

    def call(self, job: Callable[[], None]) -> None:
        """Run ``job`` on the loop's thread. Jobs handed in before it wakes are run in one go: waking it is the cost."""
        self._todo.append(job)
        if not self._woken:
            self._woken = True
            self.loop.call_soon_threadsafe(self._work)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def _work(self) -> None:
        # Before looking: a job appended from here on wakes the loop again, so none is left lying.
        self._woken = False
        todo = self._todo
        while todo:
            todo.popleft()()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


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
