"""Keyed state, key scope and timers on dictionaries.

Used by the local runner and by :mod:`flink_agents_py.testing`, whose snapshots are copies of :attr:`KeyedStore.data`.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Iterable
from typing import Any

from flink_agents_py.engine.keys import token_of
from flink_agents_py.engine.ports import MapPort, ValuePort

STATE_NAMES = ("agent.seq", "agent.run", "agent.pending", "agent.stm", "agent.idem", "agent.audit")


class KeyedStore:
    """All keyed state of one subtask, and the current key: state name -> key token -> value."""

    def __init__(self) -> None:
        self.data: dict[str, dict[Any, Any]] = {name: {} for name in STATE_NAMES}
        self.keys: dict[Any, Any] = {}
        self._key: Any = None
        self.token: Any = None
        self.sequence: ValuePort = StoredValue(self, "agent.seq")
        self.run: ValuePort = StoredValue(self, "agent.run")
        self.pending: MapPort = StoredMap(self, "agent.pending")
        self.memory: MapPort = StoredMap(self, "agent.stm")
        self.idem: MapPort = StoredMap(self, "agent.idem")
        self.audit: MapPort = StoredMap(self, "agent.audit")

    def current(self) -> Any:
        return self._key

    def switch(self, handle: Any) -> None:
        self._key = handle
        self.token = token_of(handle)
        self.keys[self.token] = handle

    def snapshot(self) -> dict[str, dict[Any, Any]]:
        return copy.deepcopy(self.data)

    def restore(self, snapshot: dict[str, dict[Any, Any]]) -> None:
        # States that are newer than the snapshot are empty in it.
        self.data = {name: {} for name in STATE_NAMES} | copy.deepcopy(snapshot)


class StoredValue:
    """One value per key."""

    __slots__ = ("_name", "_store")

    def __init__(self, store: KeyedStore, name: str) -> None:
        self._store = store
        self._name = name

    def get(self) -> Any:
        return self._store.data[self._name].get(self._store.token)

    def put(self, value: Any) -> None:
        self._store.data[self._name][self._store.token] = value

    def clear(self) -> None:
        self._store.data[self._name].pop(self._store.token, None)


class StoredMap:
    """One text map per key."""

    __slots__ = ("_name", "_store")

    def __init__(self, store: KeyedStore, name: str) -> None:
        self._store = store
        self._name = name

    def _map(self) -> dict[str, str]:
        found: dict[str, str] = self._store.data[self._name].get(self._store.token, {})
        return found

    def get(self, key: str) -> str | None:
        return self._map().get(key)

    def put(self, key: str, value: str) -> None:
        self._store.data[self._name].setdefault(self._store.token, {})[key] = value

    def remove(self, key: str) -> None:
        entries = self._map()
        entries.pop(key, None)
        if not entries:
            self._store.data[self._name].pop(self._store.token, None)

    def keys(self) -> Iterable[str]:
        return list(self._map())


class TimerQueue:
    """Processing-time and event-time timers; one per key and timestamp, as in Flink."""

    def __init__(self, store: KeyedStore) -> None:
        self._store = store
        self._processing: list[tuple[int, int, Any]] = []
        self._event: list[tuple[int, int, Any]] = []
        self._known: set[tuple[str, int, Any]] = set()
        self._order = 0

    def processing_time(self, timestamp: int) -> None:
        self._add("p", self._processing, timestamp)

    def event_time(self, timestamp: int) -> None:
        self._add("e", self._event, timestamp)

    def delete_event_time(self, timestamp: int) -> None:
        self._known.discard(("e", timestamp, self._store.token))

    def next_processing(self) -> int | None:
        """Due time of the earliest processing-time timer, ms."""
        self._drop_deleted("p", self._processing)
        return self._processing[0][0] if self._processing else None

    def pop_processing(self, now_ms: int) -> Any:
        """Key token of a timer that is due, or ``None``."""
        return self._pop("p", self._processing, now_ms)

    def pop_event(self, watermark: int) -> tuple[int, Any] | None:
        """Timestamp and key token of an event-time timer the watermark has reached, earliest first."""
        self._drop_deleted("e", self._event)
        if not self._event or self._event[0][0] > watermark:
            return None
        timestamp = self._event[0][0]
        return timestamp, self._pop("e", self._event, watermark)

    def snapshot(self) -> list[tuple[str, int, Any]]:
        return sorted(self._known, key=lambda timer: (timer[0], timer[1], repr(timer[2])))

    def restore(self, timers: list[tuple[str, int, Any]]) -> None:
        for kind, timestamp, token in timers:
            self._insert(kind, self._processing if kind == "p" else self._event, timestamp, token)

    def _add(self, kind: str, queue: list[tuple[int, int, Any]], timestamp: int) -> None:
        self._insert(kind, queue, timestamp, self._store.token)

    def _insert(self, kind: str, queue: list[tuple[int, int, Any]], timestamp: int, token: Any) -> None:
        if (kind, timestamp, token) in self._known:
            return
        self._known.add((kind, timestamp, token))
        self._order += 1
        heapq.heappush(queue, (timestamp, self._order, token))

    def _drop_deleted(self, kind: str, queue: list[tuple[int, int, Any]]) -> None:
        while queue and (kind, queue[0][0], queue[0][2]) not in self._known:
            heapq.heappop(queue)

    def _pop(self, kind: str, queue: list[tuple[int, int, Any]], limit: int) -> Any:
        self._drop_deleted(kind, queue)
        if not queue or queue[0][0] > limit:
            return None
        timestamp, _, token = heapq.heappop(queue)
        self._known.discard((kind, timestamp, token))
        return token
