"""Hand-written ``KeyedProcessFunction``s for the workloads that make no calls: what the agent is compared with."""

# ruff: noqa: D102 - the methods are named by Flink or say what they do; their classes say the rest

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction
from pyflink.datastream.state import MapStateDescriptor

from jobs.benchmarks import gauge
from jobs.benchmarks.workloads import MEMORY_FIELDS


class Echo(KeyedProcessFunction):
    """Emits each record as it came."""

    def process_element(self, value: Row, ctx: Any) -> Iterator[Row]:  # noqa: ARG002 - Flink's signature
        gauge.tick()
        yield value


class Counter(KeyedProcessFunction):
    """Reads and writes one field of a map state, JSON in a STRING: the fastest map value there is (fact 22)."""

    def open(self, runtime_context: Any) -> None:
        self._memory = runtime_context.get_map_state(MapStateDescriptor("memory", Types.STRING(), Types.STRING()))

    def process_element(self, value: Row, ctx: Any) -> Iterator[Row]:  # noqa: ARG002 - Flink's signature
        stored = self._memory.get("count")
        count = 1 if stored is None else json.loads(stored) + 1
        self._memory.put("count", json.dumps(count))
        gauge.tick()
        yield Row(value[0], count)


class Memory10(KeyedProcessFunction):
    """Writes ten entries of a map state and reads them back."""

    def open(self, runtime_context: Any) -> None:
        self._memory = runtime_context.get_map_state(MapStateDescriptor("memory", Types.STRING(), Types.STRING()))

    def process_element(self, value: Row, ctx: Any) -> Iterator[Row]:  # noqa: ARG002 - Flink's signature
        for field in MEMORY_FIELDS:
            self._memory.put(field, json.dumps(value[1]))
        total = sum(json.loads(self._memory.get(field)) for field in MEMORY_FIELDS)
        gauge.tick()
        yield Row(value[0], total)
