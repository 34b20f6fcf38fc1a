"""Chat models behind OpenAI's protocol: OpenAI, Azure, vLLM, Ollama's and llama.cpp's ``/v1``, and the like.

Needs the extra ``openai``. With aiohttp there (the extra brings it) the SDK uses it as transport, which makes twice
the calls a second of the default one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import Field, SecretStr

from flink_agents_py.errors import ModelRequestError
from flink_agents_py.ext.openai_format import response_format, to_answer, to_messages, to_tools
from flink_agents_py.ext.provider_errors import model_error, within
from flink_agents_py.ext.sdk import Sdk
from flink_agents_py.resources.aio import LoopBound
from flink_agents_py.resources.chat_models import BaseChatModelConnection, BaseChatModelSetup
from flink_agents_py.resources.messages import ChatMessage
from flink_agents_py.resources.output_schema import OutputSchema
from flink_agents_py.resources.secrets import redact
from flink_agents_py.resources.tools import Tool

SDK = Sdk("openai", "openai")
_PATH = "/chat/completions"
_OPTIONS = {"extra_headers": "headers", "extra_query": "params", "extra_body": "extra_json", "timeout": "timeout"}
_NO_KEY = "none"  # the SDK insists on one, and would send that of OPENAI_API_KEY to any server


class OpenAIClients:
    """The SDK's clients for one account: a sync one, and an asyncio one per event loop. Their own retries are off.

    Args:
        azure: arguments of the SDK's Azure clients; ``None`` for the plain ones.
    """

    def __init__(
        self,
        *,
        api_key: SecretStr | None,
        base_url: str | None,
        timeout: float,
        headers: dict[str, str] | None = None,
        azure: dict[str, Any] | None = None,
    ) -> None:
        self._azure = azure
        key = None if api_key is None else api_key.get_secret_value()
        if key is None and base_url is not None:
            key = _NO_KEY
        self._arguments: dict[str, Any] = {"api_key": key, "timeout": timeout, "max_retries": 0}
        if azure is not None:
            self._arguments |= azure
        else:
            self._arguments["base_url"] = base_url
        if headers:
            self._arguments["default_headers"] = headers
        self._loaded = False
        self._sync: Any = None
        self._async: LoopBound[Any] = LoopBound(self._make_async, lambda client: client.close())

    def sync(self) -> Any:
        """The sync client."""
        if self._sync is None:
            sdk = SDK.load()
            self._sync = (sdk.OpenAI if self._azure is None else sdk.AzureOpenAI)(**self._arguments)
        return self._sync

    async def asynchronous(self) -> Any:
        """The asyncio client of the running loop."""
        if not self._loaded:
            await SDK.aload()
            self._loaded = True
        return self._async.get()

    def close(self) -> None:
        """Close all of them."""
        client, self._sync = self._sync, None
        if client is not None:
            client.close()
        self._async.close()

    def _make_async(self) -> Any:
        sdk = SDK.load()
        try:
            transport = {"http_client": sdk.DefaultAioHttpClient(timeout=self._arguments["timeout"])}
        except RuntimeError:  # no aiohttp here
            transport = {}
        return (sdk.AsyncOpenAI if self._azure is None else sdk.AsyncAzureOpenAI)(**self._arguments, **transport)


class OpenAIChatModelConnection(BaseChatModelConnection):
    """A server that speaks OpenAI's protocol.

    Args:
        api_key: by reference, ``"env:OPENAI_API_KEY"``; without it and a base URL, the SDK looks at its own variable.
        base_url: of the server, ``http://host:port/v1``; OpenAI's own if not given. ``api_base_url`` is the same.
    """

    secret_arguments: ClassVar[frozenset[str]] = frozenset({"api_key", "default_headers"})

    api_key: SecretStr | None = None
    base_url: str | None = None
    api_base_url: str | None = None
    default_headers: dict[str, str] = Field(default_factory=dict)

    def supports_native_structured_output(self, effective_model: str | None) -> bool:  # noqa: ARG002
        """All servers of the protocol are asked; one that refuses is asked again by prompt."""
        return True

    def open(self) -> None:
        """Begin to import the SDK."""
        SDK.warm()

    def close(self) -> None:
        """Close the clients."""
        clients: OpenAIClients | None = vars(self).pop("clients", None)
        if clients is not None:
            clients.close()

    @cached_property
    def clients(self) -> OpenAIClients:
        """The SDK's clients."""
        return self._make_clients()

    def _make_clients(self) -> OpenAIClients:
        return OpenAIClients(
            api_key=self.api_key,
            base_url=self.base_url or self.api_base_url,
            timeout=self.timeout,
            headers=self.default_headers,
        )

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
        request = _request(messages, tools, output_schema, kwargs)
        try:
            completion = self.clients.sync().post(_PATH, **_low_level(request))
        except SDK.load().APIError as error:
            raise self._error(error, request) from error
        return self._answer(completion, request)

    async def achat(
        self,
        messages: Sequence[ChatMessage],
        tools: list[Tool] | None = None,
        output_schema: OutputSchema | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """One answer, from a coroutine."""
        request = _request(messages, tools, output_schema, kwargs)
        client = await self.clients.asynchronous()
        asked = client.post(_PATH, **_low_level(request))
        try:
            completion = await within(self.timeout, asked, self._service, str(request.get("model", "")))
        except SDK.load().APIError as error:
            raise self._error(error, request) from error
        return self._answer(completion, request)

    def _answer(self, completion: Any, request: dict[str, Any]) -> ChatMessage:
        try:
            return to_answer(completion)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ModelRequestError(
                f"{self._service} answers with what is no chat completion: {redact(repr(completion)[:200])}",
                where=f"model {str(request.get('model', ''))!r}",
                fix="check that the base URL is that of a server of OpenAI's protocol; most end in /v1",
            ) from error

    def _error(self, error: Exception, request: dict[str, Any]) -> Exception:
        return model_error(error, self._service, str(request.get("model", "")))

    @property
    def _service(self) -> str:
        return self.base_url or self.api_base_url or "OpenAI"


class AzureOpenAIChatModelConnection(OpenAIChatModelConnection):
    """A resource of Azure OpenAI; the setup's ``model`` is the name of the deployment."""

    azure_endpoint: str
    api_version: str

    def _make_clients(self) -> OpenAIClients:
        return OpenAIClients(
            api_key=self.api_key,
            base_url=None,
            timeout=self.timeout,
            headers=self.default_headers,
            azure={"azure_endpoint": self.azure_endpoint, "api_version": self.api_version},
        )


class OpenAIChatModelSetup(BaseChatModelSetup):
    """A model of such a server with its options; others go into ``additional_kwargs``."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, gt=0)
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    seed: int | None = None
    strict: bool = Field(default=False, description="hold the model to the schemas of tools that have a strict form")

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """What goes to the service with each chat."""
        given = {
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "reasoning_effort": self.reasoning_effort,
            "logprobs": self.logprobs or None,
            "top_logprobs": self.top_logprobs if self.logprobs else None,
            "seed": self.seed,
            "strict": self.strict or None,
        }
        return {
            "model": self.model,
            **{name: value for name, value in given.items() if value is not None},
            **self.additional_kwargs,
        }


def _low_level(request: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the SDK's low-level request, which does all of its authentication and errors.

    The typed one walks through each message of the conversation and builds models of the answer: a third of the CPU
    time of a chat, for what :func:`to_answer` takes apart again.
    """
    body = {name: value for name, value in request.items() if name not in _OPTIONS}
    options = {_OPTIONS[name]: value for name, value in request.items() if name in _OPTIONS}
    return {"body": body, "options": options, "cast_to": object}


class AzureOpenAIChatModelSetup(OpenAIChatModelSetup):
    """A deployment of Azure OpenAI; ``model`` is its name.

    Args:
        model_of_azure_deployment: the model behind it, for whoever reads the plan; answers name it themselves.
    """

    model_of_azure_deployment: str | None = None


def _request(
    messages: Sequence[ChatMessage], tools: list[Tool] | None, schema: OutputSchema | None, options: dict[str, Any]
) -> dict[str, Any]:
    held = bool(options.pop("strict", False))
    request = {"messages": to_messages(messages), **options}
    if tools:
        request["tools"] = to_tools(tools, held=held)
    if schema is not None:
        request["response_format"] = response_format(schema)
    return request
