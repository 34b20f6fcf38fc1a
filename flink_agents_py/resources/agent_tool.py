"""Agents as tools: a model asks, another agent of the same plan answers."""

from __future__ import annotations

from typing import Any

from flink_agents_py.errors import ToolError
from flink_agents_py.resources.tools import Tool, ToolMetadata, ToolType

_INPUT = "input"
_ANYTHING = {
    "type": "object",
    "properties": {_INPUT: {"type": "string", "description": "what to ask it"}},
    "required": [_INPUT],
}


class AgentTool(Tool):
    """A tool that is an agent of the plan (``agent.add_agent``); ``Tool.from_agent`` makes one."""

    agent: str
    whole: bool = False

    @classmethod
    def of(cls, agent: str, description: str, parameters: dict[str, Any] | None, name: str | None) -> AgentTool:
        """See ``Tool.from_agent``."""
        metadata = ToolMetadata(name=name or agent, description=description, parameters=parameters or _ANYTHING)
        return cls(agent=agent, whole=parameters is not None, metadata=metadata)

    @classmethod
    def tool_type(cls) -> ToolType:
        """Where it runs."""
        return ToolType.AGENT

    def input_of(self, arguments: dict[str, Any]) -> Any:
        """What the agent gets as its input.

        Raises:
            ToolError: the model has left it out.
        """
        if self.whole:
            return arguments
        if _INPUT not in arguments:
            raise ToolError(f"the tool {self.name} needs the argument {_INPUT!r}")
        return arguments[_INPUT]

    def call(self, **arguments: Any) -> Any:  # noqa: ARG002 - the signature of tools
        """Not here: the tool action goes through ``ctx.call_agent``.

        Raises:
            ToolError: always.
        """
        raise ToolError(
            f"the agent {self.agent!r} is called by the tool action, not by the tool",
            where=f"tool {self.name}",
            fix=f"await ctx.call_agent({self.agent!r}, input) in an action, or let the tool action do it",
        )
