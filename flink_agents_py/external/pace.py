"""Even spacing of attempts where they really begin: on the loop or the thread, right before the handler is called.

Lanes begin attempts evenly on the operator thread. Between there and the handler lies a busy process: when its loop has
stalled for a moment, what was begun meanwhile would reach the target at once. Here it is spaced again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

SHARE = 0.98
"""Of the rate. Above what lanes use, so that what has gathered is worked off; below it, for what is made up for."""
_SLACK_S = 0.015
"""Sleeps end a little late; so much of the spacing is made up for by the attempts that follow."""


class Pace:
    """The spacing of one action in one subtask.

    Args:
        rate_per_s: what the target allows.
        now: seconds, monotonic.
    """

    def __init__(self, rate_per_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self.rate_per_s = rate_per_s
        self._now = now
        self._next = 0.0
        self._turn = asyncio.Lock()
        self._thread_turn = threading.Lock()

    async def wait(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Wait for the turn of an attempt on the loop."""
        async with self._turn:
            while (left := self._left()) > 0:
                await sleep(left)
            self._take()

    def wait_on_thread(self, sleep: Callable[[float], object] = time.sleep) -> None:
        """Wait for the turn of an attempt on a thread."""
        with self._thread_turn:
            while (left := self._left()) > 0:
                sleep(left)
            self._take()

    def _left(self) -> float:
        return self._next - self._now()

    def _take(self) -> None:
        self._next = max(self._next, self._now() - _SLACK_S) + 1.0 / (self.rate_per_s * SHARE)
