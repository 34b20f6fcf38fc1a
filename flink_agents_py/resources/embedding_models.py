"""Embedding models: texts to vectors, by a connection (the service) and a setup (the model and its options)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from pydantic import PrivateAttr

from flink_agents_py.resources.base import ModelResource, ResourceType


class BaseEmbeddingModelConnection(ModelResource, ABC):
    """A service, or a model in this process, that embeds texts. Implement :meth:`embed`; :meth:`aembed` if you can."""

    @abstractmethod
    def embed(self, text: str | Sequence[str], **kwargs: Any) -> list[float] | list[list[float]]:
        """The vector of one text, or the vectors of several, in their order."""

    async def aembed(self, text: str | Sequence[str], **kwargs: Any) -> list[float] | list[list[float]]:
        """The same from a coroutine; without an own implementation, :meth:`embed` on a thread."""
        return await asyncio.to_thread(self.embed, text, **kwargs)


class BaseEmbeddingModelSetup(ModelResource):
    """A model of a connection, with its options."""

    connection: str
    model: str = ""

    _connection: BaseEmbeddingModelConnection | None = PrivateAttr(default=None)

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """What goes to the connection with each text."""
        return {"model": self.model} if self.model else {}

    def open(self) -> None:
        """Find the connection."""
        if self.resource_context is not None:
            self._connection = self.resource_context.get_resource(
                self.connection, ResourceType.EMBEDDING_MODEL_CONNECTION
            )

    def embed(self, text: str | Sequence[str], **kwargs: Any) -> list[float] | list[list[float]]:
        """The vector of one text, or the vectors of several, in their order."""
        return self._opened().embed(text, **{**self.model_kwargs, **kwargs})

    async def aembed(self, text: str | Sequence[str], **kwargs: Any) -> list[float] | list[list[float]]:
        """The same from a coroutine."""
        return await self._opened().aembed(text, **{**self.model_kwargs, **kwargs})

    def _opened(self) -> BaseEmbeddingModelConnection:
        if self._connection is None:
            raise RuntimeError(f"{type(self).__name__} was not opened: get it by ctx.get_resource")
        return self._connection
