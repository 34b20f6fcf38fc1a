"""Long-term memory in a vector store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from flink_agents_py.errors import CollectionNotFoundError
from flink_agents_py.long_term.items import MemorySetItem
from flink_agents_py.long_term.records import (
    ACCESSED,
    ORDER,
    ORDINAL,
    TASK,
    TOKENS,
    VERSION,
    covered_by,
    covered_id,
    document_of,
    item_of,
    updated,
)
from flink_agents_py.long_term.scope import Binding, Place, digest
from flink_agents_py.long_term.tally import Tally
from flink_agents_py.long_term.upkeep import Upkeep
from flink_agents_py.resources.filters import PARTITION
from flink_agents_py.resources.vector_stores import (
    ChangeableVectorStore,
    Document,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from flink_agents_py.serde import encode

_ACCESS_MS = 60_000  # how exact the time of the last access is: a write for every read would cost more than it tells
_IN_A_MS = 1000
_PAGE = 500
_ATTEMPTS = 5


class VectorStoreMemory:
    """Items as documents of one collection, each set a partition of it.

    Args:
        now_ms: the clock.
    """

    def __init__(
        self,
        store: ChangeableVectorStore,
        collection: str,
        now_ms: Callable[[], int],
        tally: Tally,
        upkeep: Upkeep,
    ) -> None:
        self._store = store
        self._collection = collection
        self._now_ms = now_ms
        self._tally = tally
        self._upkeep = upkeep
        self._lock = threading.Lock()
        self._next = 0

    def add(self, to: Binding, at: Place, values: list[Any], metadatas: list[dict[str, Any]]) -> list[str]:
        """Insert items that are not there and that no summary has replaced."""
        now = self._now_ms()
        order = self._place(now, len(values))
        # The content too: a job that begins anew without its state counts its runs from one again, and what it adds
        # then must not pass for what was added in its earlier life.
        base = (to.partition.encode(), to.task.encode(), at.idempotency_key.encode())
        documents = []
        for index, (value, metadata) in enumerate(zip(values, metadatas, strict=True)):
            id = digest(*base, b"%d" % index, encode([value, metadata]).encode())
            documents.append(document_of(to, value, metadata, id=id, version=id, now_ms=now, order=order + index))
        if at.ordinal >= 0:
            for document in documents:
                document.metadata |= {TASK: to.task, ORDINAL: at.ordinal}
        ids = [str(document.id) for document in documents]
        added = self._added(to, documents)
        self._tally.add(itemsAdded=len(added))
        self._upkeep.grown(to, len(added), sum(d.metadata[TOKENS] for d in documents if d.id in added))
        return ids

    def get(
        self, of: Binding, at: Place, ids: list[str] | None, filters: dict[str, Any] | None, limit: int
    ) -> list[MemorySetItem]:
        """Items by id, or by filter, oldest first."""
        if ids is None:
            found = self._store.find(_filters(of, at, filters), limit, self._collection, ORDER)
        else:
            found = self._own(of, ids)
        return self._returned(of, found)

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
        extra = dict(options)
        mode = VectorStoreQueryMode(extra.pop("mode", "semantic"))
        wanted = VectorStoreQuery(
            query_text=query,
            mode=mode,
            limit=limit,
            collection_name=self._collection,
            filters=_filters(of, at, filters),
            extra_args=extra,
        )
        try:
            found = self._store.query(wanted).documents
        except CollectionNotFoundError:
            found = []  # nobody has added anything to any set yet
        self._tally.add(searches=1)
        return self._returned(of, found)

    def update(self, of: Binding, at: Place, id: str, value: Any, metadata: dict[str, Any] | None) -> bool:
        """Replace an item by its next version, whatever others do to it meanwhile."""
        version = digest(at.idempotency_key.encode(), encode([id, value, metadata]).encode())
        for _ in range(_ATTEMPTS):
            found = self._own(of, [id])
            if not found:
                return False
            (document,) = found
            if document.metadata[VERSION] == version:
                return True  # this is a repetition
            new = updated(document, value, metadata, version, self._now_ms())
            if self._store.exchange([new], {id: {VERSION: document.metadata[VERSION]}}, self._collection):
                self._tally.add(itemsUpdated=1)
                self._upkeep.grown(of, 0, new.metadata[TOKENS] - document.metadata[TOKENS])
                return True
        raise ConnectionError(f"item {id} of memory set {of.set_name!r} is being changed by others all the time")

    def delete(self, of: Binding, at: Place, ids: list[str] | None) -> bool:  # noqa: ARG002 - repeating it is fine
        """Delete items by id, or all of a set, with what is known of it."""
        if ids is not None:
            return self._gone(of, self._own(of, ids))
        there = False
        while found := self._store.find({PARTITION: of.partition}, _PAGE, self._collection):
            there = self._gone(of, found)
        self._store.delete(covered_id(of.partition), self._collection)
        return there

    def close(self) -> None:
        """Stop what goes on in the background; the store is the plan's to close."""
        self._upkeep.close()

    # --- parts --------------------------------------------------------------------------------------------------------

    def _place(self, now_ms: int, items: int) -> int:
        """The first of so many numbers in the order of addition: of what is added within one ms, too."""
        with self._lock:
            first = max(now_ms * _IN_A_MS, self._next)
            self._next = first + items
        return first

    def _added(self, to: Binding, documents: list[Document]) -> frozenset[str]:
        """Insert documents that no summary has replaced; which of them were not there.

        A compaction may put a summary in place of one of them (added in an earlier attempt) at any moment: then the
        record of what was replaced is another than the one looked at here, and nothing is inserted.
        """
        name = covered_id(to.partition)
        for _ in range(_ATTEMPTS):
            found = self._store.get(name, self._collection)
            covered = frozenset(covered_by(found[0] if found else None))
            new = [document for document in documents if document.id not in covered]
            seen = {VERSION: found[0].metadata[VERSION]} if found else None
            added = self._store.insert(new, self._collection, {name: seen}) if new else []
            if added is not None:
                return frozenset(added)
        raise ConnectionError(f"memory set {to.set_name!r} is being compacted all the time")

    def _own(self, of: Binding, ids: list[str]) -> list[Document]:
        """Documents by id, of this set alone."""
        return [
            document
            for document in self._store.get(ids, self._collection)
            if document.metadata.get(PARTITION) == of.partition
        ]

    def _gone(self, of: Binding, documents: list[Document]) -> bool:
        if documents:
            self._store.delete([str(document.id) for document in documents], self._collection)
            self._tally.add(itemsDeleted=len(documents))
            self._upkeep.grown(of, -len(documents), -sum(document.metadata[TOKENS] for document in documents))
        return bool(documents)

    def _returned(self, of: Binding, found: list[Document]) -> list[MemorySetItem]:
        now = self._now_ms()
        self._tally.add(itemsReturned=len(found), tokensReturned=sum(one.metadata[TOKENS] for one in found))
        self._upkeep.accessed(of, [str(d.id) for d in found if now - d.metadata[ACCESSED] >= _ACCESS_MS], now)
        return [item_of(document, of.set_name) for document in found]


def _filters(of: Binding, at: Place, filters: dict[str, Any] | None) -> dict[str, Any]:
    """The set's own items, without those that the action itself adds later: they may be there after a restart."""
    own: dict[str, Any] = {PARTITION: of.partition}
    if at.ordinal >= 0:
        own["$or"] = [{TASK: {"$ne": of.task}}, {ORDINAL: {"$lt": at.ordinal}}]
    return own if filters is None else {"$and": [own, filters]}
