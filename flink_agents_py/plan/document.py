"""The plan as JSON: its shape, its version, its schema, and reading it with errors that name the place."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flink_agents_py.errors import PlanFormatError
from flink_agents_py.plan.action import PlanAction
from flink_agents_py.plan.external import ExternalActionsDocument
from flink_agents_py.plan.functions import PickledCode
from flink_agents_py.plan.providers import ResourceProvider
from flink_agents_py.resources.base import ResourceType

PLAN_VERSION = 1
"""Raised when a reader of the old version would misunderstand a new plan."""


class ConfigDocument(BaseModel):
    """The agent's configuration."""

    model_config = ConfigDict(extra="forbid")

    conf_data: dict[str, Any] = Field(description="values by key, encoded by serde")
    sources: dict[str, str] = Field(default={}, description="where values come from that were not set in code")


class PlanDocument(BaseModel):
    """An agent, compiled: what it runs on which events, with which resources and configuration."""

    model_config = ConfigDict(extra="forbid", title="AgentPlan")

    plan_version: int = Field(ge=1, le=PLAN_VERSION)
    agent_name: str = Field(min_length=1)
    fingerprint: str | None = Field(
        default=None, description="digest of what the plan means; derived, so it is not read back"
    )
    actions: dict[str, PlanAction]
    actions_by_event: dict[str, list[str]] | None = Field(
        default=None, description="event type to names of the actions it triggers; must agree with actions"
    )
    resource_providers: dict[ResourceType, dict[str, ResourceProvider]] = {}
    config: ConfigDocument = ConfigDocument(conf_data={})
    external: ExternalActionsDocument | None = None
    agents: dict[str, dict[str, Any]] = Field(
        default={}, description="plans of the agents that this one calls, by name; each is a plan of its own"
    )
    pickled_functions: PickledCode | None = Field(
        default=None,
        description="all functions that travel by value, in one pickle; loading it runs code, so it must be trusted",
    )


def read_json(text: str) -> dict[str, Any]:
    """Parse plan JSON.

    Raises:
        PlanFormatError: it is no JSON object, or a key occurs twice (JSON readers would silently keep the last).
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except ValueError as error:
        raise PlanFormatError(f"the plan is not JSON: {error}", fix="pass the text that to_json() returned") from error
    if not isinstance(document, dict):
        raise PlanFormatError(
            f"the plan is a JSON {type(document).__name__}, not an object", fix="pass the text that to_json() returned"
        )
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise PlanFormatError(
            f"the plan has the key {', '.join(map(repr, twice))} twice in one object", fix="keep one of them"
        )
    return document


def parse(document: dict[str, Any]) -> PlanDocument:
    """Check the shape of a plan of this version.

    Raises:
        PlanFormatError: naming the place in the document.
    """
    version = document.get("plan_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise PlanFormatError(
            f"plan_version is {version!r}", where="plan_version", fix=f"it is a number from 1 to {PLAN_VERSION}"
        )
    if version > PLAN_VERSION:
        raise PlanFormatError(
            f"the plan has version {version}; this release reads versions up to {PLAN_VERSION}",
            where="plan_version",
            fix="load it with the release that wrote it, or compile the agent with this one",
        )
    try:
        return PlanDocument.model_validate(document)
    except ValidationError as error:
        raise _shape_error(error) from None


def _shape_error(error: ValidationError) -> PlanFormatError:
    problems = error.errors(include_url=False, include_input=False)
    places = [(".".join(str(part) for part in problem["loc"]), problem["msg"]) for problem in problems]
    more = f" (and {len(places) - 1} more: {', '.join(place for place, _ in places[1:4])})" if len(places) > 1 else ""
    return PlanFormatError(
        f"the plan does not have the shape of a plan: {places[0][1]}{more}",
        where=places[0][0],
        fix="compare with AgentPlan.json_schema()",
    )


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of plans of this version."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **PlanDocument.model_json_schema(by_alias=True, mode="validation"),
    }


def json_schema_text() -> str:
    """The content of ``agent_plan.schema.json`` beside this module; a test holds it to :func:`json_schema`."""
    return json.dumps(json_schema(), indent=2) + "\n"
