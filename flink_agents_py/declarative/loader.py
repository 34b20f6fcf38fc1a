"""Files of agents -> agents and shared resources.

What a file says is checked when it is loaded. The functions of an agent are imported when the agent is made, so a file
may have agents whose code is not here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flink_agents_py.agent import ActionMarker, AddedAction, Agent
from flink_agents_py.builtin.react_agent import ReActAgent
from flink_agents_py.declarative.document import DESCRIBED, AgentsFile, class_named, event_types
from flink_agents_py.declarative.source import Location
from flink_agents_py.declarative.specs import (
    ActionEntry,
    AgentEntry,
    ExternalActionEntry,
    ReActEntry,
    Resources,
    Template,
    ToolEntry,
)
from flink_agents_py.errors import AgentDefinitionError, AgentFileError, FlinkAgentsError, FunctionNotFoundError
from flink_agents_py.external.registry import ActionRegistry
from flink_agents_py.external.spec import ActionSpec
from flink_agents_py.plan.importing import resolve
from flink_agents_py.resources.base import ResourceDescriptor, ResourceType, SerializableResource
from flink_agents_py.resources.messages import ChatMessage
from flink_agents_py.resources.prompts import LocalPrompt, Prompt
from flink_agents_py.resources.tools import Tool

Paths = str | Path | Iterable[str | Path]


class _Declared(NamedTuple):
    """An entry, and where it is."""

    file: AgentsFile
    location: Location
    entry: Any

    @property
    def where(self) -> str:
        return self.file.where(self.location)


class Shared(NamedTuple):
    """What files share with all agents of an environment."""

    resources: list[tuple[str, ResourceType, ResourceDescriptor | SerializableResource]]
    registries: list[ActionRegistry]


class AgentFiles:
    """The agents of all files loaded into one environment."""

    def __init__(self) -> None:
        self._agents: dict[str, _Declared] = {}
        self._actions: dict[str, _Declared] = {}
        self._resources: dict[tuple[str, str], _Declared] = {}

    def load(
        self,
        paths: Paths,
        values: Mapping[str, Any] | None = None,
        *,
        taken: Mapping[ResourceType, Mapping[str, Any]] | None = None,
    ) -> Shared:
        """Read files; if one of them is wrong, nothing of any of them is taken.

        Args:
            values: what ``${name}`` stands for.
            taken: names of shared resources that are there already.

        Raises:
            AgentFileError: something in a file is wrong, or in an earlier one too.
        """
        given = [paths] if isinstance(paths, (str, Path)) else list(paths)
        agents, actions, resources = dict(self._agents), dict(self._actions), dict(self._resources)
        shared = Shared([], [])
        for path in given:
            file = AgentsFile(path, values)
            document = file.document
            for number, agent in enumerate(document.agents):
                _add(agents, agent.name, _Declared(file, ("agents", number), agent), "agent")
            for number, action in enumerate(document.actions):
                _add(actions, action.name, _Declared(file, ("actions", number), action), "shared action")
            for section in (*DESCRIBED, "prompts", "tools", "external_actions"):
                for number, entry in enumerate(getattr(document, section)):
                    declared = _Declared(file, (section, number), entry)
                    _add(resources, (section, entry.name), declared, f"shared entry of {section}")
            for name, kind, resource in _resources(file, (), document):
                if name in (taken or {}).get(kind, {}):
                    where = getattr(resource, "place", None) or file.where(())
                    fix = "rename one, or drop what the environment was given by add_resource"
                    raise AgentFileError(f"there is a shared {kind.value} {name!r} already", where=where, fix=fix)
                shared.resources.append((name, kind, resource))
            registry = _registry(file, (), document.external_actions)
            if registry is not None:
                shared.registries.append(registry)
        self._agents, self._actions, self._resources = agents, actions, resources
        return shared

    @property
    def names(self) -> list[str]:
        """The agents there are."""
        return list(self._agents)

    def place_of(self, section: str, name: str) -> str | None:
        """Where a file declares a shared resource."""
        declared = self._resources.get((section, name))
        return None if declared is None else declared.where

    def make(self, name: str, callers: tuple[str, ...] = ()) -> Agent:
        """The agent of that name; its functions are imported.

        Args:
            callers: the agents that call it, where it is made for them.

        Raises:
            AgentDefinitionError: there is none of that name.
            AgentFileError: it names a shared action that no file has.
            FunctionNotFoundError: a function is not here.
        """
        declared = self._agents.get(name)
        if declared is None:
            near = difflib.get_close_matches(name, self.names, n=1)
            fix = f"is it {near[0]!r}?" if near else "load its file before: load_yaml(path)"
            raise AgentDefinitionError(
                f"there is no agent {name!r}; loaded are: {', '.join(map(repr, self.names)) or 'none'}",
                where=f".apply({name!r})",
                fix=fix,
            )
        file, here, entry = declared
        agent = _react(file, (*here, "react"), entry.react) if entry.react is not None else Agent()
        for resource_name, kind, resource in _resources(file, here, entry):
            agent.add_resource(resource_name, kind, resource)
        registry = _registry(file, here, entry.external_actions)
        if registry is not None:
            agent.add_action_registry(registry)
        self._add_actions(agent, declared, entry)
        for number, item in enumerate(entry.subagents):
            called, wanted = (item, item) if isinstance(item, str) else (item.name, item.agent)
            place = (*here, "subagents", number)
            if wanted not in self._agents:
                raise file.error(
                    f"there is no agent {wanted!r}", place, f"loaded are: {', '.join(self.names) or 'none'}"
                )
            if wanted in (*callers, name):
                circle = " -> ".join((*callers, name, wanted))
                raise file.error(f"agents call each other in a circle: {circle}", place, "break the circle")
            agent.add_agent(called, self.make(wanted, (*callers, name)))
        return agent

    def _add_actions(self, agent: Agent, declared: _Declared, entry: AgentEntry) -> None:
        file, here = declared.file, declared.location
        for number, item in enumerate(entry.actions):
            own = _Declared(file, (*here, "actions", number), item)
            if isinstance(item, str):
                found = self._actions.get(item)
                if found is None:
                    fix = f"shared actions are: {', '.join(self._actions) or 'none'}"
                    raise file.error(f"there is no shared action {item!r}", own.location, fix)
                own = found
            if own.entry.name in agent.actions:
                raise file.error(
                    f"the agent has an action {own.entry.name!r} already", (*here, "actions", number), "rename one"
                )
            _add_action(agent, own)


def _add(known: dict[Any, _Declared], key: Any, declared: _Declared, what: str) -> None:
    if key in known:
        name = key if isinstance(key, str) else key[1]
        raise declared.file.error(
            f"the {what} {name!r} is declared twice, first at {known[key].where}",
            declared.location,
            "rename one; an agent cannot be put together from several files",
        )
    known[key] = declared


def _add_action(agent: Agent, declared: _Declared) -> None:
    entry: ActionEntry = declared.entry
    function = _function(declared.file, (*declared.location, "function"), entry.function)
    marker = ActionMarker(
        triggers=tuple(event_types(entry.triggers)),
        on_error=entry.on_error,
        retry=entry.retry,
        timeouts=entry.timeouts,
        config=dict(entry.config or {}),
        aliases=tuple(entry.aliases),
    )
    # Not by add_action: there, a key of the configuration may not be called as one of its parameters.
    agent.actions[entry.name] = AddedAction(entry.name, function, marker, declared.where)


def _function(file: AgentsFile, location: Location, reference: str) -> Any:
    module, _, qualname = reference.partition(":")
    try:
        return resolve(module, qualname, what=file.where(location))
    except FunctionNotFoundError as error:
        fix = "correct the name (module:attribute), and let Python find the module: PYTHONPATH, or an installation"
        raise FunctionNotFoundError(error.what, where=error.where, fix=fix) from error


# --- resources --------------------------------------------------------------------------------------------------------


def _resources(
    file: AgentsFile, here: Location, entries: Resources
) -> Iterable[tuple[str, ResourceType, ResourceDescriptor | SerializableResource]]:
    for section, kind in DESCRIBED.items():
        for number, entry in enumerate(getattr(entries, section)):
            descriptor = ResourceDescriptor(class_named(entry.clazz, kind), **entry.arguments)
            descriptor.place = file.where((*here, section, number))
            yield entry.name, kind, descriptor
    for entry in entries.prompts:
        yield entry.name, ResourceType.PROMPT, _prompt(entry)
    for number, tool in enumerate(entries.tools):
        yield tool.name, ResourceType.TOOL, _tool(file, (*here, "tools", number), tool)


def _prompt(entry: Template) -> LocalPrompt:
    if entry.text is not None:
        return Prompt.from_text(entry.text)
    return Prompt.from_messages(
        [ChatMessage(role=message.role, content=message.content) for message in entry.messages or []]
    )


def _tool(file: AgentsFile, location: Location, entry: ToolEntry) -> Tool:
    function = _function(file, (*location, "function"), entry.function)
    injected: dict[str, Any] = {name: arg.model_dump() for name, arg in entry.injected_args.items()}
    try:
        return Tool.from_callable(
            function, name=entry.name, injected_args=injected, retry=entry.retry, timeouts=entry.timeouts
        )
    except FlinkAgentsError as error:
        raise type(error)(error.what, where=file.where(location), fix=error.fix) from error


def _registry(file: AgentsFile, here: Location, entries: list[ExternalActionEntry]) -> ActionRegistry | None:
    if not entries:
        return None
    registry = ActionRegistry()
    for number, entry in enumerate(entries):
        location = (*here, "external_actions", number)
        fields = {name: getattr(entry, name) for name in entry.model_fields_set - {"handler"}}
        if isinstance(entry.parameters, str):
            fields["parameters"] = _function(file, (*location, "parameters"), entry.parameters)
        try:
            registry.register(ActionSpec(**fields), entry.handler)
        except FlinkAgentsError as error:
            raise type(error)(error.what, where=file.where(location), fix=error.fix) from error
    return registry


def _react(file: AgentsFile, location: Location, entry: ReActEntry) -> ReActAgent:
    schema: Any = entry.output_schema
    if isinstance(schema, str):
        schema = _function(file, (*location, "output_schema"), schema)
    return ReActAgent(
        chat_model=entry.chat_model,
        prompt=None if entry.prompt is None else _prompt(entry.prompt),
        output_schema=schema,
        max_iterations=entry.max_iterations,
        on_error=entry.on_error,
    )
