"""Agents that are called by another one: what tools and plans say of them."""

from __future__ import annotations

from collections.abc import Collection

from flink_agents_py.errors import AgentDefinitionError, FlinkAgentsError
from flink_agents_py.plan.providers import PlainResource
from flink_agents_py.plan.resources import Providers
from flink_agents_py.resources.agent_tool import AgentTool
from flink_agents_py.resources.base import ResourceType

_TOOL = (AgentTool.__module__, AgentTool.__qualname__)


def missing_agents(providers: Providers, agents: Collection[str]) -> list[FlinkAgentsError]:
    """A mistake for each tool whose agent is not there."""
    return [
        AgentDefinitionError(
            f"{tool.label} calls agent {tool.serialized.get('agent')!r}, which was not added",
            where=tool.label,
            fix=f"agent.add_agent({tool.serialized.get('agent')!r}, ...); "
            f"added are: {', '.join(map(repr, agents)) or 'none'}",
        )
        for tool in providers.get(ResourceType.TOOL, {}).values()
        if isinstance(tool, PlainResource)
        and (tool.module, tool.clazz) == _TOOL
        and tool.serialized.get("agent") not in agents
    ]
