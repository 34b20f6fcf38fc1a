"""A small pool of daemon threads for sync durable calls.

Not ``concurrent.futures``: its threads are joined when the interpreter exits, so one hanging call would keep a
finished job's process alive. Daemon threads let it go.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Job = Callable[[], None]


class DaemonPool:
    """At most ``limit`` threads, started as they are needed. Jobs must not raise."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._idle = 0

    def submit(self, job: Job) -> None:
        with self._lock:
            self._jobs.put(job)
            if self._idle > 0:
                self._idle -= 1
            elif len(self._threads) < self._limit:
                thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        """Let idle threads end; busy ones end after their job."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            with self._lock:
                self._idle += 1
