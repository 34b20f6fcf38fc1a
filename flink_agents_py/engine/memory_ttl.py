"""Expiry of short-term memory: times in the items, judged by the engine's clock, and a timer that cleans up.

Flink's own state TTL is not used. It works entry by entry, so the child list of an object would expire while the
fields in it are written every day; before Flink 2.2 a savepoint taken without it cannot be restored with it; and it
knows no virtual clock. With times of our own, both execution modes, local runs and tests behave alike, and TTL can be
switched on, off and over on any savepoint.

A *value* lives for the TTL after it was set, or after the action that read it has finished (``ON_READ_AND_WRITE``). An
*object* lives as long as something in it does, or for the TTL after a field of it was created or removed.

A run sees memory as of the moment it first looked at it, and that moment is in the run's record: an action that starts
from the top after a crash reads what it read before, so its durable calls have the same arguments (S5).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.keys import token_of
from flink_agents_py.engine.memory_item import split_time, with_time
from flink_agents_py.engine.memory_path import join, split

if TYPE_CHECKING:
    from flink_agents_py.config import AgentConfiguration
    from flink_agents_py.engine.ports import Clock, MapPort, Timers

_SHORTEST_CYCLE_MS = 1000
_MAX_ARMED = 100_000


class _Entry(NamedTuple):
    time_ms: int
    text: str


class Expiry:
    """The TTL of an agent, and the timers of the keys whose memory has to be cleaned up.

    A key with memory has one processing-time timer, about a TTL ahead; when it fires, what has expired is removed.
    Keys get their timer when a run writes memory, so a key that was written before TTL was switched on, and has had no
    run since, keeps what it has.
    """

    def __init__(self, config: AgentConfiguration, memory: MapPort, clock: Clock, timers: Timers) -> None:
        self.ttl_ms: int = config.get(AgentOptions.SHORT_TERM_MEMORY_STATE_TTL_MS)
        self.on_read = config.get(AgentOptions.SHORT_TERM_MEMORY_STATE_TTL_UPDATE_TYPE) == "ON_READ_AND_WRITE"
        self.hides = config.get(AgentOptions.SHORT_TERM_MEMORY_STATE_TTL_VISIBILITY) == "NEVER_RETURN_EXPIRED"
        self.memory = memory
        self.now_ms = clock.now_ms
        self._timers = timers
        self._cycle_ms = max(self.ttl_ms // 2, _SHORTEST_CYCLE_MS)
        # Token -> when to look at the key again, and whether a timer will see to that. Bounded: a key that fell out is
        # looked at, or armed, once more than necessary.
        self._next: dict[Any, tuple[int, bool]] = {}

    def written(self, key: Any) -> None:
        """Memory of ``key`` was written under its scope: see that it will be cleaned up."""
        token = token_of(key)
        due, armed = self._next.get(token, (0, False))
        if not armed or due <= self.now_ms():
            self._arm(token)

    def timer(self, token: Any, *, unfinished: bool) -> None:
        """A processing-time timer fired under the key, for whatever reason: clean up if it is time.

        What a run has not finished with stays: it may read it again, after a crash.
        """
        now = self.now_ms()
        if self._next.get(token, (0, False))[0] > now:
            return
        if unfinished or sweep(self.memory, self.ttl_ms, now):
            self._arm(token)
        else:
            self._note(token, now + self._cycle_ms, armed=False)

    def _arm(self, token: Any) -> None:
        # Keys have their own place in the cycle: a million timers for one millisecond would stop everything else.
        cycle = self._cycle_ms
        place = zlib.crc32(repr(token).encode()) % cycle
        due = -(-(self.now_ms() + self.ttl_ms - place) // cycle) * cycle + place
        self._timers.processing_time(due)
        self._note(token, due, armed=True)

    def _note(self, token: Any, due: int, *, armed: bool) -> None:
        if token not in self._next and len(self._next) >= _MAX_ARMED:
            del self._next[next(iter(self._next))]
        self._next[token] = due, armed


class ExpiringMap:
    """The map of one key as one run sees it: without what has expired at ``at_ms``. It is a ``MapPort``."""

    __slots__ = ("_at_ms", "_dead", "_expiry", "_known", "_late", "wrote")

    def __init__(self, expiry: Expiry, at_ms: int) -> None:
        self._expiry = expiry
        self._at_ms = at_ms
        self._known: dict[str, _Entry | None] = {}  # what was read or written
        self._dead: set[str] = set()  # hidden, and still in state
        self._late: dict[str, None] = {}  # known by a time that is not in state yet
        self.wrote = False

    def get(self, path: str) -> str | None:
        entry = self._entry(path)
        if entry is None or (path and self._expiry.hides and not self._alive(path)):
            return None
        return entry.text

    def put(self, path: str, text: str) -> None:
        self._put(path, _Entry(self._expiry.now_ms(), text))

    def remove(self, path: str) -> None:
        self._known[path] = None
        self._dead.discard(path)
        self._late.pop(path, None)
        self._expiry.memory.remove(path)

    def keys(self) -> Iterable[str]:
        return self._expiry.memory.keys()

    def settle(self, touched: Iterable[str]) -> None:
        """Write new times for what was ``touched``, and remove what was found to have expired."""
        if self._expiry.on_read:
            now = self._expiry.now_ms()
            for path in touched:
                entry = self._known.get(path)
                if path and entry is not None and entry.time_ms < now and not self._expired(entry):
                    self._put(path, _Entry(now, entry.text))
        for path in tuple(self._late):
            entry = self._known[path]
            if entry is not None:
                self._put(path, entry)
        for path in tuple(self._dead):
            self.remove(path)

    def _put(self, path: str, entry: _Entry) -> None:
        self._known[path] = entry
        self._dead.discard(path)
        self._late.pop(path, None)
        self._expiry.memory.put(path, with_time(*entry))
        self.wrote = True

    def _entry(self, path: str) -> _Entry | None:
        if path in self._known:
            return self._known[path]
        stored = self._expiry.memory.get(path)
        entry = None
        if stored is not None:
            time_ms, text = split_time(stored)
            if time_ms is None:  # written while TTL was off: its life begins when it is first seen
                time_ms = self._at_ms
                self._late[path] = None
            entry = _Entry(time_ms, text)
        self._known[path] = entry
        return entry

    def _expired(self, entry: _Entry) -> bool:
        return entry.time_ms + self._expiry.ttl_ms <= self._at_ms

    def _alive(self, path: str) -> bool:
        """Whether there is anything at ``path`` that has not expired; looks until it finds something."""
        expired: list[str] = []
        paths = [path]
        while paths:
            at = paths.pop()
            entry = self._entry(at)
            if entry is None:
                continue
            if not self._expired(entry):
                if expired:  # an object that lives by this field: for the next runs this need not be found out again
                    self._known[path] = _Entry(entry.time_ms, self._known[path].text)  # type: ignore[union-attr]
                    self._late[path] = None
                return True
            expired.append(at)
            paths += _fields_of(at, entry.text)
        self._dead.update(expired)
        return False


def sweep(memory: MapPort, ttl_ms: int, now_ms: int) -> bool:
    """Remove what has expired from the map of a key; whether anything is left."""
    entries: dict[str, _Entry] = {}
    alive: set[str] = set()
    for path in list(memory.keys()):
        stored = memory.get(path)
        if stored is None:
            continue
        time_ms, text = split_time(stored)
        if time_ms is None:
            time_ms = now_ms
            memory.put(path, with_time(now_ms, text))
        entries[path] = _Entry(time_ms, text)
        if path and time_ms + ttl_ms > now_ms:
            while path not in alive:  # and with it all objects it is in
                alive.add(path)
                if path:
                    path = split(path)[0]  # noqa: PLW2901 - walks up
    for path, (time_ms, text) in entries.items():
        if path not in alive:
            memory.remove(path)
        elif text[0] == "o":
            names = json.loads(text[1:])
            left = [name for name in names if join(path, name) in alive]
            if len(left) < len(names):
                memory.put(path, with_time(time_ms, "o" + json.dumps(left, ensure_ascii=False, separators=(",", ":"))))
    return bool(alive)


def _fields_of(path: str, text: str) -> list[str]:
    return [join(path, name) for name in json.loads(text[1:])] if text[0] == "o" else []
