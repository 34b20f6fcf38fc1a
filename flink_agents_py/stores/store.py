"""What the engine asks of an action state store.

Fencing: :meth:`ActionStateStore.open` gives each handle an *epoch*, larger than all before it in its job. A key belongs
to the newest epoch that claimed it or wrote to it; older ones are refused from then on. So an attempt that Flink has
given up, but that still runs somewhere, cannot write to a key that its successor has taken over, and what it wrote
before that is seen by the claim. The subtasks of one attempt have different epochs and do not hinder each other: each
key is claimed by one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

FINISHED = -1
"""The slot of a finished action's record."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """What is known of one finished action (slot -1), or of one durable call of an action that is not finished.

    All fields but ``value`` are the record's identity. A finished action's record makes those of its calls obsolete:
    a store may drop them at any time.
    """

    key: bytes
    """The Flink key in canonical form."""
    sequence: int
    """Number of the input within its key."""
    event: bytes
    """Id of the event the action handled, 16 bytes."""
    action: str
    slot: int
    """-1: the action has finished; n >= 0: its durable call number n."""
    value: str
    """JSON text, opaque to the store."""


class ActionStateStore(Protocol):
    """Records of one job. All methods may be called from any thread.

    All raise :class:`~flink_agents_py.errors.StoreError` if the store does not answer, or did not confirm. The write
    may have happened then; doing it again does no harm.
    """

    def open(self, job: str) -> None:
        """Take a new epoch of ``job``, larger than any before. May be called again, for a newer one."""

    def claim(self, key: bytes, *, from_sequence: int = ...) -> list[StoredRecord]:
        """Fence older epochs off ``key`` and return what is recorded for it, at ``from_sequence`` and higher ones.

        Without ``from_sequence`` all of it: for a busy key that may be a day's records.

        Raises:
            FencedError: a newer epoch has claimed it.
        """

    def put(self, records: Sequence[StoredRecord]) -> None:
        """Write all records or none; they are durable when it returns. One of equal identity is replaced.

        Raises:
            FencedError: a newer epoch has claimed one of the keys; nothing was written.
        """

    def forget(self, key: bytes, sequence: int) -> None:
        """Drop what ``key`` has at ``sequence``: another input was found there.

        Raises:
            FencedError: a newer epoch has claimed the key.
        """

    def prune(self, *, before_ms: int) -> int:
        """Drop what was written before ``before_ms`` (ms since the epoch) and belongs to a finished run.

        A key's highest recorded sequence counts as finished if nothing was written for the key since, one of its
        actions is finished, and none has calls recorded without being finished. Every lower one is finished (S1).

        Returns:
            The number of records dropped.
        """

    def has_any(self) -> bool:
        """Whether the job has any record."""

    def close(self) -> None:
        """Let go of connections; records stay."""
