"""Long-term memory by Mem0 (extra ``mem0``): it decides with a chat model what of a text is worth remembering.

Mem0 runs in the worker's process, on resources of the agent: a chat model, an embedding model, and a vector store
(SQLite or PostgreSQL). What it keeps beside the store (the last messages, a history of changes) is in memory and gone
with the process. Its telemetry is off, unless the environment of the worker says otherwise. Mem0 does its own
consolidation; compaction of ours does not apply.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import LongTermMemoryOptions
from flink_agents_py.errors import ConfigError
from flink_agents_py.ext.indexed_store import IndexedVectorStore
from flink_agents_py.ext.sdk import Sdk
from flink_agents_py.long_term.items import MemorySetItem, tokens_of
from flink_agents_py.long_term.records import ORDER, ORDINAL, STRUCTURED, TASK
from flink_agents_py.long_term.scope import Binding, Place, digest
from flink_agents_py.resources.base import ResourceType
from flink_agents_py.resources.filters import PARTITION, parse_filter
from flink_agents_py.resources.messages import ChatMessage, MessageRole
from flink_agents_py.resources.vector_stores import Document
from flink_agents_py.serde import decode, encode

if TYPE_CHECKING:
    from flink_agents_py.config import AgentConfiguration
    from flink_agents_py.config.option import ConfigOption
    from flink_agents_py.long_term.tally import Tally

SDK = Sdk("mem0", "mem0")

_PLACE = "~place"  # in the metadata: which addition a memory stems from
_FILTER = "~filter"  # in Mem0's filters: ours, as text, past Mem0's own understanding of filters
_WHOSE = "user_id"  # Mem0's word for what a memory belongs to; a memory set for us


class Mem0Memory:
    """Memory sets as users of one Mem0."""

    def __init__(self, config: AgentConfiguration, get_resource: Callable[..., Any], tally: Tally) -> None:
        options = LongTermMemoryOptions.Mem0
        store = get_resource(_named(config, options.VECTOR_STORE), ResourceType.VECTOR_STORE)
        if not isinstance(store, IndexedVectorStore):
            raise ConfigError(
                f"Mem0 cannot keep memories in a {type(store).__name__}",
                where=f"option {options.VECTOR_STORE.key}",
                fix="name a SqliteVecVectorStore or a PgVectorStore",
            )
        embedder = get_resource(_named(config, options.EMBEDDING_MODEL_SETUP), ResourceType.EMBEDDING_MODEL)
        chat = config.get(options.CHAT_MODEL_SETUP)
        model = None if chat is None else get_resource(chat, ResourceType.CHAT_MODEL)
        collection = config.get(LongTermMemoryOptions.COLLECTION)
        self._infer = model is not None
        self._store = _Store(store, collection)
        self._tally = tally
        self._memory = _open(_Llm(model), _Embedder(embedder), self._store, _Store(store, f"{collection}_entities"))

    def add(self, to: Binding, at: Place, values: list[Any], metadatas: list[dict[str, Any]]) -> list[str]:
        """Let Mem0 extract memories, or keep the values as they are; what was added here before is returned."""
        ids: list[str] = []
        for index, (value, metadata) in enumerate(zip(values, metadatas, strict=True)):
            text = value if isinstance(value, str) else encode(value)
            base = (to.partition.encode(), to.task.encode(), at.idempotency_key.encode(), b"%d" % index)
            place = digest(*base, encode([value, metadata]).encode())
            before = self._store.find(to.partition, {_PLACE: place}, 1000)
            if before:
                ids += [str(document.id) for document in before]
                continue
            own: dict[str, Any] = {_PLACE: place}
            if at.ordinal >= 0:
                own |= {TASK: to.task, ORDINAL: at.ordinal}
            if not self._infer and not isinstance(value, str):
                own[STRUCTURED] = True
            added = self._memory.add(text, user_id=to.partition, metadata={**metadata, **own}, infer=self._infer)[
                "results"
            ]
            ids += [one["id"] for one in added]
            self._tally.add(itemsAdded=len(added))
        return ids

    def get(
        self, of: Binding, at: Place, ids: list[str] | None, filters: dict[str, Any] | None, limit: int
    ) -> list[MemorySetItem]:
        """Items by id, or by filter, oldest first."""
        if ids is None:
            found = self._memory.get_all(filters=_filters(of, at, filters), top_k=limit)["results"]
        else:
            found = [self._memory.get(id) for id in self._own(of, ids)]
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
        """Items that Mem0 finds; ``options`` are those of its ``search``."""
        self._tally.add(searches=1)
        wanted = {"threshold": 0.0, **options}
        found = self._memory.search(query, top_k=limit, filters=_filters(of, at, filters), **wanted)["results"]
        return self._returned(of, found)

    def update(self, of: Binding, at: Place, id: str, value: Any, metadata: dict[str, Any] | None) -> bool:  # noqa: ARG002
        """Give an item another text; made again, it is the same."""
        if not self._own(of, [id]):
            return False
        text = value if isinstance(value, str) else encode(value)
        self._memory.update(id, text, metadata={**(metadata or {}), STRUCTURED: not isinstance(value, str)})
        self._tally.add(itemsUpdated=1)
        return True

    def delete(self, of: Binding, at: Place, ids: list[str] | None) -> bool:  # noqa: ARG002 - repeating it is fine
        """Delete items by id, or the whole set."""
        if ids is None:
            there = bool(self._store.find(of.partition, {}, 1))
            self._memory.delete_all(user_id=of.partition)
            return there
        own = self._own(of, ids)
        for id in own:
            self._memory.delete(id)
        self._tally.add(itemsDeleted=len(own))
        return bool(own)

    def close(self) -> None:
        """Close what Mem0 keeps beside the store."""
        self._memory.close()

    def _own(self, of: Binding, ids: list[str]) -> list[str]:
        """Those of the ids that are items of this set."""
        found = [self._store.get(id) for id in ids]
        return [one.id for one in found if one is not None and one.payload.get(_WHOSE) == of.partition]

    def _returned(self, of: Binding, found: list[dict[str, Any]]) -> list[MemorySetItem]:
        self._tally.add(itemsReturned=len(found), tokensReturned=sum(tokens_of(one["memory"]) for one in found))
        return [_item(of, one) for one in found]


# --- what Mem0 works with ---------------------------------------------------------------------------------------------


def _open(llm: _Llm, embedder: _Embedder, store: _Store, entities: _Store) -> Any:
    # Both are read when Mem0 is imported.
    os.environ.setdefault("MEM0_TELEMETRY", "False")
    os.environ.setdefault("MEM0_DIR", str(Path(tempfile.gettempdir()) / "flink-agents-py-mem0"))
    mem0 = SDK.load()
    from mem0.configs.base import MemoryConfig
    from mem0.memory.storage import SQLiteManager

    base: Any = mem0.Memory

    class Memory(base):  # type: ignore[misc]  # Any to mypy
        """Mem0 with parts that are made, where it would make them from a configuration of its own providers."""

        def __init__(self) -> None:
            self.config = MemoryConfig()
            self.embedding_model = embedder
            self.vector_store = store
            self.llm = llm
            self.db = SQLiteManager(":memory:")
            self.collection_name = store.collection
            self.api_version = self.config.version
            self.custom_instructions = None
            self.reranker = None
            self._entity_store = entities

    return Memory()


class _Llm:
    """A chat model of ours."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def generate_response(self, messages: Sequence[dict[str, str]], **_options: Any) -> str:
        said = [ChatMessage(role=MessageRole(one["role"]), content=one["content"]) for one in messages]
        text: str = self._model.chat(said).text
        return text


class _Embedder:
    """An embedding model of ours."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def embed(self, text: str, _action: str | None = None) -> list[float]:
        vector: list[float] = self._model.embed(text)
        return vector

    def embed_batch(self, texts: list[str], _action: str | None = None) -> list[list[float]]:
        vectors: list[list[float]] = self._model.embed(texts)
        return vectors


class _Store:
    """A vector store of ours. Mem0's payloads are the metadata, its users the partitions."""

    def __init__(self, store: IndexedVectorStore, collection: str) -> None:
        self._store = store
        self.collection = collection

    def find(self, partition: str, filters: dict[str, Any], limit: int) -> list[Document]:
        return self._store.find({PARTITION: partition, **filters}, limit, self.collection, ORDER)

    def insert(
        self,
        vectors: Sequence[list[float]],
        payloads: Sequence[dict[str, Any]],
        ids: Sequence[str],
    ) -> None:
        order = time.time_ns() // 1000
        self._store.add(
            [
                _document(id, vector, {**payload, ORDER: order + index})
                for index, (id, vector, payload) in enumerate(zip(ids, vectors, payloads, strict=True))
            ],
            self.collection,
        )

    def search(self, query: str, vectors: list[float], top_k: int = 5, filters: Any = None) -> list[Any]:  # noqa: ARG002
        if not self._store.find(None, 1, self.collection):
            return []
        return [_row(one) for one in self._store.nearest(self.collection, vectors, top_k, _condition(filters))]

    def search_batch(
        self, queries: list[str], vectors_list: list[list[float]], top_k: int = 1, filters: Any = None
    ) -> list[list[Any]]:
        return [self.search(query, vector, top_k, filters) for query, vector in zip(queries, vectors_list, strict=True)]

    def keyword_search(self, query: str, top_k: int = 5, filters: Any = None) -> list[Any]:
        words = list(dict.fromkeys(re.findall(r"\w+", query.lower())))
        if not self._store.find(None, 1, self.collection):
            return []
        return [_row(one) for one in self._store.matching(self.collection, words, top_k, _condition(filters))]

    def get(self, vector_id: str) -> Any:
        found = self._store.get(vector_id, self.collection)
        return _row(found[0]) if found else None

    def update(self, vector_id: str, vector: list[float] | None = None, payload: dict[str, Any] | None = None) -> None:
        for before in self._store.get(vector_id, self.collection):
            whole = before.metadata if payload is None else {ORDER: before.metadata.get(ORDER, 0), **payload}
            self._store.add(_document(vector_id, vector or before.embedding, whole), self.collection)

    def delete(self, vector_id: str) -> None:
        self._store.delete(vector_id, self.collection)

    def list(self, filters: Any = None, top_k: int | None = None) -> list[list[Any]]:
        found = self._store.listed(self.collection, _condition(filters), top_k or 100, ORDER)
        return [[_row(one) for one in found]]


def _document(id: str, vector: list[float] | None, payload: dict[str, Any]) -> Document:
    metadata = {**payload, PARTITION: payload.get(_WHOSE, "")}
    return Document(id=str(id), content=str(payload.get("data") or ""), metadata=metadata, embedding=vector)


def _condition(filters: dict[str, Any] | None) -> Any:
    given = dict(filters or {})
    ours = json.loads(given.pop(_FILTER, "{}"))
    return parse_filter({PARTITION: given.pop(_WHOSE, ""), "$and": [ours, given]})


def _row(document: Document) -> SimpleNamespace:
    payload = {name: value for name, value in document.metadata.items() if name != PARTITION}
    return SimpleNamespace(id=document.id, score=document.score or 0.0, payload=payload)


def _filters(of: Binding, at: Place, filters: dict[str, Any] | None) -> dict[str, Any]:
    ours: list[dict[str, Any]] = [] if filters is None else [filters]
    if at.ordinal >= 0:
        ours.append({"$or": [{TASK: {"$ne": of.task}}, {ORDINAL: {"$lt": at.ordinal}}]})
    return {_WHOSE: of.partition, _FILTER: json.dumps({"$and": ours})}


def _item(of: Binding, found: dict[str, Any]) -> MemorySetItem:
    metadata = found.get("metadata") or {}
    created, updated = (_time(found.get(name)) for name in ("created_at", "updated_at"))
    return MemorySetItem(
        memory_set_name=of.set_name,
        id=found["id"],
        value=decode(found["memory"]) if metadata.get(STRUCTURED) else found["memory"],
        created_at=created,
        updated_at=updated,
        covers_from=created,
        covers_to=created,
        additional_metadata={name: value for name, value in metadata.items() if not name.startswith("~")} or None,
        score=found.get("score"),
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _named(config: AgentConfiguration, option: ConfigOption[str | None]) -> str:
    name = config.get(option)
    if name is None:
        raise ConfigError(
            "long-term-memory.backend is mem0, and a resource for it is not named",
            where=f"option {option.key}",
            fix="set it to the name of a resource of the agent",
        )
    return name
