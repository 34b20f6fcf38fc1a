"""Asyncio clients of resources.

A resource is built and closed on the operator thread, its coroutines run on the background loop (which a test, or the
next attempt of a job, replaces by another). So a client is made on the loop that first uses it, and closed there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")

_CLOSE_S = 2.0
_closing: set[asyncio.Task[None]] = set()  # a loop keeps no hold of its tasks


class LoopBound(Generic[T]):
    """One ``T`` per event loop, made at the first :meth:`get` in it.

    Args:
        make: called in the loop.
        close: called in the loop, by :meth:`close`.
    """

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[object]] | None = None) -> None:
        self._make = make
        self._close = close
        self._made: dict[asyncio.AbstractEventLoop, T] = {}
        self._lock = threading.Lock()

    def get(self) -> T:
        """The one of the running loop."""
        loop = asyncio.get_running_loop()
        try:
            return self._made[loop]
        except KeyError:
            made = self._make()
        with self._lock:
            for other in [other for other in self._made if other.is_closed()]:
                del self._made[other]  # a loop that is gone took its connections with it
            self._made[loop] = made
        return made

    def close(self) -> None:
        """Close all of them; from any thread. Waits a moment at most for loops that run elsewhere."""
        with self._lock:
            made, self._made = self._made, {}
        for loop, one in made.items():
            if self._close is None or loop.is_closed() or not loop.is_running():
                continue
            if _here() is loop:
                task = loop.create_task(_awaited(self._close(one)))
                _closing.add(task)
                task.add_done_callback(_closing.discard)
            else:
                closing = asyncio.run_coroutine_threadsafe(_awaited(self._close(one)), loop)
                with suppress(Exception):  # it closes on its own now; nobody can do more about it
                    closing.result(_CLOSE_S)


async def _awaited(awaitable: Awaitable[object]) -> None:
    await awaitable


def _here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
