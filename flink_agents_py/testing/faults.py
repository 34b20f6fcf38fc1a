"""Makes an action state store misbehave: slow, down, or failing after it has done what it was asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flink_agents_py.errors import StoreError
from flink_agents_py.stores.records import ALL_SEQUENCES
from flink_agents_py.stores.store import ActionStateStore, StoredRecord

T = TypeVar("T")


@dataclass
class FaultPlan:
    """What goes wrong; fields may be changed while the store is in use.

    Args:
        down: every operation fails, and nothing is done.
        down_after_puts: so many more puts work, then ``down`` becomes true.
        lose_acknowledgements: so many more puts are done, but reported as failed.
        delay_s: how long each operation takes beforehand.
        sleep: what passes that time; advance a virtual clock with it in tests that have one.
    """

    down: bool = False
    down_after_puts: int | None = None
    lose_acknowledgements: int = 0
    delay_s: float = 0.0
    sleep: Callable[[float], object] = time.sleep


class FaultyStore:
    """An :class:`~flink_agents_py.stores.store.ActionStateStore` around another one.

    ``calls`` has the names of the operations in the order they were asked for, those that failed included.
    """

    def __init__(self, store: ActionStateStore, plan: FaultPlan | None = None) -> None:
        self.store = store
        self.plan = plan or FaultPlan()
        self.calls: list[str] = []

    def open(self, job: str) -> None:
        self._do("open", lambda: self.store.open(job))

    def claim(self, key: bytes, *, from_sequence: int = ALL_SEQUENCES) -> list[StoredRecord]:
        return self._do("claim", lambda: self.store.claim(key, from_sequence=from_sequence))

    def put(self, records: Sequence[StoredRecord]) -> None:
        plan = self.plan
        if plan.down_after_puts is not None:
            if plan.down_after_puts == 0:
                plan.down = True
            else:
                plan.down_after_puts -= 1
        self._do("put", lambda: self.store.put(records))
        if plan.lose_acknowledgements > 0:
            plan.lose_acknowledgements -= 1
            raise StoreError("fault: the records were written, but the acknowledgement was lost")

    def forget(self, key: bytes, sequence: int) -> None:
        self._do("forget", lambda: self.store.forget(key, sequence))

    def prune(self, *, before_ms: int) -> int:
        return self._do("prune", lambda: self.store.prune(before_ms=before_ms))

    def has_any(self) -> bool:
        return self._do("has_any", self.store.has_any)

    def close(self) -> None:
        self.store.close()

    def _do(self, operation: str, work: Callable[[], T]) -> T:
        self.calls.append(operation)
        if self.plan.delay_s:
            self.plan.sleep(self.plan.delay_s)
        if self.plan.down:
            raise StoreError(f"fault: the store is down, so it cannot {operation}")
        return work()
