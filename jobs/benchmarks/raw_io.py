"""The ``io`` workloads by hand: one pump timer a subtask, completions drained across keys (``probes/pump.py``).

It does what a careful user would write for speed and nothing of what an agent promises: no bound on calls in flight, no
order within a key, nothing survives a restart.
"""

# ruff: noqa: SLF001 - switching keys is not public in PyFlink (fact 13)
# ruff: noqa: D102 - the methods are named by Flink or say what they do; their classes say the rest

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor

from jobs.benchmarks import gauge
from jobs.benchmarks.calls import call_async, call_blocking
from jobs.benchmarks.workloads import POOL_THREADS

TICK_MS = 2
END_OF_INPUT = 2**63 - 1


class Pump(KeyedProcessFunction):
    """Makes one call a record off the operator thread and counts the answers per key in a value state."""

    def __init__(self, mode: str, pooled: bool) -> None:
        self._mode = mode
        self._pooled = pooled

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        backend = runtime_context._keyed_state_backend
        self._current_key: Callable[[], Any]
        self._switch_key: Callable[[Any], None]
        if self._mode == "thread":
            java_backend = backend._keyed_state_backend
            self._current_key, self._switch_key = java_backend.getCurrentKey, java_backend.setCurrentKey
        else:
            self._current_key, self._switch_key = backend.get_current_key, backend.set_current_key
        self._done: deque[tuple[Any, str, float]] = deque()
        self._in_flight = 0
        self._pumping = False
        if self._pooled:
            self._pool = ThreadPoolExecutor(POOL_THREADS)
        else:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def process_element(self, value: Row, ctx: Any) -> Iterator[Row]:
        self._in_flight += 1
        key, name, number = self._current_key(), value[0], value[1]
        if self._pooled:
            self._pool.submit(self._call_in_pool, key, name, number, gauge.call_started())
        else:
            asyncio.run_coroutine_threadsafe(self._call_on_loop(key, name, number, gauge.call_started()), self._loop)
        if not self._pumping:
            self._pumping = True
            self._arm(ctx)
            ctx.timer_service().register_event_time_timer(END_OF_INPUT)
        yield from self._drain()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Row]:
        key = self._current_key()
        if timestamp == END_OF_INPUT:
            while self._in_flight:
                yield from self._drain()
                time.sleep(0.001)
        else:
            yield from self._drain()
        if self._in_flight:
            self._switch_key(key)
            self._arm(ctx)
        else:
            self._pumping = False

    def _arm(self, ctx: Any) -> None:
        ctx.timer_service().register_processing_time_timer(int(time.time() * 1000) + TICK_MS)

    def _drain(self) -> Iterator[Row]:
        while self._done:
            key, name, started = self._done.popleft()
            self._switch_key(key)
            count = (self._count.value() or 0) + 1
            self._count.update(count)
            self._in_flight -= 1
            gauge.call_finished(started)
            yield Row(name, count)

    async def _call_on_loop(self, key: Any, name: str, number: int, started: float) -> None:
        await call_async(number)
        self._done.append((key, name, started))

    def _call_in_pool(self, key: Any, name: str, number: int, started: float) -> None:
        call_blocking(number)
        self._done.append((key, name, started))
