"""Chat models: a connection (the service, shared) and a setup (model, prompt, tools and options, by name)."""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from pydantic import BaseModel, Field, PrivateAttr, field_validator

from flink_agents_py.policies import RetryPolicy, Timeouts
from flink_agents_py.resources.base import ModelResource, ResourceType
from flink_agents_py.resources.mcp import BaseMCPServer, OfferedTool, RemoteTool
from flink_agents_py.resources.messages import ChatMessage, MessageRole
from flink_agents_py.resources.output_schema import OutputSchema
from flink_agents_py.resources.prompts import LocalPrompt, Prompt
from flink_agents_py.resources.tools import Tool, ToolMetadata

_MCP = "mcp:"
_IMPORT_S = 60.0  # the longest wait for an SDK to be imported, on a machine that is busy with other things too
TRANSIENT = ("ModelUnavailableError", "CallTimeoutError", "ConnectionError", "TimeoutError")
"""Errors of a model call that are worth another attempt whatever the error strategy says."""


class StructuredOutputStrategy(str, Enum):
    """How an output schema is brought to a model."""

    AUTO = "auto"
    """The provider's own way where the connection offers it for the model, else by prompt."""
    NATIVE = "native"
    """Always the provider's own way; its error if it has none."""
    PROMPT = "prompt"
    """By prompt alone."""

    @classmethod
    def _missing_(cls, value: object) -> StructuredOutputStrategy | None:
        return cls.__members__.get(value.upper()) if isinstance(value, str) else None


class Price(BaseModel):
    """What a model costs, in any currency, for a million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class BaseChatModelConnection(ModelResource, ABC):
    """A model service. Implement :meth:`chat`; and :meth:`achat` if there is an asyncio client: it scales better.

    Errors worth another attempt are raised as :class:`~flink_agents_py.errors.ModelUnavailableError`. A client's own
    retries belong switched off: ours are durable and wait on timers.
    """

    timeout: float = Field(default=60.0, gt=0, description="seconds for one attempt")
    max_retries: int = Field(default=3, ge=0, description="attempts after the first, for errors worth it")
    prices: dict[str, Price] = Field(default_factory=dict, description="by model, or by what its name begins with")

    def supports_native_structured_output(self, effective_model: str | None) -> bool:  # noqa: ARG002 - for subclasses
        """Whether the service itself can hold the model to a schema."""
        return False

    @abstractmethod
    def chat(
        self,
        messages: Sequence[ChatMessage],
        tools: list[Tool] | None = None,
        output_schema: OutputSchema | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """One answer.

        Args:
            tools: what the model may ask for.
            output_schema: given only where :meth:`supports_native_structured_output` said yes, or the user insists.
            kwargs: options of the setup: ``model``, ``temperature``, ...
        """

    async def achat(
        self,
        messages: Sequence[ChatMessage],
        tools: list[Tool] | None = None,
        output_schema: OutputSchema | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """The same from a coroutine; without an own implementation, :meth:`chat` on a thread."""
        extra = {} if output_schema is None else {"output_schema": output_schema}
        return await asyncio.to_thread(self.chat, messages, tools=tools, **extra, **kwargs)


class BaseChatModelSetup(ModelResource):
    """A model of a connection, with prompt, tools and options.

    Tools and prompts are names of resources; those nobody declared are looked for on the agent's MCP servers, when the
    model is first used. ``mcp:SERVER`` among the tools are all of a server, ``mcp:SERVER/TOOL`` is one of them.
    """

    connection: str
    model: str = ""
    prompt: str | LocalPrompt | None = None
    tools: list[str] = Field(default_factory=list)
    mcp_servers: list[str] = Field(default_factory=list, description="servers all of whose tools are offered")
    structured_output_strategy: StructuredOutputStrategy = StructuredOutputStrategy.AUTO
    additional_kwargs: dict[str, Any] = Field(default_factory=dict, description="options passed on as they are")

    _connection: Any = PrivateAttr(default=None)
    _tools: dict[str, Tool] = PrivateAttr(default_factory=dict)
    _servers: list[BaseMCPServer] = PrivateAttr(default_factory=list)
    _whole: list[BaseMCPServer] = PrivateAttr(default_factory=list)
    _remote: dict[str, BaseMCPServer | None] = PrivateAttr(default_factory=dict)
    _prompt: Prompt | None = PrivateAttr(default=None)

    @field_validator("structured_output_strategy", mode="before")
    @classmethod
    def _null_is_auto(cls, value: Any) -> Any:
        return StructuredOutputStrategy.AUTO if value is None else value

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """What goes to the connection with each chat."""
        own = {"model": self.model} if self.model else {}
        return {**own, **self.additional_kwargs}

    # --- what belongs to it -----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Find connection, prompt and tools."""
        context = self.resource_context
        if context is None:
            return
        self._connection = context.get_resource(self.connection, ResourceType.CHAT_MODEL_CONNECTION)
        servers = context.names(ResourceType.MCP_SERVER)
        whole, remote, tools = list(self.mcp_servers), dict[str, str | None](), list[str]()
        for entry in self.tools:
            if entry.startswith(_MCP):
                server, _, name = entry[len(_MCP) :].partition("/")
                if name:
                    remote[name] = server
                else:
                    whole.append(server)
            elif servers and entry not in context.names(ResourceType.TOOL):
                remote[entry] = None  # of whichever server has it
            else:
                tools.append(entry)
        remote_prompt = isinstance(self.prompt, str) and self.prompt not in context.names(ResourceType.PROMPT)
        named = [*whole, *(server for server in remote.values() if server)]
        wanted = servers if None in remote.values() or remote_prompt else list(dict.fromkeys(named))
        found = {name: context.get_resource(name, ResourceType.MCP_SERVER) for name in dict.fromkeys([*wanted, *named])}
        self._servers = list(found.values())
        self._whole = [found[name] for name in whole]
        self._remote = {name: None if server is None else found[server] for name, server in remote.items()}
        self._tools = {name: context.get_resource(name, ResourceType.TOOL) for name in tools}
        if isinstance(self.prompt, Prompt):
            self._prompt = self.prompt
        elif self.prompt is not None and (self.prompt in context.names(ResourceType.PROMPT) or not servers):
            self._prompt = context.get_resource(self.prompt, ResourceType.PROMPT)
        # Pydantic takes a long way to private attributes, and each chat asks for a dozen: from here on they are found
        # in the instance itself.
        vars(self).update(self.__pydantic_private__ or {})

    @property
    def is_async(self) -> bool:
        """Whether :meth:`achat` runs on the loop (else :meth:`chat` belongs on a thread)."""
        cls = type(self)
        if cls.achat is BaseChatModelSetup.achat and cls.chat is not BaseChatModelSetup.chat:
            return False
        return bool(self._servers) or type(self._connection).achat is not BaseChatModelConnection.achat

    @property
    def retry(self) -> RetryPolicy:
        """For durable calls of this model: errors of the service are worth another attempt, others are not."""
        return _retry(getattr(self._connection, "max_retries", 3))

    @property
    def timeouts(self) -> Timeouts:
        """For durable calls of this model."""
        # The connection's own timeout begins when its SDK is there; this one is for connections that forget theirs.
        return _timeouts(getattr(self._connection, "timeout", 60.0) + _IMPORT_S)

    def find_tool(self, name: str) -> Tool | None:
        """The tool a model asks for, if it is one that was offered; asks no server."""
        for tool in self._tools.values():
            if tool.name == name:
                return tool
        if name in self._tools:
            return self._tools[name]
        if name in self._remote or self._whole:
            server = self._remote.get(name)
            return RemoteTool(servers=self._servers if server is None else [server], metadata=ToolMetadata(name=name))
        return None

    @property
    def asks_servers(self) -> bool:
        """Whether tools or the prompt come from MCP servers."""
        return bool(self._remote or self._whole or (isinstance(self.prompt, str) and self._prompt is None))

    async def amissing(self) -> list[str]:
        """Tools it names, and its prompt, that none of its MCP servers has now; asks the servers."""
        offered = {tool.name for tool in await self._remote_tools()}
        missing = [f"the tool {name!r}" for name in self._remote if name not in offered]
        if isinstance(self.prompt, str) and self._prompt is None:
            prompts = [name for server in self._servers for name in await server.alist_prompts()]
            missing += [] if self.prompt in prompts else [f"the prompt {self.prompt!r}"]
        return missing

    def native(self, schema: OutputSchema | None) -> bool:
        """Whether a schema goes to the service, instead of into the prompt."""
        if schema is None or self.structured_output_strategy is StructuredOutputStrategy.PROMPT:
            return False
        if self.structured_output_strategy is StructuredOutputStrategy.NATIVE:
            return True
        return bool(self._opened().supports_native_structured_output(self.model_kwargs.get("model")))

    # --- chatting ---------------------------------------------------------------------------------------------------

    def chat(
        self,
        messages: Sequence[ChatMessage],
        prompt_args: Mapping[str, Any] | None = None,
        output_schema: OutputSchema | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """One answer, on this thread; tools and prompts of MCP servers need :meth:`achat`."""
        connection = self._opened()
        return self._answered(
            connection.chat(
                self._prompted(messages, prompt_args, None),
                tools=list(self._tools.values()),
                **self._options(output_schema, kwargs),
            )
        )

    async def achat(
        self,
        messages: Sequence[ChatMessage],
        prompt_args: Mapping[str, Any] | None = None,
        output_schema: OutputSchema | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """One answer; prompt and tools included, structured if there is a schema and the service can do it."""
        connection, tools, remote = self._opened(), list(self._tools.values()), None
        if self._servers:
            remote = await self._remote_prompt(prompt_args)
            tools += await self._remote_tools()
        return self._answered(
            await connection.achat(
                self._prompted(messages, prompt_args, remote),
                tools=tools,
                **self._options(output_schema, kwargs),
            )
        )

    def _opened(self) -> Any:
        connection = self._connection
        if connection is None:
            raise RuntimeError(f"{type(self).__name__} was not opened: get it by ctx.get_resource")
        return connection

    def _options(self, schema: OutputSchema | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        # A connection of before output schemas existed does not know the word.
        own = {} if schema is None else {"output_schema": schema}
        return {**self.model_kwargs, **own, **kwargs}

    def _prompted(
        self,
        messages: Sequence[ChatMessage],
        prompt_args: Mapping[str, Any] | None,
        remote: list[ChatMessage] | None,
    ) -> list[ChatMessage]:
        if self._prompt is None and remote is None:
            return list(messages)
        first = remote
        if first is None and self._prompt is not None:
            values: dict[str, Any] = {name: str(value) for name, value in (prompt_args or {}).items()}
            first = self._prompt.format_messages(**values)
        said = [message for message in messages if message.content or message.role is MessageRole.ASSISTANT]
        return [*(first or ()), *said]

    async def _remote_prompt(self, prompt_args: Mapping[str, Any] | None) -> list[ChatMessage] | None:
        if not isinstance(self.prompt, str) or self._prompt is not None:
            return None
        arguments = {name: str(value) for name, value in (prompt_args or {}).items()}
        for server in self._servers:
            found = await server.aget_prompt(self.prompt, arguments)
            if found is not None:
                return found
        context = self.resource_context
        assert context is not None
        context.get_resource(self.prompt, ResourceType.PROMPT)  # raises, and lists what there is
        return None

    async def _remote_tools(self) -> list[Tool]:
        offered: list[Tool] = []
        if not self._remote and not self._whole:
            return offered
        for server in self._servers:
            offered += [
                OfferedTool(metadata=metadata)
                for metadata in await server.alist_tools()
                if self._offers(server, metadata.name)
            ]
        return offered

    def _offers(self, server: BaseMCPServer, name: str) -> bool:
        if any(server is one for one in self._whole):
            return True
        return name in self._remote and (self._remote[name] is None or self._remote[name] is server)

    def _answered(self, answer: ChatMessage) -> ChatMessage:
        extra = answer.extra_args
        prices: Mapping[str, Price] = getattr(self._connection, "prices", None) or {}
        name = str(extra.get("model_name") or self.model)
        fitting = [known for known in prices if name.startswith(known)]
        if fitting and "promptTokens" in extra:
            price = prices[max(fitting, key=len)]
            tokens = extra["promptTokens"] * price.input + extra.get("completionTokens", 0) * price.output
            extra["cost"] = tokens / 1_000_000
        return answer


# Asked for with every chat, and always the same: making one takes as long as sending an event.
@functools.lru_cache(maxsize=64)
def _retry(retries: int) -> RetryPolicy:
    return RetryPolicy(max_attempts=1 + retries, initial=1.0, maximum=30.0, retry_on=TRANSIENT)


@functools.lru_cache(maxsize=64)
def _timeouts(seconds: float) -> Timeouts:
    return Timeouts(attempt=seconds)
