"""Action state in PostgreSQL.

A put is one statement, hence one transaction: it takes the owner rows of its keys, and writes only if it could take all
of them. It is as durable as the server's ``synchronous_commit`` makes it.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

from flink_agents_py.errors import ConfigError
from flink_agents_py.stores.failures import Credentials, failed, fenced, library, not_open
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
CREATE TABLE IF NOT EXISTS {ns}_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name bytea NOT NULL UNIQUE, epoch bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS {ns}_owners (
    job bigint NOT NULL, key bytea NOT NULL, epoch bigint NOT NULL, since_ms bigint NOT NULL, PRIMARY KEY (job, key)
);
CREATE TABLE IF NOT EXISTS {ns}_records (
    job bigint NOT NULL, key bytea NOT NULL, sequence bigint NOT NULL, event bytea NOT NULL, action bytea NOT NULL,
    slot int NOT NULL, written_ms bigint NOT NULL, value bytea NOT NULL,
    PRIMARY KEY (job, key, sequence, event, action, slot)
);
"""
_OWN = """
INSERT INTO {ns}_owners AS owned (job, key, epoch, since_ms)
SELECT %(job)s, key, %(epoch)s, %(now)s FROM unnest(%(keys)s::bytea[]) AS key
ON CONFLICT (job, key) DO UPDATE SET epoch = excluded.epoch, since_ms = excluded.since_ms
WHERE owned.epoch <= excluded.epoch RETURNING 1
"""
_PUT = f"""
WITH owned AS ({_OWN}), written AS (
    INSERT INTO {{ns}}_records (job, key, sequence, event, action, slot, written_ms, value)
    SELECT %(job)s, new.key, new.sequence, new.event, new.action, new.slot, %(now)s, new.value
    FROM unnest(%(record_keys)s::bytea[], %(sequences)s::bigint[], %(events)s::bytea[], %(actions)s::bytea[],
                %(slots)s::int[], %(values)s::bytea[]) AS new (key, sequence, event, action, slot, value)
    WHERE (SELECT count(*) FROM owned) = %(key_count)s
    ON CONFLICT (job, key, sequence, event, action, slot)
    DO UPDATE SET value = excluded.value, written_ms = excluded.written_ms
    RETURNING key, sequence, event, action, slot
), dropped AS (
    DELETE FROM {{ns}}_records AS call USING written
    WHERE written.slot = {FINISHED} AND call.slot > {FINISHED} AND call.job = %(job)s AND call.key = written.key
      AND call.sequence = written.sequence AND call.event = written.event AND call.action = written.action
)
SELECT count(*) FROM written
"""
_PRUNE_KEYS_AT_ONCE = 500
_NAMESPACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")


class PostgresStore:
    """An :class:`~flink_agents_py.stores.store.ActionStateStore` in a PostgreSQL database.

    Args:
        url: ``postgresql://host:port/database?...`` without credentials; parameters are libpq's.
        credentials: who to be; libpq's own sources (``PGUSER``, ``~/.pgpass``, ...) if empty.
        namespace: what the names of the three tables begin with.
        timeout_ms: longest wait for an answer.
        clock: current time in ms.
    """

    def __init__(
        self,
        url: str,
        *,
        credentials: Credentials = Credentials(),  # noqa: B008 - immutable
        namespace: str = "flink_agents_py",
        timeout_ms: int = 10_000,
        clock: Callable[[], int] | None = None,
    ) -> None:
        if not _NAMESPACE.fullmatch(namespace):
            raise ConfigError(
                f"action-state-store.namespace cannot be {namespace!r}",
                fix="for PostgreSQL use up to 50 letters, digits and underscores, no digit first",
            )
        self._psycopg = library("psycopg", "postgres")
        self._url = url
        self._credentials = credentials
        self._namespace = namespace
        self._timeout_ms = timeout_ms
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self._lock = Lock()
        self._connection: Any = None
        self._job: int | None = None
        self._epoch = 0

    def open(self, job: str) -> None:
        with self._used("open") as connection:
            self._make_tables(connection)
            row = connection.execute(
                self._sql(
                    "INSERT INTO {ns}_jobs AS job (name, epoch) VALUES (%s, 1) "
                    "ON CONFLICT (name) DO UPDATE SET epoch = job.epoch + 1 RETURNING id, epoch"
                ),
                (to_bytes(job),),
            ).fetchone()
            self._job, self._epoch = row

    def _make_tables(self, connection: Any) -> None:
        # Where somebody else has made them, the right to make tables is not needed.
        if connection.execute("SELECT to_regclass(%s)", (f'"{self._namespace.lower()}_records"',)).fetchone()[0]:
            return
        with connection.transaction():
            # IF NOT EXISTS is not safe against another session that makes the same table at the same time.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self._namespace,))
            connection.execute(self._sql(_SCHEMA))

    def claim(self, key: bytes, *, from_sequence: int = ALL_SEQUENCES) -> list[StoredRecord]:
        with self._used("claim") as connection, connection.transaction():
            owned = connection.execute(
                self._sql(_OWN), {"job": self._job, "epoch": self._epoch, "now": self._clock(), "keys": [key]}
            )
            if owned.rowcount != 1:
                raise self._fenced(connection, [key])
            # A statement of its own: it sees what was committed while the owner's row was waited for.
            rows = connection.execute(
                self._sql(
                    "SELECT sequence, event, action, slot, value FROM {ns}_records "
                    "WHERE job = %s AND key = %s AND sequence >= %s"
                ),
                (self._job, key, from_sequence),
            ).fetchall()
        return [record_from(key, Identity(*row[:4]), row[4]) for row in rows]

    def put(self, records: Sequence[StoredRecord]) -> None:
        kept = effective(records)
        if not kept:
            return
        keys = keys_of(kept)
        identities = [identity_of(record) for record in kept]
        parameters = {
            "job": self._job,
            "epoch": self._epoch,
            "now": self._clock(),
            "keys": keys,
            "key_count": len(keys),
            "record_keys": [record.key for record in kept],
            "sequences": [identity.sequence for identity in identities],
            "events": [identity.event for identity in identities],
            "actions": [identity.action for identity in identities],
            "slots": [identity.slot for identity in identities],
            "values": [to_bytes(record.value) for record in kept],
        }
        with self._used("put") as connection:
            (written,) = connection.execute(self._sql(_PUT), parameters).fetchone()
            if written != len(kept):
                raise self._fenced(connection, keys)

    def forget(self, key: bytes, sequence: int) -> None:
        with self._used("forget") as connection, connection.transaction():
            owned = connection.execute(
                self._sql(_OWN), {"job": self._job, "epoch": self._epoch, "now": self._clock(), "keys": [key]}
            )
            if owned.rowcount != 1:
                raise self._fenced(connection, [key])
            connection.execute(
                self._sql("DELETE FROM {ns}_records WHERE job = %s AND key = %s AND sequence = %s"),
                (self._job, key, sequence),
            )

    def prune(self, *, before_ms: int) -> int:
        with self._used("prune") as connection:
            found = connection.execute(
                self._sql("SELECT DISTINCT key FROM {ns}_records WHERE job = %s AND written_ms < %s"),
                (self._job, before_ms),
            ).fetchall()
        keys = [key for (key,) in found]
        dropped = 0
        for start in range(0, len(keys), _PRUNE_KEYS_AT_ONCE):
            with self._used("prune") as connection:
                dropped += self._prune_keys(connection, keys[start : start + _PRUNE_KEYS_AT_ONCE], before_ms)
        with self._used("prune") as connection:
            connection.execute(
                self._sql(
                    "DELETE FROM {ns}_owners AS owner WHERE job = %s AND since_ms < %s AND NOT EXISTS "
                    "(SELECT 1 FROM {ns}_records AS record WHERE record.job = owner.job AND record.key = owner.key)"
                ),
                (self._job, before_ms),
            )
        return dropped

    def _prune_keys(self, connection: Any, keys: list[bytes], before_ms: int) -> int:
        rows = connection.execute(
            self._sql(
                "SELECT key, sequence, event, action, slot, written_ms FROM {ns}_records "
                "WHERE job = %s AND key = ANY(%s)"
            ),
            (self._job, keys),
        ).fetchall()
        by_key: dict[bytes, list[tuple[Identity, int]]] = defaultdict(list)
        for row in rows:
            by_key[row[0]].append((Identity(*row[1:5]), row[5]))
        doomed = [
            (self._job, key, *identity) for key, written in by_key.items() for identity in prunable(written, before_ms)
        ]
        if doomed:
            columns = list(zip(*doomed, strict=True))
            connection.execute(
                self._sql(
                    "DELETE FROM {ns}_records AS record USING unnest(%s::bytea[], %s::bigint[], %s::bytea[], "
                    "%s::bytea[], %s::int[]) AS old (key, sequence, event, action, slot) WHERE record.job = %s "
                    "AND record.key = old.key AND record.sequence = old.sequence AND record.event = old.event "
                    "AND record.action = old.action AND record.slot = old.slot"
                ),
                (*map(list, columns[1:]), self._job),
            )
        return len(doomed)

    def has_any(self) -> bool:
        with self._used("has_any") as connection:
            row = connection.execute(
                self._sql("SELECT 1 FROM {ns}_records WHERE job = %s LIMIT 1"), (self._job,)
            ).fetchone()
        return row is not None

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _sql(self, text: str) -> str:
        return text.format(ns=self._namespace)

    def _fenced(self, connection: Any, keys: list[bytes]) -> Exception:
        row = connection.execute(
            self._sql("SELECT key, epoch FROM {ns}_owners WHERE job = %s AND key = ANY(%s) AND epoch > %s LIMIT 1"),
            (self._job, keys, self._epoch),
        ).fetchone()
        key, owner = row or (keys[0], -1)
        return fenced(bytes(key), self._epoch, owner)

    @contextmanager
    def _used(self, operation: str) -> Iterator[Any]:
        """A connection that works, as far as is known; errors of the client become errors of the store."""
        if self._job is None and operation != "open":
            raise not_open(operation)
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                yield self._connection
            except self._psycopg.Error as error:
                if self._connection is not None and (self._connection.broken or self._connection.closed):
                    self._disconnect()  # the next call connects anew
                raise failed(operation, error, "PostgreSQL", self._credentials) from None

    def _connect(self) -> Any:
        return self._psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=max(2, self._timeout_ms // 1000),
            options=f"-c statement_timeout={self._timeout_ms} -c lock_timeout={self._timeout_ms}",
            tcp_user_timeout=self._timeout_ms,  # a server that is gone does not reset the connection
            application_name="flink_agents_py",
            **self._credentials.named("user", "password"),
        )

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(self._psycopg.Error):
                self._connection.close()
            self._connection = None
