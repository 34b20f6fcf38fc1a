"""Events of chats: requests to models, tools and vector stores, and what comes back.

Send a request, listen to the response; ``response.request_id`` is the id of the request::

    @action(InputEvent)
    def ask(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(ChatRequestEvent(model="analyst", messages=[ChatMessage.user(event.input)]))

    @action(ChatResponseEvent)
    def answer(event: ChatResponseEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(event.response.text))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import UUID

from flink_agents_py.events import Event, fill
from flink_agents_py.resources.messages import ChatMessage
from flink_agents_py.resources.output_schema import OutputSchema
from flink_agents_py.resources.vector_stores import Document


class ChatRequestEvent(Event):
    """A chat with a model, tools included, until it has an answer.

    Args:
        model: name of the chat model (setup).
        prompt_args: for the setup's prompt.
        output_schema: a pydantic model, a row type, a JSON Schema, or an :class:`OutputSchema` made from one.
        max_iterations: answers of the model that may ask for tools; the option ``chat.max-iterations`` if not given.
    """

    EVENT_TYPE: ClassVar[str] = "_chat_request_event"

    def __init__(
        self,
        model: str,
        messages: Sequence[ChatMessage],
        prompt_args: dict[str, Any] | None = None,
        output_schema: Any = None,
        max_iterations: int | None = None,
    ) -> None:
        attributes: dict[str, Any] = {
            "model": model,
            "messages": list(messages),
            "prompt_args": prompt_args or {},
            "output_schema": OutputSchema.of(output_schema),
        }
        if max_iterations is not None:
            attributes["max_iterations"] = max_iterations
        fill(self, self.EVENT_TYPE, attributes)

    @property
    def model(self) -> str:
        """Name of the chat model."""
        return str(self.attributes["model"])

    @property
    def messages(self) -> list[ChatMessage]:
        """What is said to it."""
        return [ChatMessage.model_validate(message) for message in self.attributes["messages"]]

    @property
    def prompt_args(self) -> dict[str, Any]:
        """Values for the setup's prompt."""
        return self.attributes.get("prompt_args") or {}

    @property
    def output_schema(self) -> OutputSchema | None:
        """The shape the answer is to have."""
        return OutputSchema.of(self.attributes.get("output_schema"))

    @property
    def max_iterations(self) -> int | None:
        """Answers that may ask for tools."""
        return self.attributes.get("max_iterations")


class ChatResponseEvent(Event):
    """The answer to a :class:`ChatRequestEvent`.

    Args:
        retry_count: attempts of model calls after their first, over all rounds of the chat.
        total_retry_wait_sec: seconds waited for those.
    """

    EVENT_TYPE: ClassVar[str] = "_chat_response_event"

    def __init__(
        self, request_id: UUID, response: ChatMessage, retry_count: int = 0, total_retry_wait_sec: float = 0
    ) -> None:
        fill(
            self,
            self.EVENT_TYPE,
            {
                "request_id": request_id,
                "response": response,
                "retry_count": retry_count,
                "total_retry_wait_sec": total_retry_wait_sec,
            },
        )

    @property
    def request_id(self) -> UUID:
        """Id of the request."""
        return _uuid(self.attributes["request_id"])

    @property
    def response(self) -> ChatMessage:
        """The model's last message."""
        return ChatMessage.model_validate(self.attributes["response"])

    @property
    def retry_count(self) -> int:
        """Attempts of model calls after their first."""
        return int(self.attributes.get("retry_count", 0))

    @property
    def total_retry_wait_sec(self) -> float:
        """Seconds waited for those."""
        return float(self.attributes.get("total_retry_wait_sec", 0))


class ToolRequestEvent(Event):
    """Tools to be called, in parallel.

    Args:
        model: the chat model whose tools they are; ``""`` for tools of the agent by their names.
        tool_calls: as in :attr:`ChatMessage.tool_calls`.
    """

    EVENT_TYPE: ClassVar[str] = "_tool_request_event"

    def __init__(self, model: str, tool_calls: Sequence[dict[str, Any]]) -> None:
        fill(self, self.EVENT_TYPE, {"model": model, "tool_calls": list(tool_calls)})

    @property
    def model(self) -> str:
        """The chat model that asks."""
        return str(self.attributes["model"])

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The calls."""
        calls: list[dict[str, Any]] = self.attributes["tool_calls"]
        return calls


class ToolResponseEvent(Event):
    """What tools gave; all dictionaries are by call id, in the order of the calls."""

    EVENT_TYPE: ClassVar[str] = "_tool_response_event"

    def __init__(
        self,
        request_id: UUID,
        responses: dict[Any, Any],
        external_ids: dict[Any, str | None] | None = None,
        success: dict[Any, bool] | None = None,
        error: dict[Any, str] | None = None,
    ) -> None:
        fill(
            self,
            self.EVENT_TYPE,
            {
                "request_id": request_id,
                "responses": responses,
                "external_ids": external_ids or {},
                "success": dict.fromkeys(responses, True) if success is None else success,
                "error": error or {},
            },
        )

    @property
    def request_id(self) -> UUID:
        """Id of the request."""
        return _uuid(self.attributes["request_id"])

    @property
    def responses(self) -> dict[Any, Any]:
        """Results; for one that failed, what the model is told."""
        responses: dict[Any, Any] = self.attributes["responses"]
        return responses

    @property
    def success(self) -> dict[Any, bool]:
        """Whether each call gave a result."""
        success: dict[Any, bool] = self.attributes.get("success", {})
        return success

    @property
    def error(self) -> dict[Any, str]:
        """Why, of those that failed."""
        error: dict[Any, str] = self.attributes.get("error", {})
        return error

    @property
    def external_ids(self) -> dict[Any, str | None]:
        """The provider's ids of the calls."""
        ids: dict[Any, str | None] = self.attributes.get("external_ids", {})
        return ids


class ContextRetrievalRequestEvent(Event):
    """A search in a vector store.

    Args:
        filters: metadata filter; see :class:`~flink_agents_py.resources.vector_stores.VectorStoreQuery`.
    """

    EVENT_TYPE: ClassVar[str] = "_context_retrieval_request_event"

    def __init__(
        self,
        query: str,
        vector_store: str,
        max_results: int = 3,
        *,
        collection: str | None = None,
        filters: dict[str, Any] | None = None,
        mode: str = "semantic",
    ) -> None:
        attributes: dict[str, Any] = {"query": query, "vector_store": vector_store, "max_results": max_results}
        attributes.update({"collection": collection, "filters": filters, "mode": mode})
        fill(self, self.EVENT_TYPE, attributes)

    @property
    def query(self) -> str:
        """What is looked for."""
        return str(self.attributes["query"])

    @property
    def vector_store(self) -> str:
        """Name of the vector store."""
        return str(self.attributes["vector_store"])

    @property
    def max_results(self) -> int:
        """Documents at most."""
        return int(self.attributes.get("max_results", 3))


class ContextRetrievalResponseEvent(Event):
    """The documents found, best first."""

    EVENT_TYPE: ClassVar[str] = "_context_retrieval_response_event"

    def __init__(self, request_id: UUID, query: str, documents: Sequence[Document]) -> None:
        fill(self, self.EVENT_TYPE, {"request_id": request_id, "query": query, "documents": list(documents)})

    @property
    def request_id(self) -> UUID:
        """Id of the request."""
        return _uuid(self.attributes["request_id"])

    @property
    def query(self) -> str:
        """What was looked for."""
        return str(self.attributes["query"])

    @property
    def documents(self) -> list[Document]:
        """The documents."""
        return [Document.model_validate(document) for document in self.attributes["documents"]]


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(str(value))
