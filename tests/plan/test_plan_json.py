# ruff: noqa: N805 - an action without self is one of the forms under test
"""The plan as JSON: byte-stable, described by a schema, refused with the place of the mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from flink_agents_py.agent import Agent, action
from flink_agents_py.config import AgentConfiguration
from flink_agents_py.errors import FlinkAgentsError, PlanFormatError, UntrustedCodeError
from flink_agents_py.events import InputEvent
from flink_agents_py.plan import AgentPlan
from flink_agents_py.plan.document import json_schema_text
from flink_agents_py.policies import RetryPolicy, Timeouts
from flink_agents_py.resources.base import Resource, ResourceDescriptor, ResourceType, SerializableResource


class Words(SerializableResource):
    resource_type = ResourceType.PROMPT
    text: str


class Model(Resource):
    def __init__(self, temperature, prompt): ...


class Sample(Agent):
    @action(InputEvent, on_error="dead_letter", retry=RetryPolicy(max_attempts=2), timeouts=Timeouts(total=3), n=(1,))
    def first(event: InputEvent, ctx): ...

    @action("x", "y")
    def second(self, event, ctx): ...


def sample(by_value=False, **config):
    agent = Sample()
    agent.add_resource("hello", ResourceType.PROMPT, Words(text='grüß "Gott"'))
    agent.add_resource("m", ResourceType.CHAT_MODEL, ResourceDescriptor(Model, temperature=0.5, prompt="hello"))
    if by_value:
        agent.add_action("lambda", ["y"], lambda event, ctx: config)
    return AgentPlan.from_agent(agent, AgentConfiguration({"my.key": [1, None], **config}), "sample")


def edited(change):
    document = json.loads(sample().to_json())
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize("by_value", [False, True])
def test_a_plan_read_from_json_writes_the_same_bytes(by_value):
    text = sample(by_value).to_json()
    assert AgentPlan.from_json(text, allow_pickled=True).to_json() == text


def test_the_keys_are_those_of_flink_agents_and_ours():
    document = json.loads(sample().to_json())
    assert document["agent_name"] == "sample"
    assert document["actions"]["first"] == {
        "name": "first",
        "exec": {"func_type": "PythonFunction", "module": __name__, "qualname": "Sample.first"},
        "trigger_conditions": ["_input_event"],
        "config": {"n": {"$t": "tuple", "v": [1]}},
        "on_error": "dead_letter",
        "retry": RetryPolicy(max_attempts=2).model_dump(mode="json"),
        "timeouts": {"attempt": None, "total": 3.0},
    }
    assert document["actions"]["second"] == {
        "name": "second",
        "exec": {
            "func_type": "PythonFunction",
            "module": __name__,
            "qualname": "Sample.second",
            "receiver": "instance",
        },
        "trigger_conditions": ["x", "y"],
        "config": {},
    }
    assert document["actions_by_event"] == {
        "_input_event": ["first"],
        "x": ["second"],
        "y": ["second"],
        "_chat_request_event": ["chat_model_action"],  # the plan has a chat model
        "_tool_response_event": ["chat_model_action"],
        "_tool_request_event": ["tool_call_action"],
    }
    assert document["resource_providers"]["chat_model"]["m"] == {
        "name": "m",
        "type": "chat_model",
        "descriptor": {
            "target_module": __name__,
            "target_clazz": "Model",
            "arguments": {"temperature": 0.5, "prompt": "hello"},
        },
        "__resource_provider_type__": "PythonResourceProvider",
    }
    assert document["config"] == {"conf_data": {"my.key": [1, None]}}
    assert document["plan_version"] == 1
    assert len(document["fingerprint"]) == 32


def test_reading_a_plan_imports_none_of_the_agents_code():
    text = sample().to_json().replace(__name__, "nowhere.to_be_found")
    plan = AgentPlan.from_json(text)
    assert plan.actions["first"].exec.module == "nowhere.to_be_found"
    assert plan.to_json().count("nowhere.to_be_found") == 4


def test_the_configuration_travels_with_its_sources_and_is_a_copy():
    config = AgentConfiguration.load(environ={"FLINK_AGENTS_PY__MY__KEY": "7"})
    plan = AgentPlan.from_agent(Agent(), config)
    config.set("my.key", 8)
    loaded = AgentPlan.from_json(plan.to_json())
    assert loaded.config.get_int("my.key") == 7
    assert loaded.config.source_of("my.key").startswith("environment")


# --- trust ------------------------------------------------------------------------------------------------------------


def test_a_plan_with_pickled_functions_is_refused_unless_trusted():
    with pytest.raises(UntrustedCodeError, match="lambda"):
        AgentPlan.from_json(sample(by_value=True).to_json())


def test_a_pickle_nobody_refers_to_is_refused_too():
    document = json.loads(sample(by_value=True).to_json())
    del document["actions"]["lambda"], document["actions_by_event"]
    with pytest.raises(UntrustedCodeError):
        AgentPlan.from_json(json.dumps(document))


@pytest.mark.parametrize("place", ["action", "resource", "config"])
def test_pickles_hidden_among_values_are_refused_whoever_is_trusted(place):
    pickle = {"$t": "pickle", "c": "x:y", "v": "gAROLg=="}

    def hide(document):
        {
            "action": lambda: document["actions"]["first"]["config"],
            "resource": lambda: document["resource_providers"]["chat_model"]["m"]["descriptor"]["arguments"],
            "config": lambda: document["config"]["conf_data"],
        }[place]()["evil"] = pickle

    def read():
        plan = AgentPlan.from_json(edited(hide), allow_pickled=True)
        plan.get_action_config("first")
        plan.get_resource("m", ResourceType.CHAT_MODEL)

    with pytest.raises(PlanFormatError, match="pickled"):
        read()


# --- malformed, newer, contradictory ----------------------------------------------------------------------------------


def _rename(document):
    document["actions"]["other"] = document["actions"].pop("first")


def _misfile(document):
    document["resource_providers"]["tool"] = document["resource_providers"].pop("prompt")


CHANGES = {
    "newer": (lambda d: d.update(plan_version=2), "version 2", "plan_version"),
    "no version": (lambda d: d.update(plan_version="1"), "'1'", "plan_version"),
    "bool version": (lambda d: d.update(plan_version=True), "True", "plan_version"),
    "unknown key": (lambda d: d.update(acctions={}), "Extra inputs", "acctions"),
    "unknown action key": (lambda d: d["actions"]["first"].update(onerror=1), "Extra", "actions.first.onerror"),
    "bad policy": (lambda d: d["actions"]["first"].update(on_error="ignore"), "'skip'", "actions.first.on_error"),
    "no trigger": (lambda d: d["actions"]["first"].update(trigger_conditions=[]), "at least 1", "actions.first"),
    "condition": (lambda d: d["actions"]["first"].update(trigger_conditions=["a == @"]), "no part of CEL", "'first'"),
    "no exec": (lambda d: d["actions"]["first"].pop("exec"), "required", "actions.first.exec"),
    "renamed": (_rename, "filed as 'other'", "actions.other"),
    "misfiled": (_misfile, "filed as tool 'hello'", "resource_providers.tool.hello"),
    "unlisted": (lambda d: d["actions_by_event"].pop("x"), "'x' triggers ['second']", "actions_by_event"),
    "listed twice": (lambda d: d["actions_by_event"]["x"].append("first"), "'x' triggers", "actions_by_event"),
    "listed for nothing": (lambda d: d["actions_by_event"].update(z=["first"]), "'z' triggers []", "actions_by_event"),
    "bad resource type": (lambda d: d["resource_providers"].update(toys={}), "chat_model", "resource_providers.toys"),
    "lost pickle": (
        lambda d: d["actions"]["first"]["exec"].update(pickled_as="first"), "no pickled_functions", "'sample'"
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_wrong_plan_is_refused_with_the_place(change):
    edit, what, where = CHANGES[change]
    with pytest.raises(PlanFormatError) as caught:
        assert AgentPlan.from_json(edited(edit), allow_pickled=True).actions["first"].callable
    assert what in caught.value.what
    assert where in caught.value.where
    assert caught.value.code == "FA107"
    assert caught.value.fix


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"actions": []}', '{"actions": {"a": 1}}'])
def test_what_is_no_plan_at_all_is_refused(text):
    with pytest.raises(PlanFormatError):
        AgentPlan.from_json(text)


def test_a_key_that_occurs_twice_is_refused_instead_of_dropping_one_action():
    text = '{"plan_version": 1, "agent_name": "a", "actions": {"f": {}, "f": {}}}'
    with pytest.raises(PlanFormatError, match="'f' twice"):
        AgentPlan.from_json(text)


def test_an_edited_plan_without_derived_parts_is_a_plan():
    def strip(document):
        del document["fingerprint"], document["actions_by_event"]

    assert AgentPlan.from_json(edited(strip)).to_json() == sample().to_json()


# --- fingerprint ------------------------------------------------------------------------------------------------------


def test_the_fingerprint_is_the_same_in_every_process():
    program = "from tests.plan.test_plan_json import sample; print(sample(by_value=True).fingerprint)"
    root = str(Path(__file__).parents[2])
    for seed in "12":
        environ = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": seed}
        result = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ
        )
        assert result.stdout.strip() == sample(by_value=True).fingerprint


def test_the_fingerprint_covers_what_a_run_depends_on():
    agents = {
        "as it is": Agent().add_action("a", ["x"], print),
        "name": Agent().add_action("b", ["x"], print),
        "trigger": Agent().add_action("a", ["y"], print),
        "function": Agent().add_action("a", ["x"], repr_of := lambda event, ctx: repr(event)),
        "constant": Agent().add_action("a", ["x"], lambda event, ctx: repr(ctx)),
        "policy": Agent().add_action("a", ["x"], print, on_error="skip"),
        "config": Agent().add_action("a", ["x"], print, n=1),
        "resource": Agent().add_action("a", ["x"], print).add_resource("w", ResourceType.PROMPT, Words(text="")),
        "order 1": Agent().add_action("a", ["x"], print).add_action("b", ["x"], print),
        "order 2": Agent().add_action("b", ["x"], print).add_action("a", ["x"], print),
    }
    prints = {name: AgentPlan.from_agent(agent).fingerprint for name, agent in agents.items()}
    assert len(set(prints.values())) == len(agents)
    again = Agent().add_action("a", ["x"], repr_of)
    assert AgentPlan.from_agent(again).fingerprint == prints["function"]
    assert AgentPlan.from_agent(again, agent_name="other").fingerprint != prints["function"]
    assert AgentPlan.from_agent(again, AgentConfiguration({"k": 1})).fingerprint == prints["function"]


# --- schema -----------------------------------------------------------------------------------------------------------


def test_the_published_schema_is_the_one_in_the_package():
    published = files("flink_agents_py.plan").joinpath("agent_plan.schema.json").read_text("utf-8")
    assert json.loads(published) == AgentPlan.json_schema()
    assert published == json_schema_text()  # write it anew with what this function returns


@pytest.mark.parametrize("by_value", [False, True])
def test_plans_satisfy_the_schema(by_value):
    schema = AgentPlan.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(sample(by_value).to_json()), schema)


@pytest.mark.parametrize(
    "change", ["newer", "unknown key", "unknown action key", "bad policy", "no trigger", "no exec"]
)
def test_the_schema_refuses_what_reading_refuses(change):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(edited(CHANGES[change][0])), AgentPlan.json_schema())


def test_errors_about_plans_survive_pickling_to_another_process():
    import pickle

    with pytest.raises(FlinkAgentsError) as caught:
        AgentPlan.from_json("{")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_unknown_actions_are_named_with_those_there_are():
    with pytest.raises(FlinkAgentsError, match="first, second"):
        sample().get_action_config("third")
