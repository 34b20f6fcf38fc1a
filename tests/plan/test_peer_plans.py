"""Plans compiled by Apache Flink Agents: 0.3.1 and its main; the documents here have their shape, not their content."""

from __future__ import annotations

import json
import logging

import pytest
from pydantic import BaseModel

from flink_agents_py.builtin.chat import chat_model_action
from flink_agents_py.errors import FunctionNotFoundError, PlanFormatError
from flink_agents_py.plan import AgentPlan
from flink_agents_py.resources.base import Resource, ResourceType, SerializableResource

HERE = __name__


def on_input(event, ctx):
    return "input"


def on_both(event, ctx):
    return "both"


class Connection(Resource):
    def __init__(self, url):
        self.url = url


class Prompt(SerializableResource):
    text: str


class Inner(BaseModel):
    n: int


class Settings(BaseModel):
    inner: Inner


def python(qualname, module=HERE):
    return {"func_type": "PythonFunction", "module": module, "qualname": qualname}


def java(qualname):
    return {
        "func_type": "JavaFunction",
        "qualname": qualname,
        "method_name": "run",
        "parameter_types": ["org.apache.flink.agents.api.Event", "org.apache.flink.agents.api.context.RunnerContext"],
    }


def built_in(name, function, key, events):
    home = f"flink_agents.plan.actions.{name}"
    return {name: {"name": name, "exec": python(function, home), key: events, "config": None}}


def plan_031():
    key = "listen_event_types"
    return {
        "actions": {
            "one": {"name": "one", "exec": python("on_input"), key: ["_input_event"], "config": None},
            "two": {"name": "two", "exec": python("on_both"), key: ["_input_event", "mine"], "config": None},
            **built_in("chat_model_action", "process", key, ["_chat_request_event", "_tool_response_event"]),
            **built_in("tool_call_action", "process", key, ["_tool_request_event"]),
            **built_in("context_retrieval_action", "process", key, ["_context_retrieval_request_event", "mine"]),
        },
        "actions_by_event": {
            "_input_event": ["one", "two"],
            "mine": ["two", "context_retrieval_action"],
            "_chat_request_event": ["chat_model_action"],
            "_tool_response_event": ["chat_model_action"],
            "_tool_request_event": ["tool_call_action"],
            "_context_retrieval_request_event": ["context_retrieval_action"],
        },
        "resource_providers": {
            "chat_model_connection": {
                "c": {
                    "name": "c",
                    "type": "chat_model_connection",
                    "descriptor": {
                        "target_module": HERE,
                        "target_clazz": "Connection",
                        "arguments": {"url": {"$t": "not ours"}},
                    },
                    "__resource_provider_type__": "PythonResourceProvider",
                }
            },
            "prompt": {
                "p": {
                    "name": "p",
                    "type": "prompt",
                    "module": HERE,
                    "clazz": "Prompt",
                    "serialized": {"text": "hi"},
                    "__resource_provider_type__": "PythonSerializableResourceProvider",
                }
            },
            "tool": {},
        },
        "config": {"conf_data": {"some.key": "some value", "flag": True}},
    }


def plan_main(**action):
    key = "trigger_conditions"
    given = {"name": "one", "exec": python("on_input"), key: ["_input_event"], "config": None, **action}
    built = built_in("chat_model_action", "process", key, ["_chat_request_event"])
    return {
        "agent_name": "Theirs",
        "actions": {"one": given, **built},
        "resource_providers": {},
        "config": {"conf_data": {}},
    }


def load(document):
    return AgentPlan.from_json(json.dumps(document))


def test_a_plan_of_0_3_1_runs_here_without_its_built_in_actions(caplog):
    with caplog.at_level(logging.WARNING):
        plan = load(plan_031())
    assert plan.ignored == ("chat_model_action", "tool_call_action", "context_retrieval_action")
    assert "tool_call_action" in caplog.text
    assert plan.actions_by_event == {"_input_event": ["one", "two"], "mine": ["two"]}
    assert [a.callable(None, None) for a in plan.get_actions("_input_event")] == ["input", "both"]
    assert plan.get_action_config("one") == {}
    assert plan.agent_name == "Agent"
    assert plan.config.get("some.key") == "some value"
    assert plan.get_resource("c", ResourceType.CHAT_MODEL_CONNECTION).url == {"$t": "not ours"}
    assert plan.get_resource("p", ResourceType.PROMPT) == Prompt(text="hi")


def test_ours_stand_in_for_their_built_in_actions_where_there_are_resources_for_them():
    document = plan_main()
    descriptor = {"target_module": "somewhere", "target_clazz": "Model", "arguments": {}}
    document["resource_providers"]["chat_model"] = {
        "m": {
            "name": "m",
            "type": "chat_model",
            "descriptor": descriptor,
            "__resource_provider_type__": "PythonResourceProvider",
        }
    }
    plan = load(document)
    assert plan.ignored == ()
    assert plan.actions["chat_model_action"].callable is chat_model_action
    assert plan.actions_by_event["_tool_request_event"] == ["tool_call_action"]


def test_a_plan_of_main_runs_here_and_its_built_ins_may_be_java():
    document = plan_main()
    document["actions"]["tool_call_action"] = {
        "name": "tool_call_action",
        "exec": java("org.apache.flink.agents.plan.actions.ToolCallAction"),
        "trigger_conditions": ["_tool_request_event"],
        "config": None,
    }
    plan = load(document)
    assert plan.agent_name == "Theirs"
    assert plan.ignored == ("chat_model_action", "tool_call_action")
    assert plan.actions_by_event == {"_input_event": ["one"]}


def test_once_read_it_is_a_plan_of_ours():
    for document in (plan_031(), plan_main()):
        text = load(document).to_json()
        assert json.loads(text)["plan_version"] == 1
        assert AgentPlan.from_json(text).to_json() == text


def test_actions_in_java_are_refused_by_name():
    with pytest.raises(PlanFormatError, match="Java actions cannot run here") as caught:
        load(plan_main(exec=java("com.example.Handlers")))
    assert caught.value.where == "actions.one.exec"
    assert "com.example.Handlers" in str(caught.value)


def test_resources_in_java_are_refused_by_name():
    document = plan_main()
    document["resource_providers"]["chat_model"] = {
        "m": {"name": "m", "type": "chat_model", "__resource_provider_type__": "JavaResourceProvider"}
    }
    with pytest.raises(PlanFormatError, match="Java resources cannot run here") as caught:
        load(document)
    assert caught.value.where == "resource_providers.chat_model.m"


def test_condition_expressions_are_read():
    plan = load(plan_main(trigger_conditions=["_input_event", "attributes.ready == true"]))
    assert plan.actions["one"].conditions[0].source == "attributes.ready == true"
    with pytest.raises(PlanFormatError, match="neither true nor false"):
        load(plan_main(trigger_conditions=["_input_event", "(attributes.ready)"]))


def test_the_older_provider_shape_with_class_and_kwargs_is_read():
    document = plan_main()
    document["resource_providers"]["chat_model_connection"] = {
        "c": {
            "name": "c",
            "type": "chat_model_connection",
            "module": HERE,
            "clazz": "Connection",
            "kwargs": {"url": "u"},
            "__resource_provider_type__": "PythonResourceProvider",
        }
    }
    assert load(document).get_resource("c", ResourceType.CHAT_MODEL_CONNECTION).url == "u"


SETTINGS = {"inner": {"n": 1}}


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"__pydantic_model__": True, "module": HERE, "class": "Settings", "value": SETTINGS}, Settings(**SETTINGS)),
        ([HERE, "Settings", SETTINGS], Settings(**SETTINGS)),
        (["no.module", "Settings", SETTINGS], ["no.module", "Settings", SETTINGS]),
        ([HERE, "on_both", {}], [HERE, "on_both", {}]),
        ({"$t": "plain"}, {"$t": "plain"}),
        (5, 5),
    ],
    ids=["model of main", "model of 0.3.1", "no model", "a function", "our tag in their text", "number"],
)
def test_configuration_values_come_back_as_they_were_given(value, read):
    config = {"__config_type__": "python", "v": value}
    assert load(plan_main(config=config)).get_action_config("one") == {"v": read}


def test_configuration_values_of_java_plans_are_unwrapped():
    config = {"__config_type__": "java", "v": {"@class": "java.lang.Long", "value": 5}}
    assert load(plan_main(config=config)).get_action_config("one") == {"v": 5}


def test_a_model_whose_class_is_missing_is_named():
    value = {"__pydantic_model__": True, "module": "no.module", "class": "Settings", "value": {}}
    with pytest.raises(FunctionNotFoundError, match=r"no\.module") as caught:
        load(plan_main(config={"__config_type__": "python", "v": value}))
    assert "actions.one.config" in caught.value.where


def test_a_contradiction_between_actions_and_actions_by_event_is_refused():
    document = plan_031()
    document["actions_by_event"]["mine"] = ["one"]
    with pytest.raises(PlanFormatError, match="contradicts itself"):
        load(document)


@pytest.mark.parametrize("broken", ["exec", "triggers", "provider"])
def test_broken_documents_are_refused_with_the_place(broken):
    document = plan_031()
    if broken == "exec":
        document["actions"]["one"]["exec"] = None
    elif broken == "triggers":
        del document["actions"]["one"]["listen_event_types"]
    else:
        document["resource_providers"]["prompt"]["p"] = "p"
    with pytest.raises(PlanFormatError) as caught:
        load(document)
    assert caught.value.where.startswith(("actions.one", "resource_providers.prompt.p"))
