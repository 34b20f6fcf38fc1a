"""A vector store in a SQLite file, or in memory (extra ``sqlite-vec``).

Every query by meaning compares the vector with all documents of the collection that pass the filter: exact, and fast
enough up to some hundred thousand documents. Words are found by SQLite's own full-text index.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import PrivateAttr

from flink_agents_py.ext.indexed_store import IndexedVectorStore, as_expected, no_collection, other_size
from flink_agents_py.ext.sdk import Sdk
from flink_agents_py.resources.filters import PARTITION, AllOf, Compare, Condition
from flink_agents_py.resources.vector_stores import Document

SDK = Sdk("sqlite_vec", "sqlite-vec")
# SQLite by way of apsw: the sqlite3 module of many a Python was built without extensions, which sqlite-vec is.
APSW = Sdk("apsw", "sqlite-vec")

# Written as in the index, so that it is used.
_PARTITION = f"json_extract(metadata, '$.\"{PARTITION}\"')"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS collections (name TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS documents (
    number INTEGER PRIMARY KEY, collection TEXT NOT NULL, id TEXT NOT NULL, content TEXT NOT NULL,
    metadata TEXT NOT NULL, embedding BLOB NOT NULL, UNIQUE (collection, id)
);
CREATE INDEX IF NOT EXISTS by_partition ON documents (collection, json_extract(metadata, '$."~partition"'));
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (content, content='documents', content_rowid='number');
CREATE TRIGGER IF NOT EXISTS words_added AFTER INSERT ON documents BEGIN
    INSERT INTO words (rowid, content) VALUES (new.number, new.content);
END;
CREATE TRIGGER IF NOT EXISTS words_gone AFTER DELETE ON documents BEGIN
    INSERT INTO words (words, rowid, content) VALUES ('delete', old.number, old.content);
END;
"""
_GET = "SELECT id, content, metadata, vec_to_json(embedding) FROM documents WHERE collection = ? AND id = ?"
_INSERT = "INSERT INTO documents (collection, id, content, metadata, embedding) VALUES (?, ?, ?, ?, ?)"
_PATCH = "UPDATE documents SET metadata = json_patch(metadata, ?) WHERE collection = ? AND id = ?"
_LISTED = """
SELECT id, content, metadata, NULL FROM documents WHERE collection = ? AND {condition}
ORDER BY json_extract(metadata, ?) NULLS LAST, id LIMIT ?
"""
_NEAREST = """
SELECT id, content, metadata, 1.0 - vec_distance_cosine(embedding, ?) AS score FROM documents
WHERE collection = ? AND {condition} ORDER BY score DESC NULLS LAST, id LIMIT ?
"""
_MATCHING = """
SELECT d.id, d.content, d.metadata, -bm25(words) AS score FROM words JOIN documents d ON d.number = words.rowid
WHERE words MATCH ? AND d.collection = ? AND {condition} ORDER BY score DESC, d.id LIMIT ?
"""


class SqliteVecVectorStore(IndexedVectorStore):
    """Documents in one SQLite file on the worker.

    Args:
        path: the file, made when first used; ``:memory:`` lasts as long as the resource. On a cluster each machine
            has its own unless the file is shipped, or on storage they share.
    """

    path: str = ":memory:"

    _connection: Any = PrivateAttr(default=None)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def put(self, collection: str, documents: Sequence[Document]) -> None:
        """Store documents, in place of those of the same id, all or none."""
        with self._lock, self._opened() as connection:
            self._put(connection, collection, documents)

    def put_new(
        self, collection: str, documents: Sequence[Document], unchanged: Mapping[str, Mapping[str, Any] | None]
    ) -> list[str] | None:
        """Store those of the documents whose ids are not there; None, and no change, if an unchanged one is not."""
        with self._lock, self._opened() as connection:
            self._ready(connection, collection, documents)
            if not _all_as_expected(connection, collection, unchanged):
                return None
            there = {document.id for document in documents if _metadata(connection, collection, document.id)}
            fresh = {str(document.id): document for document in documents if document.id not in there}
            self._put(connection, collection, list(fresh.values()))
        return list(fresh)

    def swap(self, collection: str, documents: Sequence[Document], expected: Mapping[str, Mapping[str, Any]]) -> bool:
        """Delete the expected documents and store the others; False, and no change, if one of those is another now."""
        with self._lock, self._opened() as connection:
            self._ready(connection, collection, documents)
            if not _all_as_expected(connection, collection, expected):
                return False
            self._delete(connection, collection, list(expected))
            self._put(connection, collection, documents)
        return True

    def patch(self, metadata: Mapping[str, Mapping[str, Any]], collection_name: str | None = None) -> None:
        """Set fields of metadata by document id."""
        collection = self._collection(collection_name)
        with self._lock, self._opened() as connection:
            connection.executemany(
                _PATCH, [(_json(dict(fields)), collection, name) for name, fields in metadata.items()]
            )

    def listed(self, collection: str, condition: Condition | None, limit: int, order_by: str | None) -> list[Document]:
        """Documents that pass a filter, in the order of a field of metadata, then of their ids."""
        where, values = _sql(condition)
        with self._lock, self._opened() as connection:
            rows = connection.execute(
                _LISTED.format(condition=where), (collection, *values, f'$."{order_by or ""}"', limit)
            ).fetchall()
        return [_document(row) for row in rows]

    def get(self, ids: str | Sequence[str], collection_name: str | None = None) -> list[Document]:
        """Documents by id, in that order, with their vectors; those that are not there are left out."""
        collection = self._collection(collection_name)
        with self._lock, self._opened() as connection:
            rows = [connection.execute(_GET, (collection, one)).fetchone() for one in _several(ids)]
        return [
            Document(id=row[0], content=row[1], metadata=json.loads(row[2]), embedding=json.loads(row[3]))
            for row in rows
            if row is not None
        ]

    def delete(self, ids: str | Sequence[str], collection_name: str | None = None) -> None:
        """Delete documents by id."""
        with self._lock, self._opened() as connection:
            self._delete(connection, self._collection(collection_name), _several(ids))

    def nearest(
        self, collection: str, vector: Sequence[float], limit: int, condition: Condition | None
    ) -> list[Document]:
        """Documents by cosine similarity."""
        where, values = _sql(condition)
        with self._lock, self._opened() as connection:
            size = self._size(connection, collection)
            if size != len(vector):
                raise other_size(collection, size, len(vector))
            rows = connection.execute(
                _NEAREST.format(condition=where), (_blob(vector), collection, *values, limit)
            ).fetchall()
        return [_document(row) for row in rows]

    def matching(self, collection: str, words: list[str], limit: int, condition: Condition | None) -> list[Document]:
        """Documents by words, ranked by BM25."""
        where, values = _sql(condition)
        with self._lock, self._opened() as connection:
            self._size(connection, collection)
            if not words:
                return []
            # Quoted: a word alone might be an operator of the index's language.
            wanted = " OR ".join(f'"{word}"' for word in words)
            rows = connection.execute(
                _MATCHING.format(condition=where), (wanted, collection, *values, limit)
            ).fetchall()
        return [_document(row) for row in rows]

    def collections(self) -> list[str]:
        """Names of the collections there are."""
        with self._lock, self._opened() as connection:
            return _names(connection)

    def delete_collection(self, collection_name: str) -> None:
        """Delete a collection with its documents."""
        with self._lock, self._opened() as connection:
            connection.execute("DELETE FROM documents WHERE collection = ?", (collection_name,))
            connection.execute("DELETE FROM collections WHERE name = ?", (collection_name,))

    @staticmethod
    def _ready(connection: Any, collection: str, documents: Sequence[Document]) -> None:
        """Begin to write: with a read, another process could write before this one does, and make it fail."""
        if documents:
            size = len(documents[0].embedding or ())
            connection.execute("INSERT OR IGNORE INTO collections VALUES (?, ?)", (collection, size))
        else:
            connection.execute("UPDATE collections SET size = size WHERE name = ?", (collection,))

    def _put(self, connection: Any, collection: str, documents: Sequence[Document]) -> None:
        self._ready(connection, collection, documents)
        for document in documents:
            vector = document.embedding or []
            wanted = self._size(connection, collection)
            if len(vector) != wanted:
                raise other_size(collection, wanted, len(vector))
            self._delete(connection, collection, [str(document.id)])
            row = (collection, document.id, document.content, _json(document.metadata), _blob(vector))
            connection.execute(_INSERT, row)

    @staticmethod
    def _delete(connection: Any, collection: str, ids: Sequence[str]) -> None:
        connection.executemany(
            "DELETE FROM documents WHERE collection = ? AND id = ?", [(collection, one) for one in ids]
        )

    @staticmethod
    def _size(connection: Any, collection: str) -> int:
        row = connection.execute("SELECT size FROM collections WHERE name = ?", (collection,)).fetchone()
        if row is None:
            raise no_collection(collection, _names(connection))
        return int(row[0])

    def _opened(self) -> Any:
        # As a context manager a connection is a transaction: committed, or rolled back on an error.
        if self._connection is None:
            connection = APSW.load().Connection(self.path)
            connection.set_busy_timeout(30_000)
            connection.enable_load_extension(True)
            SDK.load().load(connection)
            connection.enable_load_extension(False)
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            connection.execute(_SCHEMA).fetchall()
            self._connection = connection
        return self._connection


def _sql(condition: Condition | None) -> tuple[str, list[Any]]:
    """A filter in SQLite's language; each comparison checks the type first, as SQLite compares across types."""
    if condition is None:
        return "1", []
    if isinstance(condition, Compare):
        return _comparison(condition)
    parts = [_sql(part) for part in condition.conditions]
    joined = (" AND " if isinstance(condition, AllOf) else " OR ").join(text for text, _ in parts)
    empty = "1" if isinstance(condition, AllOf) else "0"
    return f"({joined or empty})", [value for _, values in parts for value in values]


def _comparison(condition: Compare) -> tuple[str, list[Any]]:
    path, value = f'$."{condition.field}"', condition.value
    if condition.field == PARTITION and condition.operator == "$eq" and isinstance(value, str):
        return f"{_PARTITION} = ?", [value]
    kind = "json_type(metadata, ?)"
    if condition.operator == "$ne":
        text, values = _comparison(Compare(condition.field, "$eq", value))
        return f"NOT coalesce({text}, 0)", values
    if value is None:
        return f"coalesce({kind}, 'null') = 'null'", [path]
    if isinstance(value, bool):
        return f"{kind} = ?", [path, "true" if value else "false"]
    types = "('text')" if isinstance(value, str) else "('integer', 'real')"
    sign = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}[condition.operator]
    return f"({kind} IN {types} AND json_extract(metadata, ?) {sign} ?)", [path, path, value]


def _several(ids: str | Sequence[str]) -> Sequence[str]:
    return [ids] if isinstance(ids, str) else ids


def _metadata(connection: Any, collection: str, name: str | None) -> Any:
    """The row with a document's metadata, None if there is none."""
    return connection.execute(
        "SELECT metadata FROM documents WHERE collection = ? AND id = ?", (collection, name)
    ).fetchone()


def _all_as_expected(connection: Any, collection: str, expected: Mapping[str, Mapping[str, Any] | None]) -> bool:
    rows = {name: _metadata(connection, collection, name) for name in expected}
    found = {name: None if row is None else json.loads(row[0]) for name, row in rows.items()}
    return all(as_expected(found[name], fields) for name, fields in expected.items())


def _names(connection: Any) -> list[str]:
    return [row[0] for row in connection.execute("SELECT name FROM collections ORDER BY name")]


def _document(row: Any) -> Document:
    return Document(id=row[0], content=row[1], metadata=json.loads(row[2]), score=row[3])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _blob(vector: Sequence[float]) -> bytes:
    blob: bytes = SDK.load().serialize_float32(list(vector))
    return blob
