"""Vector stores: documents with vectors and metadata, found by meaning, by words, or by both."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
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
    """A store of documents. Texts without a vector are embedded by ``embedding_model``."""

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
