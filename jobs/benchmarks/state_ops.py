"""How often an agent touches keyed state per record: counted on the local engine, apart from the timed runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from pyflink.common import Row

from flink_agents_py import AgentPlan
from flink_agents_py.engine.engine import Engine
from flink_agents_py.host.clock import SystemClock
from flink_agents_py.host.executor import BackgroundExecutor
from flink_agents_py.local.ports import KeyedStore, TimerQueue
from jobs.benchmarks.agents import AGENTS

RECORDS, KEYS = 200, 10


def state_ops(workload: str) -> dict[str, float]:
    """Operations per record by state and kind, of keys that have been seen before."""
    store, counts = KeyedStore(), Counter[str]()
    for port, name in (
        ("sequence", "agent.seq"),
        ("run", "agent.run"),
        ("pending", "agent.pending"),
        ("memory", "agent.stm"),
    ):
        setattr(store, port, _Counting(getattr(store, port), name, counts))
    plan = AgentPlan.from_agent(AGENTS[workload]())
    executor = BackgroundExecutor(1)
    try:
        engine = Engine(plan, store, store, TimerQueue(store), SystemClock(), executor)
        for number in range(KEYS + RECORDS):
            if number == KEYS:
                counts.clear()
            key = str(number % KEYS)
            store.switch(key)
            engine.process(key, Row(key, number))
            engine.effects.take_outputs()
    finally:
        executor.close()
    return {operation: count / RECORDS for operation, count in sorted(counts.items())}


class _Counting:
    """A port that counts what is asked of it."""

    def __init__(self, port: Any, name: str, counts: Counter[str]) -> None:
        for method in ("get", "put", "remove", "clear", "keys"):
            if hasattr(port, method):
                setattr(self, method, self._counted(getattr(port, method), f"{name} {method}", counts))

    @staticmethod
    def _counted(method: Callable[..., Any], operation: str, counts: Counter[str]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            counts[operation] += 1
            return method(*arguments)

        return call
