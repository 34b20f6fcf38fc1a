"""Vector stores: documents with vectors and metadata, found by meaning, by words, or by both."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from pydantic import BaseModel, Field, PrivateAttr

from flink_agents_py.resources.base import ModelResource, ResourceType
from flink_agents_py.resources.embedding_models import BaseEmbeddingModelSetup


class VectorStoreQueryMode(str, Enum):
    """How documents are looked for."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


class Document(BaseModel):
    """A piece of text with what is known about it.

    Args:
        score: how well it fits a query, greater is better; of documents that a query found.
    """

    content: str
    metadata: dict[str, Any] = Field(default_factory=dict)
    id: str | None = None
    embedding: list[float] | None = None
    score: float | None = None


class VectorStoreQuery(BaseModel):
    """What to look for.

    Args:
        filters: on metadata: ``{"field": value}`` for equality, ``{"field": {"$gte": 1, "$lt": 5}}`` for ranges,
            ``{"$and": [...]}``, ``{"$or": [...]}``; several fields mean *and*.
    """

    query_text: str
    mode: VectorStoreQueryMode = VectorStoreQueryMode.SEMANTIC
    limit: int = Field(default=10, ge=1)
    collection_name: str | None = None
    filters: dict[str, Any] | None = None
    extra_args: dict[str, Any] = Field(default_factory=dict)


class VectorStoreQueryResult(BaseModel):
    """The documents found, best first."""

    documents: list[Document]


class BaseVectorStore(ModelResource, ABC):
    """A store of documents, to be searched. Texts without a vector are embedded by ``embedding_model``."""

    embedding_model: str | None = None
    collection: str | None = None

    _embedding_model: BaseEmbeddingModelSetup | None = PrivateAttr(default=None)

    def open(self) -> None:
        """Find the embedding model."""
        if self.embedding_model is not None and self.resource_context is not None:
            self._embedding_model = self.resource_context.get_resource(
                self.embedding_model, ResourceType.EMBEDDING_MODEL
            )

    @abstractmethod
    def add(
        self, documents: Document | Sequence[Document], collection_name: str | None = None, **kwargs: Any
    ) -> list[str]:
        """Add documents, or replace those of the same id; returns their ids."""

    @abstractmethod
    def query(self, query: VectorStoreQuery) -> VectorStoreQueryResult:
        """Find documents. Called on a thread, or from several at once."""

    async def aquery(self, query: VectorStoreQuery) -> VectorStoreQueryResult:
        """The same from a coroutine; without an own implementation, :meth:`query` on a thread."""
        return await asyncio.to_thread(self.query, query)

    @abstractmethod
    def get(self, ids: str | Sequence[str], collection_name: str | None = None) -> list[Document]:
        """Documents by id; those that are not there are left out."""

    @abstractmethod
    def delete(self, ids: str | Sequence[str], collection_name: str | None = None) -> None:
        """Delete documents by id."""


class ChangeableVectorStore(BaseVectorStore, ABC):
    """A store that long-term memory can be kept in: it lists documents, and changes happen whole or not at all.

    Equality on the metadata field :data:`~flink_agents_py.resources.filters.PARTITION` belongs into an index: each
    memory set is a partition.
    """

    @abstractmethod
    def find(
        self,
        filters: Mapping[str, Any] | None = None,
        limit: int = 100,
        collection_name: str | None = None,
        order_by: str | None = None,
    ) -> list[Document]:
        """Documents that pass a filter, without their vectors; none where there is no such collection.

        Args:
            order_by: a field of metadata that holds numbers, least first; documents of equal numbers by id.
        """

    @abstractmethod
    def insert(
        self,
        documents: Sequence[Document],
        collection_name: str | None = None,
        unchanged: Mapping[str, Mapping[str, Any] | None] | None = None,
    ) -> list[str] | None:
        """Add the documents whose ids (all have one) are not there yet, in one transaction.

        Args:
            unchanged: ids of documents that this addition relies on, each with fields its metadata must have just now;
                None for one that must not be there.

        Returns:
            the ids of those that were added; None, and nothing has changed, if one of ``unchanged`` is another now.
        """

    @abstractmethod
    def patch(self, metadata: Mapping[str, Mapping[str, Any]], collection_name: str | None = None) -> None:
        """Set fields of metadata by document id; the rest of a document stays. Ids that are not there are fine."""

    @abstractmethod
    def exchange(
        self,
        documents: Sequence[Document],
        expected: Mapping[str, Mapping[str, Any]],
        collection_name: str | None = None,
    ) -> bool:
        """Put documents in place of others, in one transaction, or change nothing.

        Args:
            documents: that are stored; they may have ids of ``expected``.
            expected: ids of the documents that go, each with fields its metadata must have just now.

        Returns:
            whether all that was expected was there; if not, nothing has changed.
        """
