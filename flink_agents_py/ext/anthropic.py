"""Chat models of Anthropic. Needs the extra ``anthropic``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field, PrivateAttr, SecretStr

from flink_agents_py.ext.anthropic_format import to_answer, to_request
from flink_agents_py.ext.provider_errors import model_error, within
from flink_agents_py.ext.sdk import Sdk
from flink_agents_py.resources.aio import LoopBound
from flink_agents_py.resources.chat_models import BaseChatModelConnection, BaseChatModelSetup
from flink_agents_py.resources.messages import ChatMessage
from flink_agents_py.resources.output_schema import OutputSchema
from flink_agents_py.resources.tools import Tool

SDK = Sdk("anthropic", "anthropic")
# Models with structured outputs: version 4.5 and later.
_HELD_TO_SCHEMAS = re.compile(r"claude-[a-z]+-(4-([5-9]|[1-9]\d)(?!\d)|[5-9](?!\d))")


class AnthropicChatModelConnection(BaseChatModelConnection):
    """Anthropic's service, or one that speaks its protocol.

    Args:
        api_key: by reference, ``"env:ANTHROPIC_API_KEY"``; without it the SDK's own variable counts.
    """

    secret_arguments: ClassVar[frozenset[str]] = frozenset({"api_key", "default_headers"})

    api_key: SecretStr | None = None
    base_url: str | None = None
    default_headers: dict[str, str] = Field(default_factory=dict)

    _sync: Any = PrivateAttr(default=None)
    _async: Any = PrivateAttr(default=None)

    def supports_native_structured_output(self, effective_model: str | None) -> bool:
        """Whether the model is known to offer it."""
        return bool(effective_model and _HELD_TO_SCHEMAS.search(effective_model))

    def open(self) -> None:
        """Begin to import the SDK."""
        SDK.warm()

    def close(self) -> None:
        """Close the clients."""
        if self._sync is not None:
            self._sync.close()
        if self._async is not None:
            self._async.close()
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
            ModelRequestError: any other status.
        """
        sdk = SDK.load()
        if self._sync is None:
            self._sync = sdk.Anthropic(**self._arguments())
        try:
            return to_answer(self._sync.messages.create(**to_request(messages, tools, output_schema, kwargs)))
        except sdk.APIError as error:
            raise model_error(error, self.base_url or "Anthropic", str(kwargs.get("model", ""))) from error

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
            self._async = LoopBound(self._make_async, lambda client: client.close())
        service, model = self.base_url or "Anthropic", str(kwargs.get("model", ""))
        asked = self._async.get().messages.create(**to_request(messages, tools, output_schema, kwargs))
        try:
            return to_answer(await within(self.timeout, asked, service, model))
        except sdk.APIError as error:
            raise model_error(error, service, model) from error

    def _arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {"timeout": self.timeout, "max_retries": 0}
        if self.api_key is not None:
            arguments["api_key"] = self.api_key.get_secret_value()
        elif self.base_url is not None:
            arguments["api_key"] = "none"  # not the one of ANTHROPIC_API_KEY to any server
        if self.base_url is not None:
            arguments["base_url"] = self.base_url
        if self.default_headers:
            arguments["default_headers"] = self.default_headers
        return arguments

    def _make_async(self) -> Any:
        sdk = SDK.load()
        try:
            transport = {"http_client": sdk.DefaultAioHttpClient(timeout=self.timeout)}
        except RuntimeError:  # no aiohttp here
            transport = {}
        return sdk.AsyncAnthropic(**self._arguments(), **transport)


class AnthropicChatModelSetup(BaseChatModelSetup):
    """A model with its options; others go into ``additional_kwargs``."""

    max_tokens: int = Field(default=1024, gt=0)
    temperature: float | None = Field(default=None, ge=0, le=1)

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """What goes to the service with each chat."""
        warmth = {} if self.temperature is None else {"temperature": self.temperature}
        return {"model": self.model, "max_tokens": self.max_tokens, **warmth, **self.additional_kwargs}
