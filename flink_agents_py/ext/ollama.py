"""Chat models of an Ollama server, in its own protocol. Needs the extra ``ollama``.

Its SDK talks through httpx, which is fine for the handful of chats such a server does at a time. For many in flight use
:mod:`flink_agents_py.ext.openai` with the server's ``/v1``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field, PrivateAttr

from flink_agents_py.ext.provider_errors import model_error, within
from flink_agents_py.ext.sdk import Sdk
from flink_agents_py.resources.aio import LoopBound
from flink_agents_py.resources.chat_models import BaseChatModelConnection, BaseChatModelSetup
from flink_agents_py.resources.messages import ChatMessage, ImagePart, MessageRole, tool_call
from flink_agents_py.resources.output_schema import OutputSchema
from flink_agents_py.resources.tools import Tool

SDK = Sdk("ollama", "ollama")
_THOUGHT = re.compile(r"\s*<think>(.*?)</think>", re.DOTALL)  # of models whose server does not take it apart
_NETWORK = ("ConnectionError", "TransportError", "OSError", "TimeoutError")


class OllamaChatModelConnection(BaseChatModelConnection):
    """An Ollama server."""

    secret_arguments: ClassVar[frozenset[str]] = frozenset({"headers"})

    base_url: str = "http://localhost:11434"
    request_timeout: float | None = Field(default=None, gt=0, description="the same as timeout")
    headers: dict[str, str] = Field(default_factory=dict)

    _sync: Any = PrivateAttr(default=None)
    _async: Any = PrivateAttr(default=None)

    def supports_native_structured_output(self, effective_model: str | None) -> bool:  # noqa: ARG002
        """The server constrains any model to a schema."""
        return True

    def model_post_init(self, _context: Any) -> None:
        """Take the peer's name for the timeout."""
        if self.request_timeout is not None:
            self.timeout = self.request_timeout

    def open(self) -> None:
        """Begin to import the SDK."""
        SDK.warm()

    def close(self) -> None:
        """Forget the clients; the SDK closes their connections with them."""
        self._sync = self._async = None

    def chat(
        self,
        messages: Sequence[ChatMessage],
        tools: list[Tool] | None = None,
        output_schema: OutputSchema | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """One answer.

        Raises:
            ModelUnavailableError: 408, 409, 429, 5xx, or no connection.
            ModelRequestError: any other status, or a model the server does not have.
        """
        if self._sync is None:
            self._sync = SDK.load().Client(host=self.base_url, timeout=self.timeout, headers=self.headers)
        try:
            return _answer(self._sync.chat(**_request(messages, tools, output_schema, kwargs)), kwargs)
        except Exception as error:
            raise self._error(error, kwargs) from error

    async def achat(
        self,
        messages: Sequence[ChatMessage],
        tools: list[Tool] | None = None,
        output_schema: OutputSchema | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """One answer, from a coroutine."""
        sdk = await SDK.aload()
        if self._async is None:
            self._async = LoopBound(
                lambda: sdk.AsyncClient(host=self.base_url, timeout=self.timeout, headers=self.headers)
            )
        asked = self._async.get().chat(**_request(messages, tools, output_schema, kwargs))
        try:
            return _answer(await within(self.timeout, asked, self.base_url, str(kwargs.get("model", ""))), kwargs)
        except Exception as error:
            raise self._error(error, kwargs) from error

    def _error(self, error: Exception, options: dict[str, Any]) -> Exception:
        sdk = SDK.load()
        of_network = any(cls.__name__ in _NETWORK for cls in type(error).__mro__)
        if isinstance(error, (sdk.ResponseError, sdk.RequestError)) or of_network:
            return model_error(error, self.base_url, str(options.get("model", "")))
        return error


class OllamaChatModelSetup(BaseChatModelSetup):
    """A model of such a server with its options; others go into ``additional_kwargs`` (Ollama's ``options``)."""

    temperature: float | None = Field(default=None, ge=0)
    num_ctx: int | None = Field(default=None, gt=0, description="tokens of context")
    keep_alive: str | float | None = None
    think: bool | str | None = None
    extract_reasoning: bool = Field(default=True, description="take <think>...</think> out of the answer")

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """What goes to the service with each chat."""
        options = {"temperature": self.temperature, "num_ctx": self.num_ctx}
        given = {name: value for name, value in options.items() if value is not None}
        own = {"keep_alive": self.keep_alive, "think": self.think}
        return {
            "model": self.model,
            "options": {**given, **self.additional_kwargs},
            **{name: value for name, value in own.items() if value is not None},
            "extract_reasoning": self.extract_reasoning,
        }


def _request(
    messages: Sequence[ChatMessage], tools: list[Tool] | None, schema: OutputSchema | None, options: dict[str, Any]
) -> dict[str, Any]:
    passed = {name: value for name, value in options.items() if name != "extract_reasoning"}
    request: dict[str, Any] = {"messages": [_message(message) for message in messages], **passed}
    if tools:
        described = [tool.metadata for tool in tools if tool.metadata is not None]
        request["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in described
        ]
    if schema is not None:
        request["format"] = schema.schema_dict()
    return request


def _message(message: ChatMessage) -> dict[str, Any]:
    document: dict[str, Any] = {"role": message.role.value, "content": message.text}
    if isinstance(message.content, list):
        images = [part.data for part in message.content if isinstance(part, ImagePart) and part.data]
        if images:
            document["images"] = images
    if message.tool_calls:
        document["tool_calls"] = [
            {"function": {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}}
            for call in message.tool_calls
        ]
    if message.role is MessageRole.TOOL and "tool_name" in message.extra_args:
        document["tool_name"] = message.extra_args["tool_name"]
    return document


def _answer(response: Any, options: dict[str, Any]) -> ChatMessage:
    said = response.message
    prompt, completion = response.prompt_eval_count or 0, response.eval_count or 0
    extra: dict[str, Any] = {
        "model_name": response.model,
        "finish_reason": response.done_reason,
        "promptTokens": prompt,
        "completionTokens": completion,
        "usage": {"prompt": prompt, "completion": completion},
    }
    content, thoughts = said.content or "", said.thinking
    if not thoughts and options.get("extract_reasoning", True) and (found := _THOUGHT.match(content)):
        content, thoughts = content[found.end() :].lstrip(), found[1].strip()
    if thoughts:
        extra["reasoning"] = thoughts
    # The protocol has no ids: calls of one message are told apart by their number.
    calls = [
        tool_call(call.function.name, dict(call.function.arguments), f"call_{number}")
        for number, call in enumerate(said.tool_calls or ())
    ]
    return ChatMessage(role=MessageRole.ASSISTANT, content=content, tool_calls=calls, extra_args=extra)
