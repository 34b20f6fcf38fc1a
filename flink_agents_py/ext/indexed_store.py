"""What the vector stores that come with the package share: embedding, the three modes of a query, rank fusion."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from pydantic_core import to_json

from flink_agents_py.errors import CollectionNotFoundError, VectorStoreError
from flink_agents_py.resources.filters import Condition, parse_filter
from flink_agents_py.resources.vector_stores import (
    ChangeableVectorStore,
    Document,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

DEFAULT_COLLECTION = "documents"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_MOST_WORDS = 32
_FUSION = 60  # of reciprocal rank fusion (Cormack et al. 2009): how little the very first ranks count more than others
_DEPTH = 4  # each ranking that is fused goes this many times deeper than the limit


class IndexedVectorStore(ChangeableVectorStore):
    """A store that finds documents near a vector and documents with words, and fuses the two for a hybrid query.

    Every call may come from a thread; several at once.

    Args:
        embedding_model: name of the embedding model for texts without a vector.
        collection: where documents go and are looked for, if a call names no other one.
    """

    def add(
        self, documents: Document | Sequence[Document], collection_name: str | None = None, **_options: Any
    ) -> list[str]:
        """Add documents, or replace those of the same id; makes the collection if there is none.

        A document without an id gets one from its content and metadata, so adding it again changes nothing.
        """
        whole = self._whole([documents] if isinstance(documents, Document) else documents)
        if whole:
            self.put(self._collection(collection_name), whole)
        return [str(document.id) for document in whole]

    def query(self, query: VectorStoreQuery) -> VectorStoreQueryResult:
        """Find documents, best first.

        Raises:
            FilterError: the filter is malformed.
            VectorStoreError: there is no such collection, or no embedding model for the query.
        """
        by_meaning = query.mode is not VectorStoreQueryMode.KEYWORD
        return self._found(query, self._vectors([query.query_text])[0] if by_meaning else None)

    async def aquery(self, query: VectorStoreQuery) -> VectorStoreQueryResult:
        """The same from a coroutine: the embedding by the model's own, the search on a thread."""
        vector = None
        if query.mode is not VectorStoreQueryMode.KEYWORD:
            vector = await self._model().aembed(query.query_text)
        return await asyncio.to_thread(self._found, query, vector)

    def find(
        self,
        filters: Mapping[str, Any] | None = None,
        limit: int = 100,
        collection_name: str | None = None,
        order_by: str | None = None,
    ) -> list[Document]:
        """Documents that pass a filter, without their vectors."""
        return self.listed(self._collection(collection_name), parse_filter(filters), limit, order_by)

    def insert(
        self,
        documents: Sequence[Document],
        collection_name: str | None = None,
        unchanged: Mapping[str, Mapping[str, Any] | None] | None = None,
    ) -> list[str] | None:
        """Add documents whose ids are not there yet; returns the ids of those, None if what they rely on changed."""
        whole = self._whole(documents)
        return self.put_new(self._collection(collection_name), whole, unchanged or {}) if whole else []

    def exchange(
        self,
        documents: Sequence[Document],
        expected: Mapping[str, Mapping[str, Any]],
        collection_name: str | None = None,
    ) -> bool:
        """Put documents in place of others, in one transaction, or change nothing."""
        return self.swap(self._collection(collection_name), self._whole(documents), expected)

    # --- what a store implements --------------------------------------------------------------------------------------

    @abstractmethod
    def put(self, collection: str, documents: Sequence[Document]) -> None:
        """Store documents (with id and vector), in place of those of the same id."""

    @abstractmethod
    def put_new(
        self, collection: str, documents: Sequence[Document], unchanged: Mapping[str, Mapping[str, Any] | None]
    ) -> list[str] | None:
        """Store those of the documents (with id and vector) whose ids are not there; returns their ids.

        None, and no change, if one of ``unchanged`` is another now.
        """

    @abstractmethod
    def swap(self, collection: str, documents: Sequence[Document], expected: Mapping[str, Mapping[str, Any]]) -> bool:
        """Delete the expected documents and store the others; False, and no change, if one of those is another now."""

    @abstractmethod
    def listed(self, collection: str, condition: Condition | None, limit: int, order_by: str | None) -> list[Document]:
        """Documents that pass a filter, in the order of a field of metadata, then of their ids."""

    @abstractmethod
    def nearest(
        self, collection: str, vector: Sequence[float], limit: int, condition: Condition | None
    ) -> list[Document]:
        """Documents by cosine similarity (the score), most similar first."""

    @abstractmethod
    def matching(self, collection: str, words: list[str], limit: int, condition: Condition | None) -> list[Document]:
        """Documents with one of the words or more, best match first."""

    @abstractmethod
    def collections(self) -> list[str]:
        """Names of the collections there are."""

    @abstractmethod
    def delete_collection(self, collection_name: str) -> None:
        """Delete a collection with its documents; one that is not there is fine."""

    # --- parts --------------------------------------------------------------------------------------------------------

    def _found(self, query: VectorStoreQuery, vector: Any) -> VectorStoreQueryResult:
        collection, condition = self._collection(query.collection_name), parse_filter(query.filters)
        words = list(dict.fromkeys(re.findall(r"\w+", query.query_text.lower())))[:_MOST_WORDS]
        if query.mode is VectorStoreQueryMode.SEMANTIC:
            documents = self.nearest(collection, vector, query.limit, condition)
        elif query.mode is VectorStoreQueryMode.KEYWORD:
            documents = self.matching(collection, words, query.limit, condition)
        else:
            depth = query.limit * _DEPTH
            documents = fuse(
                self.nearest(collection, vector, depth, condition), self.matching(collection, words, depth, condition)
            )[: query.limit]
        return VectorStoreQueryResult(documents=documents)

    def _collection(self, name: str | None) -> str:
        chosen = name or self.collection or DEFAULT_COLLECTION
        if not _NAME.fullmatch(chosen):
            raise VectorStoreError(
                f"{chosen!r} is no name of a collection", fix="use letters, digits and _ (40 at most), a letter first"
            )
        return chosen

    def _whole(self, documents: Sequence[Document]) -> list[Document]:
        """The documents with an id and a vector each."""
        bare = [document.content for document in documents if document.embedding is None]
        vectors = iter(self._vectors(bare) if bare else [])
        return [
            document.model_copy(
                update={
                    "id": document.id or content_id(document),
                    "embedding": next(vectors) if document.embedding is None else document.embedding,
                }
            )
            for document in documents
        ]

    def _vectors(self, texts: list[str]) -> Any:
        return self._model().embed(texts)

    def _model(self) -> Any:
        if self._embedding_model is None:
            raise VectorStoreError(
                "a text has to be embedded, and the store has no embedding model",
                where=type(self).__name__,
                fix="give embedding_model='name' in its descriptor, or documents with their vectors",
            )
        return self._embedding_model


def content_id(document: Document) -> str:
    """An id that equal documents share."""
    return sha256(to_json([document.content, sorted(document.metadata.items())])).hexdigest()[:32]


def fuse(*rankings: Sequence[Document]) -> list[Document]:
    """Reciprocal rank fusion: what is near the top of several rankings comes first, whatever their scores mean."""
    scores: dict[str, float] = {}
    found: dict[str, Document] = {}
    for ranking in rankings:
        for rank, document in enumerate(ranking, start=1):
            name = str(document.id)
            scores[name] = scores.get(name, 0.0) + 1.0 / (_FUSION + rank)
            found.setdefault(name, document)
    best = sorted(scores, key=lambda name: (-scores[name], name))
    return [found[name].model_copy(update={"score": scores[name]}) for name in best]


def as_expected(found: Mapping[str, Any] | None, fields: Mapping[str, Any] | None) -> bool:
    """Whether a document is there (its metadata is given) and has these fields; or, if there are none, is not there."""
    if found is None or fields is None:
        return found is fields
    return all(found.get(name) == value for name, value in fields.items())


def no_collection(name: str, there: Sequence[str]) -> VectorStoreError:
    """The error for a collection nobody has put anything into."""
    return CollectionNotFoundError(
        f"there is no collection {name!r}", fix=f"add documents first; there are: {', '.join(there) or 'none'}"
    )


def other_size(name: str, size: int, given: int) -> VectorStoreError:
    """The error for vectors of another embedding model."""
    return VectorStoreError(
        f"collection {name!r} holds vectors of {size} numbers, not {given}",
        fix="use the embedding model it was filled with, or another collection",
    )
