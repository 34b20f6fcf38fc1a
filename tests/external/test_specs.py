"""Specs as data: what they refuse, and how they travel in the plan."""

from __future__ import annotations

import json

import jsonschema
import pytest
from pydantic import BaseModel, ValidationError

from flink_agents_py import Agent, AgentPlan, AgentsExecutionEnvironment
from flink_agents_py.errors import (
    AgentDefinitionError,
    DuplicateNameError,
    FunctionNotFoundError,
    UntrustedCodeError,
)
from flink_agents_py.external import ActionCall, ActionCode, ActionRegistry, ActionResult, ActionSpec
from flink_agents_py.external.bindings import Binding
from flink_agents_py.external.codes import KNOWN_CODES
from tests.external.kit import Caller, echo, one


class Refund(BaseModel):
    order: int
    cents: int


async def other(call, session):
    return {"other": call.params}


def plan_of(registry: ActionRegistry) -> AgentPlan:
    return AgentPlan.from_agent(Caller(registry))


# --- specs ----------------------------------------------------------------------------------------------------------


def test_a_spec_is_json_and_comes_back_equal():
    spec = ActionSpec(name="refund", parameters=Refund, rate_per_s=5, version=3)
    again = ActionSpec.model_validate_json(spec.to_json())
    assert again == spec
    assert again.fingerprint == spec.fingerprint
    assert again.version == "3"
    assert again.parameters["required"] == ["order", "cents"]
    assert spec.model_copy(update={"rate_per_s": 6.0}).fingerprint != spec.fingerprint


def test_the_defaults_are_those_of_the_design():
    spec = ActionSpec(name="a")
    assert (spec.timeouts.connect, spec.timeouts.read, spec.timeouts.total) == (3, 30, 60)
    assert spec.retry.max_attempts == 3
    assert spec.grace_wait_ms == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "two words"},
        {"name": "a", "max_concurrent": 0},
        {"name": "a", "rate_per_s": 0},
        {"name": "a", "retry": {"on": ["NO_SUCH_CODE"]}},
        {"name": "a", "timeout": 5},
    ],
)
def test_a_spec_refuses_what_makes_no_sense(fields):
    with pytest.raises(ValidationError):
        ActionSpec.model_validate(fields)


def test_codes_are_what_they_are_called():
    assert all(getattr(ActionCode, code) == code for code in KNOWN_CODES)
    assert len(KNOWN_CODES) == 12


def test_a_tool_is_told_of_with_name_description_and_schema():
    registry = one(ActionSpec(name="refund", description="Pays back.", parameters=Refund))
    (tool,) = registry.tools()
    assert (tool["name"], tool["description"]) == ("refund", "Pays back.")
    assert set(tool["parameters"]["properties"]) == {"order", "cents"}


# --- keys -----------------------------------------------------------------------------------------------------------


def test_the_key_of_a_deed_is_made_of_its_content_alone():
    key = ActionCall("t", "do", {"a": 1, "b": [2]}, sequence=1).idempotency_key
    assert key == ActionCall("t", "do", {"b": [2], "a": 1}, sequence=9).idempotency_key
    others = [
        ActionCall("u", "do", {"a": 1, "b": [2]}),
        ActionCall("t", "do2", {"a": 1, "b": [2]}),
        ActionCall("t", "do", {"a": 1.0, "b": [2]}),
        ActionCall("td", "o", {"a": 1, "b": [2]}),
    ]
    assert len({key, *(call.idempotency_key for call in others)}) == 5
    assert key == "4326fd3b8923a7cb7dac7650b0c05d12"


def test_records_come_back_from_json_equal_in_type():
    result = ActionResult("SUCCESS", value={"at": (1, b"x")}, action="do")
    assert ActionResult.from_plain(json.loads(json.dumps(result.to_plain()))) == result
    assert ActionResult.from_plain({**result.to_plain(), "of a later release": 1}) == result
    call = ActionCall("t", "do", {"x": b"1"}, 4)
    assert ActionCall.from_plain(json.loads(json.dumps(call.to_plain()))) == call


@pytest.mark.parametrize("plain", [3, {"action": "do"}, {"trace_id": "t", "action": "do", "params": [1]}])
def test_a_call_of_another_shape_is_refused(plain):
    with pytest.raises(ValueError, match=r"object|trace_id"):
        ActionCall.from_plain(plain)


# --- registries -----------------------------------------------------------------------------------------------------


def test_a_name_is_registered_once():
    registry = one()
    with pytest.raises(DuplicateNameError, match="FA101"):
        registry.register(ActionSpec(name="do"), echo)
    with pytest.raises(DuplicateNameError, match="two registries"):
        AgentPlan.from_agent(Caller(registry).add_action_registry(one()))


@pytest.mark.parametrize("handler", [None, 3, "no_colon", Agent, lambda call: None])
def test_what_handles_nothing_is_refused(handler):
    with pytest.raises(AgentDefinitionError, match="cannot handle"):
        ActionRegistry().register(ActionSpec(name="a"), handler)


def test_a_schema_that_is_none_is_refused_when_the_agent_is_compiled():
    with pytest.raises(AgentDefinitionError, match="no JSON Schema"):
        plan_of(one(ActionSpec(name="do", parameters={"type": "objekt"})))


def test_a_handler_is_not_half_async():
    class Half:
        async def handle(self, call, session):
            """Is async."""

        def reconcile(self, call, session):
            """Is not."""

    with pytest.raises(AgentDefinitionError, match="both"):
        Binding(ActionSpec(name="a"), Half())


def test_the_environment_shares_its_registry_with_all_agents():
    agents = AgentsExecutionEnvironment.get_execution_environment().add_action_registry(one())

    class Own(Caller):
        def __init__(self):
            Agent.__init__(self)

    assert agents.from_list([{"key": "k", "value": 1}]).apply(Own()).to_list() == [{"k": "SUCCESS"}]


# --- plans ----------------------------------------------------------------------------------------------------------


def test_specs_and_handlers_are_part_of_the_plan_and_its_schema():
    plan = plan_of(one(ActionSpec(name="do", parameters=Refund), echo))
    text = plan.to_json()
    document = json.loads(text)
    jsonschema.validate(document, AgentPlan.json_schema())
    assert document["external"]["actions"]["do"]["handler"] == {"reference": "tests.external.kit:echo"}
    again = AgentPlan.from_json(text, allow_pickled=True)
    assert again.to_json() == text
    assert again.fingerprint == plan.fingerprint
    assert again.external.bindings().get("do", 0).spec.parameters["required"] == ["order", "cents"]


def test_a_plan_without_external_actions_says_nothing_of_them():
    class Bare(Agent):
        pass

    assert "external" not in json.loads(AgentPlan.from_agent(Bare()).to_json())


def test_another_spec_is_another_plan():
    one_plan, other_plan = plan_of(one()), plan_of(one(ActionSpec(name="do", max_concurrent=3)))
    assert one_plan.fingerprint != other_plan.fingerprint


def test_a_handler_nobody_can_import_travels_by_value_and_needs_trust():
    async def local(call, session):
        return 1

    class Bare(Agent):
        pass

    text = AgentPlan.from_agent(Bare().add_action_registry(one(handler=local))).to_json()
    with pytest.raises(UntrustedCodeError, match="do"):
        AgentPlan.from_json(text)
    binding = AgentPlan.from_json(text, allow_pickled=True).external.bindings().get("do", 0)
    assert binding.is_async


def test_a_handler_that_is_not_there_is_named():
    text = plan_of(ActionRegistry().register(ActionSpec(name="do"), "tests.external.kit:gone")).to_json()
    plan = AgentPlan.from_json(text, allow_pickled=True)
    with pytest.raises(FunctionNotFoundError, match=r"tests\.external\.kit:gone"):
        plan.external.bindings()
