"""A file of agents, read and checked as far as that goes without importing anything it names."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from flink_agents_py.declarative.aliases import CLASS_ALIASES, EVENT_ALIASES
from flink_agents_py.declarative.source import Location, Place, Source
from flink_agents_py.declarative.specs import ActionEntry, AgentsDocument, DescriptorEntry, Resources
from flink_agents_py.errors import AgentFileError, EnvironmentSetupError, TriggerError
from flink_agents_py.plan.conditions import read_condition
from flink_agents_py.plan.triggers import triggers_of
from flink_agents_py.resources.base import ResourceType

DESCRIBED = {
    "chat_model_connections": ResourceType.CHAT_MODEL_CONNECTION,
    "chat_model_setups": ResourceType.CHAT_MODEL,
    "embedding_model_connections": ResourceType.EMBEDDING_MODEL_CONNECTION,
    "embedding_model_setups": ResourceType.EMBEDDING_MODEL,
    "vector_stores": ResourceType.VECTOR_STORE,
    "mcp_servers": ResourceType.MCP_SERVER,
    "skills": ResourceType.SKILLS,
}
"""Sections of resources that classes build, and the type of each."""

_SECTIONS = (*DESCRIBED, "prompts", "tools", "external_actions")
_NEARLY = 0.6
_SEE = "see the JSON Schema of files of agents (docs/declarative-agents.md)"


class AgentsFile:
    """One file.

    Raises:
        AgentFileError: something in it is wrong; ``where`` says in which line and column.
    """

    def __init__(self, path: str | Path, values: Mapping[str, Any] | None = None) -> None:
        self.source = Source(path, values)
        try:
            self.document = AgentsDocument.model_validate(self.source.value)
        except ValidationError as error:
            raise self._shape_error(error) from None
        self._check_names("agents", self.document.agents, ("agents",))
        self._check(self.document, ())
        for number, action in enumerate(self.document.actions):
            self._check_triggers(action, ("actions", number))
        self._check_names("actions", self.document.actions, ("actions",))
        for number, agent in enumerate(self.document.agents):
            here = ("agents", number)
            self._check(agent, here)
            self._check_names("actions", agent.actions, (*here, "actions"))
            self._check_names("subagents", agent.subagents, (*here, "subagents"))
            for index, entry in enumerate(agent.actions):
                if isinstance(entry, ActionEntry):
                    self._check_triggers(entry, (*here, "actions", index))

    def where(self, location: Location) -> str:
        """The place of something, for messages."""
        steps = self.source.text_of(location)
        return f"{self.source.place(location)} ({steps})" if steps else str(self.source.place(location))

    def error(self, what: str, location: Location, fix: str) -> AgentFileError:
        """An error at a place."""
        return AgentFileError(what, where=self.where(location), fix=fix)

    # --- checks -----------------------------------------------------------------------------------------------------

    def _check(self, resources: Resources, here: Location) -> None:
        for section in _SECTIONS:
            entries = getattr(resources, section)
            self._check_names(section, entries, (*here, section))
            kind = DESCRIBED.get(section)
            for number, entry in enumerate(entries):
                if kind is not None and isinstance(entry, DescriptorEntry):
                    self._check_class(entry, kind, (*here, section, number, "clazz"))

    def _check_names(self, section: str, entries: list[Any], here: Location) -> None:
        seen: dict[str, int] = {}
        for number, entry in enumerate(entries):
            name = entry if isinstance(entry, str) else entry.name
            if name in seen:
                first = self.source.place((*here, seen[name]))
                raise self.error(
                    f"{name!r} is in {section} twice, first in line {first.line}", (*here, number), "rename one of them"
                )
            seen[name] = number

    def _check_class(self, entry: DescriptorEntry, kind: ResourceType, here: Location) -> None:
        known = CLASS_ALIASES.get(kind, {})
        if entry.clazz not in known and not {".", ":"}.intersection(entry.clazz):
            raise self.error(
                f"{entry.clazz!r} is no alias of a {kind.value}",
                here,
                f"aliases are: {', '.join(known) or 'none'}; others are written module:Class",
            )

    def _check_triggers(self, action: ActionEntry, here: Location) -> None:
        for number, entry in enumerate(action.triggers):
            location = (*here, action.triggers_key, number)
            try:
                for expression in triggers_of([entry], "").expressions:
                    condition = read_condition(expression, "")
                    with suppress(EnvironmentSetupError):  # whoever applies the agent needs it, and is told so
                        condition.program("")
            except TriggerError as error:
                place = self.source.place(location)
                if error.line is not None and error.column is not None:
                    shift = len(entry) - len(entry.lstrip())
                    place = self.source.inside(location, entry, error.line, error.column + shift)
                raise AgentFileError(
                    error.what, where=f"{place} ({self.source.text_of(location)})", fix=error.fix
                ) from error

    def _shape_error(self, error: ValidationError) -> AgentFileError:
        # In the order of the file; a mistyped key before what is missing because of it.
        problems = sorted(self._problem(problem) for problem in error.errors(include_url=False, include_input=False))
        *_, what, where, fix = problems[0]
        for *_, other, place, hint in problems[1:]:
            fix += f"\n  also: {other} ({place}{'' if hint == _SEE else f'; {hint}'})"
        return AgentFileError(what, where=where, fix=fix)

    def _problem(self, problem: Any) -> tuple[Place, bool, str, str, str]:
        location, kind = problem["loc"], problem["type"]
        what = problem["msg"].removeprefix("Value error, ")
        fix = _SEE
        if kind == "missing":
            what = f"{location[-1]} is missing"
        elif kind == "extra_forbidden":
            what = f"there is no key {location[-1]!r} here"
            near = difflib.get_close_matches(str(location[-1]), list(_keys_at(location[:-1])), n=1, cutoff=_NEARLY)
            if near:
                fix = f"is it {near[0]!r}?"
        elif kind == "string_type":
            fix = "write it as a text; YAML takes true, null and 42 for other things unless they are in quotes"
        steps = self.source.text_of(location, missing=kind == "missing")
        place = self.source.place(location, key=kind == "extra_forbidden")
        return place, kind != "extra_forbidden", what, f"{place} ({steps})" if steps else str(place), fix


def event_types(triggers: list[str]) -> list[str]:
    """Triggers with the aliases of event types replaced."""
    return [EVENT_ALIASES.get(trigger.strip(), trigger) for trigger in triggers]


def class_named(clazz: str, kind: ResourceType) -> str:
    """The class that an alias stands for; any other name as it is."""
    return CLASS_ALIASES.get(kind, {}).get(clazz, clazz)


def _keys_at(location: Location) -> Iterator[str]:
    """The keys that may be at a place, as far as the models' names tell."""
    model: Any = AgentsDocument
    for step in location:
        if isinstance(step, int) or not isinstance(model, type):
            continue
        field = model.model_fields.get(step) if issubclass(model, BaseModel) else None
        found = None if field is None else next(_models_in(field.annotation), None)
        model = found or model
    if isinstance(model, type) and issubclass(model, BaseModel):
        yield from model.model_fields


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)
