"""The plan of an agent in a file, for who has no environment: the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flink_agents_py.declarative.loader import AgentFiles
from flink_agents_py.errors import AgentDefinitionError
from flink_agents_py.plan.plan import AgentPlan
from flink_agents_py.resources.base import ResourceType

SUFFIXES = (".yaml", ".yml")


def file_and_agent(name: str) -> tuple[Path, str | None] | None:
    """The file and the agent of ``agents.yaml`` or ``agents.yaml:agent``; ``None`` if it names no YAML file."""
    path, colon, agent = name.rpartition(":")
    if colon and path.endswith(SUFFIXES):
        return Path(path), agent
    return (Path(name), None) if name.endswith(SUFFIXES) else None


def plan_of_file(path: Path, agent_name: str | None) -> AgentPlan:
    """Compile an agent of a file.

    Args:
        agent_name: may be left out where the file has only one.

    Raises:
        AgentDefinitionError: (or a subclass) something in the file or in the agent is wrong.
    """
    files = AgentFiles()
    shared = files.load(path)
    if agent_name is None:
        if len(files.names) != 1:
            raise AgentDefinitionError(
                f"the file has {len(files.names)} agents: {', '.join(files.names) or 'none'}",
                where=str(path),
                fix=f"name one: {path}:NAME",
            )
        agent_name = files.names[0]
    resources: dict[ResourceType, dict[str, Any]] = {}
    for name, kind, resource in shared.resources:
        resources.setdefault(kind, {})[name] = resource
    agent = files.make(agent_name)
    return AgentPlan.from_agent(
        agent, None, agent_name, shared_resources=resources, shared_registries=shared.registries
    )
