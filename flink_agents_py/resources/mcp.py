"""What the framework asks of an MCP server; the one on the official SDK is :mod:`flink_agents_py.ext.mcp`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from flink_agents_py.errors import ToolError
from flink_agents_py.resources.base import ModelResource, ResourceType
from flink_agents_py.resources.messages import ChatMessage
from flink_agents_py.resources.tools import Tool, ToolMetadata, ToolType


class BaseMCPServer(ModelResource, ABC):
    """A server of tools and prompts. It is contacted when first used, on the worker, from the background loop."""

    @abstractmethod
    async def alist_tools(self) -> list[ToolMetadata]:
        """The tools it has now."""

    @abstractmethod
    async def acall_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool; text, or the structured content it gives.

        Raises:
            ToolError: the server reports an error of the tool; the message is for the model.
        """

    @abstractmethod
    async def alist_prompts(self) -> list[str]:
        """Names of the prompts it has now."""

    @abstractmethod
    async def aget_prompt(self, name: str, arguments: Mapping[str, str]) -> list[ChatMessage] | None:
        """A prompt with its arguments filled in; ``None`` if the server has none of that name."""


class RemoteTool(Tool):
    """A tool of one of several MCP servers; which of them has it shows when it is called."""

    servers: list[Any]

    @classmethod
    def tool_type(cls) -> ToolType:
        """Where it runs."""
        return ToolType.MCP

    @property
    def is_async(self) -> bool:
        """Always."""
        return True

    def call(self, **arguments: Any) -> Any:  # noqa: ARG002 - the signature of tools
        """Not here: servers are reached from the background loop.

        Raises:
            ToolError: always.
        """
        raise ToolError(
            f"the tool {self.name!r} of an MCP server cannot be called synchronously",
            where=f"tool {self.name}",
            fix="await ctx.durable_execute_async(tool.acall, ...)",
        )

    async def acall(self, **arguments: Any) -> Any:
        """Find the server and call the tool there."""
        for server in self.servers:
            if any(tool.name == self.name for tool in await server.alist_tools()):
                return await server.acall_tool(self.name, arguments)
        raise ToolError(f"no MCP server has a tool {self.name!r} (any more)", where=f"tool {self.name}")


class OfferedTool(Tool):
    """A tool of an MCP server as it is offered to a model."""

    resource_type: ClassVar[ResourceType] = Tool.resource_type

    def call(self, **arguments: Any) -> Any:  # noqa: ARG002 - the signature of tools
        """Not here: it is called through :class:`RemoteTool`.

        Raises:
            ToolError: always.
        """
        raise ToolError(
            f"the tool {self.name!r} is only a description of what an MCP server offers",
            where=f"tool {self.name}",
            fix="get the tool from the agent's resources and call that",
        )
