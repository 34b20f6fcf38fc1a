"""Action state in an SQLite file: for one host, without a server.

Every subtask and every attempt on the host opens the same file; SQLite's own locks order their transactions. The file
must be on a local disk (its write-ahead log needs shared memory), and a cluster of several hosts needs another store:
a run that is restored on another host would not find the file.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from flink_agents_py.errors import StoreError
from flink_agents_py.stores.failures import fenced, not_open
from flink_agents_py.stores.records import (
    ALL_SEQUENCES,
    Identity,
    effective,
    identity_of,
    keys_of,
    prunable,
    record_from,
    to_bytes,
)
from flink_agents_py.stores.store import FINISHED, StoredRecord

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, epoch INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS owners (
    job INTEGER NOT NULL, key BLOB NOT NULL, epoch INTEGER NOT NULL, since_ms INTEGER NOT NULL,
    PRIMARY KEY (job, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS records (
    job INTEGER NOT NULL, key BLOB NOT NULL, sequence INTEGER NOT NULL, event BLOB NOT NULL, action BLOB NOT NULL,
    slot INTEGER NOT NULL, written_ms INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (job, key, sequence, event, action, slot)
);
"""
_PRUNE_KEYS_AT_ONCE = 200  # a transaction of pruning must not keep writers waiting


class SqliteStore:
    """An :class:`~flink_agents_py.stores.store.ActionStateStore` in a file.

    Args:
        path: of the file; it and its folder are made if missing.
        synchronous: ``FULL``: what was put survives the loss of power. ``NORMAL``: the death of processes alone.
        timeout_ms: how long to wait for other writers.
        clock: current time in ms.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: str = "FULL",
        timeout_ms: int = 10_000,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._path = Path(path)
        self._synchronous = synchronous
        self._timeout_s = timeout_ms / 1000
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._job = -1
        self._epoch = 0

    def open(self, job: str) -> None:
        name = to_bytes(job)
        with self._lock, self._reported("open"):
            if self._connection is None:
                self._connection = self._connect()
            connection = self._connection
            with self._transaction(connection, self._synchronous):
                connection.execute(
                    "INSERT INTO jobs (name, epoch) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1",
                    (name,),
                )
                row = connection.execute("SELECT id, epoch FROM jobs WHERE name = ?", (name,)).fetchone()
            self._job, self._epoch = row

    def _connect(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder of {self._path} cannot be made: {error}") from error
        connection = sqlite3.connect(self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def claim(self, key: bytes, *, from_sequence: int = ALL_SEQUENCES) -> list[StoredRecord]:
        # Lost power ends every process on the host, zombies included: ownership need not survive it, records must.
        with self._lock, self._reported("claim") as connection, self._transaction(connection, "NORMAL"):
            self._own(connection, key)
            rows = connection.execute(
                "SELECT sequence, event, action, slot, value FROM records WHERE job = ? AND key = ? AND sequence >= ?",
                (self._job, key, from_sequence),
            ).fetchall()
        return [record_from(key, Identity(*row[:4]), row[4]) for row in rows]

    def put(self, records: Sequence[StoredRecord]) -> None:
        kept = effective(records)
        if not kept:
            return
        now = self._clock()
        job = self._job
        rows = [(job, record.key, *identity_of(record), now, to_bytes(record.value)) for record in kept]
        with self._lock, self._reported("put") as connection, self._transaction(connection, self._synchronous):
            for key in keys_of(kept):
                self._own(connection, key)
            connection.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            connection.executemany(
                "DELETE FROM records WHERE job = ? AND key = ? AND sequence = ? AND event = ? AND action = ? "
                "AND slot >= 0",
                [row[:5] for row in rows if row[5] == FINISHED],
            )

    def forget(self, key: bytes, sequence: int) -> None:
        with self._lock, self._reported("forget") as connection, self._transaction(connection, self._synchronous):
            self._own(connection, key)
            connection.execute(
                "DELETE FROM records WHERE job = ? AND key = ? AND sequence = ?", (self._job, key, sequence)
            )

    def _own(self, connection: sqlite3.Connection, key: bytes) -> None:
        row = connection.execute("SELECT epoch FROM owners WHERE job = ? AND key = ?", (self._job, key)).fetchone()
        owner = row[0] if row else 0
        if owner > self._epoch:
            raise fenced(key, self._epoch, owner)
        if owner < self._epoch:
            connection.execute(
                "INSERT OR REPLACE INTO owners VALUES (?, ?, ?, ?)", (self._job, key, self._epoch, self._clock())
            )

    def prune(self, *, before_ms: int) -> int:
        with self._lock, self._reported("prune") as connection:
            keys = connection.execute(
                "SELECT DISTINCT key FROM records WHERE job = ? AND written_ms < ?", (self._job, before_ms)
            ).fetchall()
        dropped = 0
        for start in range(0, len(keys), _PRUNE_KEYS_AT_ONCE):
            with self._lock, self._reported("prune") as connection, self._transaction(connection, "NORMAL"):
                for (key,) in keys[start : start + _PRUNE_KEYS_AT_ONCE]:
                    dropped += self._prune_key(connection, key, before_ms)
        with self._lock, self._reported("prune") as connection, self._transaction(connection, "NORMAL"):
            connection.execute(
                "DELETE FROM owners WHERE job = ? AND since_ms < ? AND NOT EXISTS "
                "(SELECT 1 FROM records WHERE records.job = owners.job AND records.key = owners.key)",
                (self._job, before_ms),
            )
        return dropped

    def _prune_key(self, connection: sqlite3.Connection, key: bytes, before_ms: int) -> int:
        rows = connection.execute(
            "SELECT sequence, event, action, slot, written_ms FROM records WHERE job = ? AND key = ?", (self._job, key)
        ).fetchall()
        doomed = prunable(((Identity(*row[:4]), row[4]) for row in rows), before_ms)
        connection.executemany(
            "DELETE FROM records WHERE job = ? AND key = ? AND sequence = ? AND event = ? AND action = ? AND slot = ?",
            [(self._job, key, *identity) for identity in doomed],
        )
        return len(doomed)

    def has_any(self) -> bool:
        with self._lock, self._reported("has_any") as connection:
            row = connection.execute("SELECT 1 FROM records WHERE job = ? LIMIT 1", (self._job,)).fetchone()
        return row is not None

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _reported(self, operation: str) -> Iterator[sqlite3.Connection]:
        """The connection; errors of SQLite become errors of the store."""
        connection = self._connection
        if connection is None and operation != "open":
            raise not_open(operation)
        try:
            yield connection  # type: ignore[misc]  # `open` does not look at it
        except sqlite3.Error as error:
            raise StoreError(
                f"the action state store failed to {operation}: {type(error).__name__}: {error}",
                where=str(self._path),
                fix="check the disk, and that the file is on a local one",
            ) from error

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection, synchronous: str) -> Iterator[None]:
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
