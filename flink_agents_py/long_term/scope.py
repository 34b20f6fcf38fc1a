"""Whose memory a set is: of one key of one job, or of everybody who names a shared scope."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from flink_agents_py.long_term.items import Compaction, MemorySetItem


@dataclass(frozen=True)
class Scope:
    """What sets of one name have to share to be one set."""

    parts: tuple[bytes, ...]

    @classmethod
    def of_key(cls, job: bytes, key: bytes) -> Scope:
        """The memory of one key of one agent of one job."""
        return cls((b"key", job, key))

    @classmethod
    def shared(cls, name: str) -> Scope:
        """The memory of all that know the name, in whatever job."""
        return cls((b"shared", name.encode()))

    def partition(self, set_name: str) -> str:
        """Where a set of this scope is: two sets that differ in anything never get the same."""
        return digest(*self.parts, set_name.encode(), size=16)


def digest(*parts: bytes, size: int = 12) -> str:
    """Hex digest of parts that cannot run into each other."""
    return blake2b(b"".join(b"%d:%b" % (len(part), part) for part in parts), digest_size=size).hexdigest()


@dataclass(frozen=True)
class Binding:
    """A memory set as one action sees it. Nothing here changes, so that it is the same on every thread.

    Args:
        partition: see :meth:`Scope.partition`.
        task: stands for the run, the event and the action.
        time_ms: event time of the input, if it has one.
        compaction: ``None`` for never.
    """

    set_name: str
    partition: str
    task: str
    time_ms: int | None
    compaction: Compaction | None


class Place(NamedTuple):
    """Where a call stands.

    Args:
        ordinal: among the durable calls of its action, -1 if it is made inside of another one. What the action itself
            adds after a search is not found by that search when it is made again.
        idempotency_key: the same when the call is made again; empty inside of another call.
    """

    ordinal: int
    idempotency_key: str


class MemoryBackend(Protocol):
    """Where items are. All methods may be called from several threads at once, and again after a crash."""

    def add(self, to: Binding, at: Place, values: list[Any], metadatas: list[dict[str, Any]]) -> list[str]:
        """Add items, but for those that were added at this place before; the ids of all."""

    def get(
        self, of: Binding, at: Place, ids: list[str] | None, filters: dict[str, Any] | None, limit: int
    ) -> list[MemorySetItem]:
        """Items by id, or those that pass a filter, oldest first."""

    def search(
        self,
        of: Binding,
        at: Place,
        query: str,
        limit: int,
        filters: dict[str, Any] | None,
        options: dict[str, Any],
    ) -> list[MemorySetItem]:
        """Items that fit a text, best first."""

    def update(self, of: Binding, at: Place, id: str, value: Any, metadata: dict[str, Any] | None) -> bool:
        """Give an item another value, and other metadata if given; False if it is not there."""

    def delete(self, of: Binding, at: Place, ids: list[str] | None) -> bool:
        """Delete items by id, or the whole set; whether there were any."""

    def close(self) -> None:
        """No call will come any more."""
