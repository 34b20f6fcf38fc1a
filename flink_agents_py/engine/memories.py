"""Which memories the runs of an agent get: plain ones, unless somebody watches them or they expire."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.keys import token_of
from flink_agents_py.engine.memory import RunMemory, TaskMemory
from flink_agents_py.engine.memory_item import ABSENT, Item
from flink_agents_py.engine.memory_path import join, unescape
from flink_agents_py.engine.memory_ttl import ExpiringMap, Expiry
from flink_agents_py.engine.memory_view import MemoryView
from flink_agents_py.memory import MemoryObject, MemoryRef

if TYPE_CHECKING:
    from flink_agents_py.config import AgentConfiguration
    from flink_agents_py.engine.memory_observer import MemoryObserver
    from flink_agents_py.engine.ports import Clock, KeyedState, MapPort, Timers
    from flink_agents_py.engine.run import Run

_MOST_ITEMS = 100  # of one key


class Memories:
    """Opens the memories of runs.

    Plain short-term memory leaves what it knows to the next run of the key (:class:`MemoryCache`).
    """

    def __init__(
        self,
        state: KeyedState,
        config: AgentConfiguration,
        clock: Clock,
        timers: Timers,
        observer: MemoryObserver | None,
    ) -> None:
        self.state = state
        self.expiry: Expiry | None = None
        if config.get(AgentOptions.SHORT_TERM_MEMORY_STATE_TTL_MS) > 0:
            self.expiry = Expiry(config, state.memory, clock, timers)
        self._reads_short_term = observer is not None and observer.reads["short_term"]
        self._reads_sensory = observer is not None and observer.reads["sensory"]
        self._plain = self.expiry is None and not self._reads_short_term
        self._cache = MemoryCache(config.get(AgentOptions.MEMORY_CACHE_SIZE))

    def short_term(self, run: Run) -> RunMemory:
        if self._plain:
            key = run.key
            known = self._cache.take(key if type(key) is str else token_of(key))
            return RunMemory(self.state.memory, "short_term", known)
        expiry = self.expiry
        if expiry is not None:
            if run.memory_ms is None:
                run.memory_ms = expiry.now_ms()
            return ExpiringMemory(expiry, run.key, run.memory_ms)
        kind = WatchedMemory if self._reads_short_term else RunMemory
        return kind(self.state.memory, "short_term")

    def finished(self, run: Run, memory: RunMemory) -> None:
        """A run is over, and what it committed to ``memory`` is in state."""
        if self._plain:
            key = run.key
            self._cache.give(key if type(key) is str else token_of(key), memory)

    def sensory(self) -> RunMemory:
        return WatchedMemory(None, "sensory") if self._reads_sensory else RunMemory(None, "sensory")

    def peek(self, key: Any) -> RunMemory:
        """What a run of ``key`` that begins now would read; the key scope must be there."""
        if self.expiry is None:
            return RunMemory(self.state.memory, "short_term")
        return ExpiringMemory(self.expiry, key, self.expiry.now_ms())


class MemoryCache:
    """Items of short-term memory that the last run of a key knew, so that the next one need not read them again.

    The operator is the only one that writes them to state, and a run that is over has written all it committed. So what
    it knew is what state holds, until the next run of the key takes it, which gives it back when it is over and has
    flushed. One that fails gives back nothing: what it had not written yet is not believed. Runs share no value that
    can be changed: mutable ones are kept as text, and the child list of an object is copied before it is changed.

    Bounded by the number of items, without an order of use to keep up: when half of them is full, it becomes the old
    half, and what was old and has not been used since is forgotten.

    Args:
        limit: items that are kept; 0 for none.
    """

    __slots__ = ("_count", "_half", "_old", "_young")

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._young: dict[Any, dict[str, Item] | None] = {}  # None: a run has them
        self._old: dict[Any, dict[str, Item] | None] = {}
        self._count = 0  # items in the young half

    def take(self, token: Any) -> dict[str, Item]:
        """The items known of a key, to be changed at will."""
        items = self._young.get(token)
        if items is None:
            return self._old.pop(token, None) or {}
        self._young[token] = None
        self._count -= len(items)
        return items

    def give(self, token: Any, memory: RunMemory) -> None:
        """Keep what a run that is over knew of its key."""
        items = memory.items
        if memory.large is not None:
            for path in memory.large:
                items.pop(path, None)
        count = len(items)
        if count > _MOST_ITEMS or count > self._half:
            return
        self._count += count
        if self._count > self._half:
            self._old, self._young, self._count = self._young, {}, count
        self._young[token] = items


class WatchedMemory(RunMemory):
    """A memory that is told what actions have read."""

    __slots__ = ("touched",)

    def __init__(self, backing: MapPort | None, kind: Literal["sensory", "short_term"]) -> None:
        super().__init__(backing, kind)
        self.touched: dict[str, None] = {}  # by actions that have finished, since the last flush

    def begin(self, guard: Callable[[], None] | None = None) -> TaskMemory:
        return _WatchedTask(self, guard)

    def flush(self) -> None:
        super().flush()
        self.touched.clear()


class ExpiringMemory(WatchedMemory):
    """Short-term memory with a TTL, as of one moment."""

    __slots__ = ("_expiry", "_key", "_map")

    def __init__(self, expiry: Expiry, key: Any, at_ms: int) -> None:
        self._expiry = expiry
        self._key = key
        self._map = ExpiringMap(expiry, at_ms)
        super().__init__(self._map, "short_term")

    def flush(self) -> None:
        touched = tuple(self.touched)
        super().flush()
        self._map.settle(touched)
        if self._map.wrote:
            self._map.wrote = False
            self._expiry.written(self._key)


class _WatchedTask(TaskMemory):
    """Notes what its action reads."""

    __slots__ = ("read", "touched")

    def __init__(self, run: WatchedMemory, guard: Callable[[], None] | None) -> None:
        super().__init__(run, guard)
        self.touched = run.touched
        self.read: dict[str, bool] = {}  # path -> whether its value was handed out

    def view(self) -> MemoryView:
        return _WatchedView(self, "")

    def values_read(self) -> Iterable[str]:
        return [path for path, handed_out in self.read.items() if handed_out]

    def commit(self) -> None:
        super().commit()
        self.touched.update(dict.fromkeys(self.read))


class _WatchedView(MemoryView):
    """A view that notes every access to a field."""

    __slots__ = ()

    def get(self, path_or_ref: str | MemoryRef) -> Any:
        value = super().get(path_or_ref)
        self._note(self._target(path_or_ref), handed_out=True)
        return value

    def is_exist(self, path: str) -> bool:
        found = super().is_exist(path)
        self._note(self._absolute(path))
        return found

    def get_field_names(self) -> list[str]:
        task = self._enter()
        item = task.item(self._path)
        self._note(self._path)
        if type(item) is not dict:
            return []
        return [unescape(name) for name in item if task.item(join(self._path, name)) is not ABSENT]

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        self._note(self._path)
        for name in fields:
            self._note(join(self._path, MemoryObject.escape(name)), handed_out=True)
        return fields

    def _note(self, path: str, *, handed_out: bool = False) -> None:
        read: dict[str, bool] = self._task.read  # type: ignore[attr-defined]  # made by a _WatchedTask alone
        read[path] = handed_out or read.get(path, False)
