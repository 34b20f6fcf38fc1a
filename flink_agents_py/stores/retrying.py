"""Asks an action state store again where it failed in a way that may pass."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from flink_agents_py.errors import StoreError
from flink_agents_py.stores.records import ALL_SEQUENCES
from flink_agents_py.stores.store import ActionStateStore, StoredRecord

log = logging.getLogger("flink_agents_py.stores")

T = TypeVar("T")


class RetryingStore:
    """An :class:`~flink_agents_py.stores.store.ActionStateStore` around another one.

    It waits on the calling thread: nothing of the callback may go on before the answer, as its effects must not leave
    the operator unrecorded. Flink sees backpressure meanwhile, and when the attempts are used up the job fails and
    restarts from its checkpoint. Only :class:`~flink_agents_py.errors.StoreError` is worth another attempt; who is
    fenced off stays so.

    Args:
        max_attempts: of one operation, the first included.
        interval_ms: between two of them.
    """

    def __init__(
        self,
        store: ActionStateStore,
        *,
        max_attempts: int,
        interval_ms: int,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._store = store
        self._max_attempts = max_attempts
        self._interval_ms = interval_ms
        self._sleep = sleep

    def open(self, job: str) -> None:
        self._again("open", lambda: self._store.open(job))

    def claim(self, key: bytes, *, from_sequence: int = ALL_SEQUENCES) -> list[StoredRecord]:
        return self._again("claim", lambda: self._store.claim(key, from_sequence=from_sequence))

    def put(self, records: Sequence[StoredRecord]) -> None:
        self._again("put", lambda: self._store.put(records))

    def forget(self, key: bytes, sequence: int) -> None:
        self._again("forget", lambda: self._store.forget(key, sequence))

    def prune(self, *, before_ms: int) -> int:
        return self._again("prune", lambda: self._store.prune(before_ms=before_ms))

    def has_any(self) -> bool:
        return self._again("has_any", self._store.has_any)

    def close(self) -> None:
        self._store.close()

    def _again(self, what: str, operation: Callable[[], T]) -> T:
        for attempt in range(1, self._max_attempts):
            try:
                return operation()
            except StoreError as error:
                log.warning(
                    "action state store: %s failed (attempt %d of %d, again in %d ms): %s",
                    what,
                    attempt,
                    self._max_attempts,
                    self._interval_ms,
                    error.what,
                )
                self._sleep(self._interval_ms / 1000)
        return operation()
