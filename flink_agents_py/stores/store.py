"""What the engine needs of an action state store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record: a durable call of an action, or the state of a finished action.

    Its identity is everything but ``value``. ``slot`` is the ordinal of a call, or -1 for the action's state; the
    action's state makes the records of its calls obsolete.
    """

    key: bytes
    sequence: int
    event: bytes
    action: str
    slot: int
    value: str


class ActionStateStore(Protocol):
    """A store of one job's records."""

    def open(self, job: str) -> None:
        """Connect, and take a new epoch: larger than any before."""

    def claim(self, key: bytes) -> list[StoredRecord]:
        """Fence older epochs off ``key`` and return its records."""

    def put(self, records: Sequence[StoredRecord]) -> None:
        """Write all or none; durable when it returns."""

    def forget(self, key: bytes, sequence: int) -> None:
        """Drop what ``key`` has at ``sequence``."""

    def has_any(self) -> bool:
        """Whether the job has any record."""

    def close(self) -> None:
        """Disconnect."""
