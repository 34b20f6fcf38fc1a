"""Functions as tools: what a model is told of them, and how they travel."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from flink_agents_py import Agent, AgentPlan, ResourceType, Tool, tool
from flink_agents_py.errors import AgentDefinitionError, SignatureError, ToolError, UntrustedCodeError

TOOL = ResourceType.TOOL


class Address(BaseModel):
    city: str
    zip_code: str | None = None


def book(
    day: date,
    address: Address,
    people: Annotated[int, Field(ge=1, description="how many come")] = 2,
    kind: Literal["table", "room"] = "table",
) -> str:
    """Book a place.

    Ask before you do.

    Args:
        day: of the visit
        address: where
    """
    return f"{kind} for {people} in {address.city} on {day:%d.%m.}"


def plan_with(**tools):
    agent = Agent()
    for name, instance in tools.items():
        agent.add_resource(name, TOOL, instance)
    return AgentPlan.from_json(AgentPlan.from_agent(agent).to_json(), allow_pickled=True)


def test_the_schema_comes_from_signature_annotations_and_docstring():
    metadata = Tool.from_callable(book).metadata
    assert metadata.name == "book"
    assert metadata.description == "Book a place.\n\nAsk before you do."
    properties = metadata.parameters["properties"]
    assert properties["day"] == {"type": "string", "format": "date", "description": "of the visit"}
    assert properties["people"] == {"type": "integer", "minimum": 1, "default": 2, "description": "how many come"}
    assert properties["kind"]["enum"] == ["table", "room"]
    assert metadata.parameters["required"] == ["day", "address"]


def test_the_models_arguments_become_the_types_the_function_declares():
    tool_ = plan_with(book=Tool.from_callable(book)).get_resource("book", TOOL)
    arguments = tool_.arguments({"day": "2026-03-01", "address": {"city": "Oslo"}})
    assert tool_.call(**arguments) == "table for 2 in Oslo on 01.03."


def test_arguments_that_do_not_fit_are_told_by_name():
    with pytest.raises(ToolError, match=r"people: Input should be greater than or equal to 1; address: Field required"):
        Tool.from_callable(shuffled).arguments({"people": 0})


def shuffled(people: Annotated[int, Field(ge=1)], address: Address) -> None: ...


def test_a_tool_decorated_in_the_class_belongs_to_the_agent():
    class Clerk(Agent):
        @tool
        @staticmethod
        def greet(name: str) -> str:
            """Greet somebody."""
            return f"hello {name}"

    plan = AgentPlan.from_json(AgentPlan.from_agent(Clerk()).to_json(), allow_pickled=True)
    assert plan.get_resource("greet", TOOL).call(name="Ann") == "hello Ann"


def test_a_plain_function_will_do_as_a_tool():
    assert plan_with(book=book).get_resource("book", TOOL).name == "book"


def test_a_tool_that_travels_by_value_needs_a_trusted_plan():
    agent = Agent().add_resource("twice", TOOL, Tool.from_callable(lambda n: n * 2, name="twice"))
    text = AgentPlan.from_agent(agent).to_json()
    with pytest.raises(UntrustedCodeError, match="twice"):
        AgentPlan.from_json(text)
    assert AgentPlan.from_json(text, allow_pickled=True).get_resource("twice", TOOL).call(n=4) == 8


def test_the_fingerprint_of_a_plan_does_not_depend_on_pickled_bytes():
    def plan():
        return AgentPlan.from_agent(Agent().add_resource("t", TOOL, Tool.from_callable(lambda n: n, name="t")))

    read = AgentPlan.from_json(plan().to_json(), allow_pickled=True)
    assert read.fingerprint == plan().fingerprint


def test_a_tool_with_self_is_refused():
    class Clerk(Agent):
        @tool
        def greet(self, name: str) -> str: ...

    with pytest.raises(AgentDefinitionError, match="tool with self"):
        AgentPlan.from_agent(Clerk())


def test_a_tool_with_star_arguments_is_refused():
    def many(*names: str) -> None: ...

    with pytest.raises(SignatureError, match=r"takes \*names"):
        Tool.from_callable(many)
