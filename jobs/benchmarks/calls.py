"""The call the ``io`` workloads make: 100 ms of waiting, once as a coroutine and once as a plain function."""

from __future__ import annotations

import asyncio
import time

from jobs.benchmarks.workloads import CALL_S


async def call_async(value: int) -> int:
    """Answer ``value`` after 100 ms on an event loop."""
    await asyncio.sleep(CALL_S)
    return value


def call_blocking(value: int) -> int:
    """Answer ``value`` after blocking its thread for 100 ms."""
    time.sleep(CALL_S)
    return value
