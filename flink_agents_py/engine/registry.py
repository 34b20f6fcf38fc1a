"""A list of the unfinished keys, kept in keyed state, for hosts whose timers a restored subtask cannot rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from flink_agents_py.engine.ports import KeyScope, MapPort


class Homes(Protocol):
    """Where the list is: under a *home* key, which moves with the keys it lists when the job is rescaled."""

    def home_of(self, key: Any) -> Any:
        """The home of ``key``."""

    def handle_of(self, key: Any) -> Any:
        """What switches the key scope to ``key``."""

    def pack(self, key: Any) -> str:
        """``key`` as text."""

    def unpack(self, text: str) -> Any:
        """The key that :meth:`pack` was given."""


class UnfinishedRegistry:
    """Unfinished keys, by home. It is up to date whenever state is, so a checkpoint has all or none of a run.

    The host calls the engine under each home once in every attempt, and again before the input ends.

    Args:
        state: map state; under a home it holds its list.
    """

    def __init__(self, state: MapPort, scope: KeyScope, homes: Homes) -> None:
        self._state = state
        self._scope = scope
        self._homes = homes

    def add(self, key: Any) -> None:
        """List ``key``; the scope is at its home afterwards."""
        self.go_to(self._homes.home_of(key))
        self._state.put(self._homes.pack(key), "")

    def remove(self, key: Any) -> None:
        """Strike ``key``; the scope is at its home afterwards."""
        self.go_to(self._homes.home_of(key))
        self._state.remove(self._homes.pack(key))

    def go_to(self, key: Any) -> None:
        """Bring the scope to ``key``."""
        self._scope.switch(self._homes.handle_of(key))

    def listed(self) -> list[Any]:
        """The keys listed under the scope's home."""
        return list(map(self._homes.unpack, self._state.keys()))
