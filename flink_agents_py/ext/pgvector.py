"""A vector store in PostgreSQL with the extension pgvector, 0.8 or newer (extra ``pgvector``).

Why this one of the server-grade stores: teams that run Flink jobs mostly run a PostgreSQL already, with backups and
rights, and pgvector is in the managed ones too; SQL gives metadata filters, full text and transactions for free.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

from pydantic import Field, PrivateAttr, SecretStr

from flink_agents_py.errors import VectorStoreUnavailableError
from flink_agents_py.ext.indexed_store import IndexedVectorStore, as_expected, no_collection, other_size
from flink_agents_py.ext.sdk import Sdk
from flink_agents_py.resources.filters import PARTITION, AllOf, Compare, Condition
from flink_agents_py.resources.secrets import redact
from flink_agents_py.resources.vector_stores import Document

SDK = Sdk("psycopg", "pgvector")
POOL = Sdk("psycopg_pool", "pgvector")

_PARTITION = f"metadata ->> '{PARTITION}'"
_MOST_INDEXED = 2000  # numbers a vector may have for pgvector's HNSW index
_LEAST_EF, _MOST_EF = 40, 1000  # pgvector's default and maximum of hnsw.ef_search


class PgVectorStore(IndexedVectorStore):
    """Documents in PostgreSQL, a table for each collection.

    Args:
        url: ``postgresql://host:5432/database``; ``user`` and ``password`` apart, the password by reference.
        prefix: of the tables' names; two stores with different ones share nothing.
        language: PostgreSQL's text search configuration; ``simple`` knows no word forms, ``english`` does.
        connections: at most, per subtask.
        statement_timeout: seconds for one statement.
        connect_timeout: seconds to wait for a connection.
    """

    secret_arguments: ClassVar[frozenset[str]] = frozenset({"password"})

    url: str
    user: str | None = None
    password: SecretStr | None = None
    prefix: str = Field(default="agents", pattern=r"^[a-z][a-z0-9_]{0,19}$")
    language: str = Field(default="simple", pattern=r"^[a-z_]+$")
    connections: int = Field(default=4, gt=0)
    statement_timeout: float = Field(default=60.0, gt=0)
    connect_timeout: float = Field(default=10.0, gt=0)

    _pool: Any = PrivateAttr(default=None)
    _sizes: dict[str, int] = PrivateAttr(default_factory=dict)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    def open(self) -> None:
        """Find the embedding model; connections are made when first used."""
        super().open()
        SDK.warm()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    def put(self, collection: str, documents: Sequence[Document]) -> None:
        """Store documents, in place of those of the same id, all or none."""
        with self._transaction() as connection:
            self._put(connection, collection, documents)

    def put_new(
        self, collection: str, documents: Sequence[Document], unchanged: Mapping[str, Mapping[str, Any] | None]
    ) -> list[str] | None:
        """Store those of the documents whose ids are not there; None, and no change, if an unchanged one is not."""
        added: list[str] = []
        with self._transaction() as connection:
            self._ready(connection, collection, documents)
            if unchanged:
                self._hold(connection, collection, unchanged, "_shared")
                rows = connection.execute(
                    f"SELECT id, metadata FROM {self._table(collection)} WHERE id = ANY(%s) ORDER BY id FOR SHARE",
                    (list(unchanged),),
                ).fetchall()
                found = dict(rows)
                if not all(as_expected(found.get(name), fields) for name, fields in unchanged.items()):
                    return None
            for document in documents:
                row = connection.execute(f"{self._insert(collection)} DO NOTHING RETURNING id", _row(document))
                added += [name for (name,) in row.fetchall()]
        return added

    def swap(self, collection: str, documents: Sequence[Document], expected: Mapping[str, Mapping[str, Any]]) -> bool:
        """Delete the expected documents and store the others; False, and no change, if one of those is another now."""
        with self._transaction() as connection:
            if self._size(connection, collection) is None:
                if expected:
                    return False
            else:
                self._hold(connection, collection, [str(document.id) for document in documents])
                table, names = self._table(collection), list(expected)
                # Locked, in one order for all, until this transaction is over: nobody changes them meanwhile.
                rows = connection.execute(
                    f"SELECT id, metadata FROM {table} WHERE id = ANY(%s) ORDER BY id FOR UPDATE", (names,)
                ).fetchall()
                found = dict(rows)
                if not all(as_expected(found.get(name), fields) for name, fields in expected.items()):
                    return False
                connection.execute(f"DELETE FROM {table} WHERE id = ANY(%s)", (names,))
            if documents:
                self._put(connection, collection, documents)
        return True

    def patch(self, metadata: Mapping[str, Mapping[str, Any]], collection_name: str | None = None) -> None:
        """Set fields of metadata by document id."""
        collection = self._collection(collection_name)
        with self._transaction() as connection:
            if self._size(connection, collection) is not None:
                for name, fields in sorted(metadata.items()):
                    connection.execute(
                        f"UPDATE {self._table(collection)} SET metadata = metadata || %s::jsonb WHERE id = %s",
                        (json.dumps(dict(fields), allow_nan=False), name),
                    )

    def listed(self, collection: str, condition: Condition | None, limit: int, order_by: str | None) -> list[Document]:
        """Documents that pass a filter, in the order of a field of metadata, then of their ids."""
        where, values = _sql(condition)
        with self._transaction() as connection:
            if self._size(connection, collection) is None:
                return []
            rows = connection.execute(
                f"SELECT id, content, metadata, NULL FROM {self._table(collection)} WHERE {where} "
                'ORDER BY metadata -> %s NULLS LAST, id COLLATE "C" LIMIT %s',
                (*values, order_by or "", limit),
            ).fetchall()
        return [_document(row) for row in rows]

    def get(self, ids: str | Sequence[str], collection_name: str | None = None) -> list[Document]:
        """Documents by id, in that order, with their vectors; those that are not there are left out."""
        collection, wanted = self._collection(collection_name), [ids] if isinstance(ids, str) else list(ids)
        with self._transaction() as connection:
            if self._size(connection, collection) is None:
                return []
            rows = connection.execute(
                f"SELECT id, content, metadata, embedding::text FROM {self._table(collection)} WHERE id = ANY(%s)",
                (wanted,),
            ).fetchall()
        found = {
            row[0]: Document(id=row[0], content=row[1], metadata=row[2], embedding=json.loads(row[3])) for row in rows
        }
        return [found[one] for one in wanted if one in found]

    def delete(self, ids: str | Sequence[str], collection_name: str | None = None) -> None:
        """Delete documents by id."""
        collection = self._collection(collection_name)
        with self._transaction() as connection:
            if self._size(connection, collection) is not None:
                wanted = [ids] if isinstance(ids, str) else list(ids)
                connection.execute(f"DELETE FROM {self._table(collection)} WHERE id = ANY(%s)", (wanted,))

    def nearest(
        self, collection: str, vector: Sequence[float], limit: int, condition: Condition | None
    ) -> list[Document]:
        """Documents by cosine similarity, found by an HNSW index: nearly always the very nearest."""
        where, values = _sql(condition)
        with self._transaction() as connection:
            size = self._checked_size(connection, collection)
            if size != len(vector):
                raise other_size(collection, size, len(vector))
            connection.execute(
                "SELECT set_config('hnsw.ef_search', %s, true)", (str(min(1000, max(_LEAST_EF, limit))),)
            )
            # Without it (before pgvector 0.8) a filter may leave fewer documents than there are.
            connection.execute("SELECT set_config('hnsw.iterative_scan', 'strict_order', true)")
            rows = connection.execute(
                f"SELECT id, content, metadata, 1 - (embedding <=> %s) FROM {self._table(collection)} "
                f"WHERE {where} ORDER BY embedding <=> %s LIMIT %s",
                (_text(vector), *values, _text(vector), limit),
            ).fetchall()
        return [_document(row) for row in rows]

    def matching(self, collection: str, words: list[str], limit: int, condition: Condition | None) -> list[Document]:
        """Documents by words, ranked by how many of them are near each other."""
        where, values = _sql(condition)
        with self._transaction() as connection:
            self._checked_size(connection, collection)
            if not words:
                return []
            wanted = " || ".join(["plainto_tsquery(%s, %s)"] * len(words))
            terms = [term for word in words for term in (self.language, word)]
            rows = connection.execute(
                f"SELECT id, content, metadata, ts_rank_cd(words, wanted) AS score "
                f"FROM {self._table(collection)}, ({' SELECT ' + wanted}) AS asked (wanted) "
                f"WHERE words @@ wanted AND {where} ORDER BY score DESC, id LIMIT %s",
                (*terms, *values, limit),
            ).fetchall()
        return [_document(row) for row in rows]

    def collections(self) -> list[str]:
        """Names of the collections there are."""
        with self._transaction() as connection:
            return self._names(connection)

    def delete_collection(self, collection_name: str) -> None:
        """Delete a collection with its documents."""
        collection = self._collection(collection_name)
        with self._transaction() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {self._table(collection)}")
            connection.execute(f"DELETE FROM {self.prefix}_collections WHERE name = %s", (collection,))
        self._sizes.pop(collection, None)

    # --- tables -------------------------------------------------------------------------------------------------------

    def _table(self, collection: str) -> str:
        return f'"{self.prefix}_of_{collection}"'

    def _insert(self, collection: str) -> str:
        return (
            f"INSERT INTO {self._table(collection)} (id, content, metadata, embedding) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (id)"
        )

    def _put(self, connection: Any, collection: str, documents: Sequence[Document]) -> None:
        self._ready(connection, collection, documents)
        with connection.cursor() as cursor:
            cursor.executemany(
                f"{self._insert(collection)} DO UPDATE SET "
                "content = excluded.content, metadata = excluded.metadata, embedding = excluded.embedding",
                [_row(document) for document in documents],
            )

    def _hold(self, connection: Any, collection: str, ids: Iterable[str], how: Literal["", "_shared"] = "") -> None:
        """Wait for exchanges that store documents of these ids, and keep others waiting, until this transaction ends.

        Rows alone could not be locked for it: there may be none yet. In one order for all, as locks must be taken.
        """
        connection.execute(
            f"SELECT pg_advisory_xact_lock{how}(hashtext(%s), number) FROM "
            "(SELECT DISTINCT hashtext(id) AS number FROM unnest(%s::text[]) AS id ORDER BY number) AS ordered",
            (f"{self.prefix}_{collection}", list(ids)),
        ).fetchall()

    def _ready(self, connection: Any, collection: str, documents: Sequence[Document]) -> None:
        """Make the collection if there is none, and check the vectors."""
        size = len(documents[0].embedding or ())
        for document in documents:
            if len(document.embedding or ()) != size:
                raise other_size(collection, size, len(document.embedding or ()))
        there = self._size(connection, collection)
        if there is None:
            self._create(connection, collection, size)
        elif there != size:
            raise other_size(collection, there, size)

    def _create(self, connection: Any, collection: str, size: int) -> None:
        name = f"{self.prefix}_of_{collection}"
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table(collection)} (id text PRIMARY KEY, content text NOT NULL, "
            f"metadata jsonb NOT NULL, embedding vector({size}) NOT NULL, "
            f"words tsvector GENERATED ALWAYS AS (to_tsvector('{self.language}', content)) STORED)"
        )
        connection.execute(f'CREATE INDEX "{name}_words" ON {self._table(collection)} USING gin (words)')
        connection.execute(f'CREATE INDEX "{name}_metadata" ON {self._table(collection)} USING gin (metadata)')
        connection.execute(f'CREATE INDEX "{name}_partition" ON {self._table(collection)} (({_PARTITION}))')
        if size <= _MOST_INDEXED:
            connection.execute(
                f'CREATE INDEX "{name}_near" ON {self._table(collection)} USING hnsw (embedding vector_cosine_ops)'
            )
        connection.execute(f"INSERT INTO {self.prefix}_collections VALUES (%s, %s)", (collection, size))

    def _size(self, connection: Any, collection: str) -> int | None:
        if collection not in self._sizes:
            row = connection.execute(
                f"SELECT size FROM {self.prefix}_collections WHERE name = %s", (collection,)
            ).fetchone()
            if row is None:
                # Whoever creates it holds the lock until it is there.
                connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"{self.prefix}_{collection}",))
                row = connection.execute(
                    f"SELECT size FROM {self.prefix}_collections WHERE name = %s", (collection,)
                ).fetchone()
            if row is None:
                return None
            self._sizes[collection] = int(row[0])
        return self._sizes[collection]

    def _checked_size(self, connection: Any, collection: str) -> int:
        size = self._size(connection, collection)
        if size is None:
            raise no_collection(collection, self._names(connection))
        return size

    def _names(self, connection: Any) -> list[str]:
        return [row[0] for row in connection.execute(f"SELECT name FROM {self.prefix}_collections ORDER BY name")]

    # --- connections --------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        sdk, pool = SDK.load(), POOL.load()
        try:
            with self._opened().connection() as connection:
                yield connection
        except (sdk.OperationalError, sdk.InterfaceError, pool.PoolTimeout) as error:
            raise VectorStoreUnavailableError(
                redact(f"PostgreSQL does not answer: {type(error).__name__}: {error}"),
                where=f"PgVectorStore at {self.url}",
                fix="check that it runs and that the address is right; it is asked again by the retry policy",
            ) from error

    def _opened(self) -> Any:
        with self._lock:
            if self._pool is None:
                credentials = {
                    "user": self.user,
                    "password": None if self.password is None else self.password.get_secret_value(),
                    "options": f"-c statement_timeout={int(self.statement_timeout * 1000)}",
                    "connect_timeout": max(2, int(self.connect_timeout)),  # libpq's least
                }
                pool = POOL.load().ConnectionPool(
                    self.url,
                    kwargs={name: value for name, value in credentials.items() if value is not None},
                    min_size=0,
                    max_size=self.connections,
                    timeout=self.connect_timeout,
                    check=POOL.load().ConnectionPool.check_connection,
                    open=True,
                )
                try:
                    self._prepare(pool)
                except BaseException:
                    pool.close()  # the next call begins anew
                    raise
                self._pool = pool
            return self._pool

    def _prepare(self, pool: Any) -> None:
        with pool.connection() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self.prefix,))
            if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone() is None:
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self.prefix}_collections (name text PRIMARY KEY, size integer NOT NULL)"
            )


def _sql(condition: Condition | None) -> tuple[str, list[Any]]:
    """A filter in PostgreSQL's language."""
    if condition is None:
        return "true", []
    if isinstance(condition, Compare):
        return _comparison(condition)
    parts = [_sql(part) for part in condition.conditions]
    joined = (" AND " if isinstance(condition, AllOf) else " OR ").join(text for text, _ in parts)
    empty = "true" if isinstance(condition, AllOf) else "false"
    return f"({joined or empty})", [value for _, values in parts for value in values]


def _comparison(condition: Compare) -> tuple[str, list[Any]]:
    name, value = condition.field, condition.value
    if name == PARTITION and condition.operator == "$eq" and isinstance(value, str):
        return f"{_PARTITION} = %s", [value]
    if condition.operator == "$ne":
        text, values = _comparison(Compare(name, "$eq", value))
        return f"NOT coalesce({text}, false)", values
    if value is None:
        return "coalesce(metadata -> %s, 'null') = 'null'", [name]
    if condition.operator == "$eq":
        return "metadata -> %s = %s::jsonb", [name, json.dumps(value)]
    sign = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}[condition.operator]
    if isinstance(value, str):  # jsonb would compare texts in the order of the database's language
        return f"(jsonb_typeof(metadata -> %s) = 'string' AND metadata ->> %s COLLATE \"C\" {sign} %s)", [
            name,
            name,
            value,
        ]
    return f"(jsonb_typeof(metadata -> %s) = 'number' AND metadata -> %s {sign} %s::jsonb)", [
        name,
        name,
        json.dumps(value),
    ]


def _document(row: Any) -> Document:
    return Document(id=row[0], content=row[1], metadata=row[2], score=row[3])


def _row(document: Document) -> tuple[Any, ...]:
    metadata = json.dumps(document.metadata, allow_nan=False)
    return document.id, document.content, metadata, _text(document.embedding)


def _text(vector: Sequence[float] | None) -> str:
    return json.dumps(list(vector or ()))
