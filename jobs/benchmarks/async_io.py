"""The ``io`` workload on PyFlink's own ``AsyncDataStream`` (process mode only, no keyed state): a plain comparison."""

# ruff: noqa: D102 - the methods are named by Flink or say what they do; their classes say the rest

from __future__ import annotations

from typing import Any

from pyflink.common import Row, Time
from pyflink.datastream import AsyncDataStream, AsyncFunction, DataStream

from jobs.benchmarks import gauge
from jobs.benchmarks.calls import call_async

CAPACITY = 1000
TIMEOUT_S = 60


class Call(AsyncFunction):
    """Makes the call of one record."""

    async def async_invoke(self, value: Row) -> list[Row]:
        # The fast coder reuses the row's list (fact 11): take the fields before anything is awaited.
        name, number = value[0], value[1]
        started = gauge.call_started()
        answer = await call_async(number)
        # There is no operator-side continuation to note here, so this latency is without the way back: a lower bound.
        gauge.call_finished(started)
        return [Row(name, answer)]


def with_async_calls(stream: DataStream, output_type: Any) -> DataStream:
    """``stream`` with one call a record, in whatever order they finish, at most ``CAPACITY`` at a time."""
    return AsyncDataStream.unordered_wait(stream, Call(), Time.seconds(TIMEOUT_S), CAPACITY, output_type)
