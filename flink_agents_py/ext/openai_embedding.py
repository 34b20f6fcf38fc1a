"""Embeddings from a service that speaks OpenAI's protocol (extra ``openai``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field, PrivateAttr, SecretStr

from flink_agents_py.ext.openai import SDK, OpenAIClients
from flink_agents_py.ext.provider_errors import model_error
from flink_agents_py.resources.embedding_models import BaseEmbeddingModelConnection, BaseEmbeddingModelSetup


class OpenAIEmbeddingModelConnection(BaseEmbeddingModelConnection):
    """A server that speaks OpenAI's protocol; arguments as of the connection for chats.

    Args:
        batch_size: texts a request at most.
    """

    secret_arguments: ClassVar[frozenset[str]] = frozenset({"api_key", "default_headers"})

    api_key: SecretStr | None = None
    base_url: str | None = None
    api_base_url: str | None = None
    default_headers: dict[str, str] = Field(default_factory=dict, repr=False)
    timeout: float = Field(default=60.0, gt=0)
    batch_size: int = Field(default=256, gt=0)

    _clients: OpenAIClients | None = PrivateAttr(default=None)

    def open(self) -> None:
        """Begin to import the SDK."""
        SDK.warm()

    def close(self) -> None:
        """Close the clients."""
        if self._clients is not None:
            self._clients.close()
            self._clients = None

    def embed(self, text: str | Sequence[str], **kwargs: Any) -> list[float] | list[list[float]]:
        """The vector of one text, or the vectors of several.

        Raises:
            ModelUnavailableError: 408, 409, 429, 5xx, or no connection.
            ModelRequestError: any other status.
        """
        vectors: list[list[float]] = []
        for batch in self._batches(text):
            try:
                answer = self._opened().sync().embeddings.create(input=batch, **kwargs)
            except SDK.load().APIError as error:
                raise self._error(error, kwargs) from error
            vectors += _in_order(answer)
        return vectors[0] if isinstance(text, str) else vectors

    async def aembed(self, text: str | Sequence[str], **kwargs: Any) -> list[float] | list[list[float]]:
        """The same from a coroutine."""
        client = await self._opened().asynchronous()
        vectors: list[list[float]] = []
        for batch in self._batches(text):
            try:
                answer = await client.embeddings.create(input=batch, **kwargs)
            except SDK.load().APIError as error:
                raise self._error(error, kwargs) from error
            vectors += _in_order(answer)
        return vectors[0] if isinstance(text, str) else vectors

    def _batches(self, text: str | Sequence[str]) -> list[list[str]]:
        texts = [text] if isinstance(text, str) else list(text)
        return [texts[start : start + self.batch_size] for start in range(0, len(texts), self.batch_size)]

    def _opened(self) -> OpenAIClients:
        if self._clients is None:
            self._clients = OpenAIClients(
                api_key=self.api_key,
                base_url=self.base_url or self.api_base_url,
                timeout=self.timeout,
                headers=self.default_headers,
            )
        return self._clients

    def _error(self, error: Exception, options: dict[str, Any]) -> Exception:
        service = self.base_url or self.api_base_url or "OpenAI"
        return model_error(error, service, str(options.get("model", "")))


class OpenAIEmbeddingModelSetup(BaseEmbeddingModelSetup):
    """An embedding model of such a server.

    Args:
        dimensions: length of the vectors, for models that let one choose.
    """

    dimensions: int | None = Field(default=None, gt=0)

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """What goes to the service with each text."""
        return {**super().model_kwargs, **({} if self.dimensions is None else {"dimensions": self.dimensions})}


def _in_order(answer: Any) -> list[list[float]]:
    return [item.embedding for item in sorted(answer.data, key=lambda item: item.index)]
