"""What the Kafka store has read of its topic: records and owners by key.

It lives in a private temporary SQLite database: small ones stay in its page cache, large ones go to disk, none is kept.
The order of the log decides: a record that stands behind a claim by a newer epoch does not count, for any reader.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from flink_agents_py.stores.kafka_log import OWNER, Entry
from flink_agents_py.stores.records import Identity, prunable

_SCHEMA = """
PRAGMA journal_mode=OFF;
PRAGMA synchronous=OFF;
CREATE TABLE records (
    key BLOB, sequence INTEGER, event BLOB, action BLOB, slot INTEGER, epoch INTEGER, counts INTEGER,
    at INTEGER, written_ms INTEGER, value BLOB, PRIMARY KEY (key, sequence, event, action, slot, epoch)
);
CREATE TABLE owners (key BLOB, epoch INTEGER, since_ms INTEGER, PRIMARY KEY (key, epoch)) WITHOUT ROWID;
"""


class Gone(NamedTuple):
    """A record to be dropped; ``counted`` if it was one that counts."""

    key: bytes
    epoch: int
    identity: Identity
    counted: bool


class KafkaIndex:
    """Entries of one job, in the order they stand in their partitions."""

    def __init__(self) -> None:
        # Used by one thread at a time, but not always the same one.
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        self._db.close()

    def apply(self, entry: Entry, offset: int) -> None:
        """Take in the next entry of a partition."""
        if entry.kind == OWNER:
            if entry.value is None:
                self._db.execute("DELETE FROM owners WHERE key = ? AND epoch = ?", (entry.key, entry.epoch))
            else:
                self._db.execute(
                    "INSERT OR REPLACE INTO owners VALUES (?, ?, ?)", (entry.key, entry.epoch, entry.written_ms)
                )
            return
        identity = entry.identity
        if identity is None:
            return
        owner = self.owner(entry.key)
        if entry.value is not None:
            counts = entry.epoch >= owner
            # What does not count must not hide what its writer wrote while that still counted.
            self._db.execute(
                f"INSERT OR {'REPLACE' if counts else 'IGNORE'} INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (entry.key, *identity, entry.epoch, counts, offset, entry.written_ms, entry.value),
            )
        elif entry.by is None or entry.by >= owner:
            self._db.execute(
                "DELETE FROM records WHERE key = ? AND sequence = ? AND event = ? AND action = ? AND slot = ? "
                "AND epoch = ?",
                (entry.key, *identity, entry.epoch),
            )

    def owner(self, key: bytes) -> int:
        """The newest epoch that claimed ``key``, or wrote to it in time."""
        (owner,) = self._db.execute(
            "SELECT max(coalesce((SELECT max(epoch) FROM owners WHERE key = ?1), -1), "
            "coalesce((SELECT max(epoch) FROM records WHERE key = ?1 AND counts), -1))",
            (key,),
        ).fetchone()
        return int(owner)

    def claimed_by(self, key: bytes, epoch: int) -> bool:
        return self._db.execute("SELECT 1 FROM owners WHERE key = ? AND epoch = ?", (key, epoch)).fetchone() is not None

    def counts(self, key: bytes, identity: Identity, epoch: int, offset: int) -> bool:
        """Whether the record at ``offset``, or one that ``epoch`` has written again behind it, counts."""
        row = self._db.execute(
            "SELECT counts AND at >= ? FROM records WHERE key = ? AND sequence = ? AND event = ? AND action = ? "
            "AND slot = ? AND epoch = ?",
            (offset, key, *identity, epoch),
        ).fetchone()
        return bool(row and row[0])

    def of_key(self, key: bytes, from_sequence: int) -> Iterator[tuple[Identity, bytes]]:
        """The newest record of each identity."""
        # SQLite takes the columns beside max() from the row that has the maximum.
        for row in self._db.execute(
            "SELECT sequence, event, action, slot, value, max(epoch) FROM records "
            "WHERE key = ? AND sequence >= ? AND counts GROUP BY sequence, event, action, slot",
            (key, from_sequence),
        ):
            yield Identity(*row[:4]), row[4]

    def all_at(self, key: bytes, sequence: int) -> list[tuple[Identity, int]]:
        """Every record at a sequence with its epoch, those that do not count included."""
        rows = self._db.execute(
            "SELECT sequence, event, action, slot, epoch FROM records WHERE key = ? AND sequence = ?", (key, sequence)
        )
        return [(Identity(*row[:4]), row[4]) for row in rows]

    def has_any(self) -> bool:
        return self._db.execute("SELECT 1 FROM records WHERE counts LIMIT 1").fetchone() is not None

    def prunable(self, before_ms: int) -> list[Gone]:
        """What may go: by the rule of all stores; what a newer epoch has written again; what never counted."""
        keys = self._db.execute(
            "SELECT DISTINCT key FROM records WHERE written_ms < ? OR NOT counts", (before_ms,)
        ).fetchall()
        return [gone for (key,) in keys for gone in self._prunable_of(key, before_ms)]

    def _prunable_of(self, key: bytes, before_ms: int) -> Iterable[Gone]:
        rows = self._db.execute(
            "SELECT sequence, event, action, slot, written_ms, epoch, counts FROM records WHERE key = ? "
            "ORDER BY counts, epoch",
            (key,),
        ).fetchall()
        newest = {Identity(*row[:4]): (row[4], row[5]) for row in rows if row[6]}
        doomed = set(prunable([(identity, ms) for identity, (ms, _) in newest.items()], before_ms))
        for row in rows:
            identity, written_ms, epoch, counts = Identity(*row[:4]), row[4], row[5], row[6]
            counted = bool(counts) and newest[identity][1] == epoch
            if identity in doomed if counts else written_ms < before_ms:
                yield Gone(key, epoch, identity, counted)
            elif counts and not counted:
                yield Gone(key, epoch, identity, counted=False)

    def obsolete_owners(self, before_ms: int) -> list[tuple[bytes, int]]:
        """Claims that newer ones have made void, and old ones of keys without records."""
        rows = self._db.execute(
            "SELECT key, epoch FROM owners AS owner WHERE epoch < (SELECT max(epoch) FROM owners WHERE key = owner.key)"
            " OR (since_ms < ? AND NOT EXISTS (SELECT 1 FROM records WHERE key = owner.key))",
            (before_ms,),
        )
        return [(bytes(key), epoch) for key, epoch in rows]
