"""Agents of YAML files: what is in a file runs as the same agent in Python would."""

from __future__ import annotations

import json
import sys
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator

from flink_agents_py import Agent, AgentPlan, AgentsExecutionEnvironment, InputEvent, Prompt, ResourceType
from flink_agents_py.declarative.specs import json_schema
from flink_agents_py.errors import AgentDefinitionError, AgentFileError, EnvironmentSetupError, FunctionNotFoundError
from tests.support.yaml_functions import shout

HOME = "tests.support.yaml_functions"


@pytest.fixture
def load(tmp_path):
    """Load texts as files of one environment."""

    def load(*texts, **values):
        environment = AgentsExecutionEnvironment.get_execution_environment()
        paths = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text.replace("HOME", HOME), encoding="utf-8")
        return environment.load_yaml(paths, values=values or None)

    return load


def outputs(environment, name, *inputs):
    listed = [{"key": "k", "value": value} for value in inputs]
    return [output["k"] for output in environment.from_list(listed).apply(name).to_list()]


SHOUTER = """
agents:
  - name: shouter
    description: says it louder
    actions:
      - name: shout
        function: HOME:shout
        trigger_conditions: [input]
        type: python
        config: {mark: "?"}
"""


def test_an_agent_is_applied_by_its_name(load):
    assert outputs(load(SHOUTER), "shouter", "why", 1) == ["WHY?", "1?"]


def test_its_plan_is_that_of_the_agent_in_python_and_has_its_name(load):
    agent, name = load(SHOUTER).named_agent("shouter")
    python = Agent().add_action("shout", [InputEvent], shout, mark="?")
    assert AgentPlan.from_agent(agent, None, name).to_json() == AgentPlan.from_agent(python, None, "shouter").to_json()


def test_the_name_in_the_plan_may_be_another(load):
    environment = load(SHOUTER)
    assert environment.named_agent("shouter", "older_name")[1] == "older_name"


def test_the_older_key_listen_to_means_the_same(load):
    assert outputs(load(SHOUTER.replace("trigger_conditions", "listen_to")), "shouter", "a") == ["A?"]


def test_triggers_may_be_expressions(load):
    pytest.importorskip("cel", reason="common-expression-language needs Python 3.11")
    text = SHOUTER.replace("[input]", '["type == EventType.InputEvent && input > 1", "input == \'x\'"]')
    assert outputs(load(text), "shouter", 1, 2, "x") == ["2?", "X?"]


def test_a_file_with_expressions_can_be_loaded_without_their_evaluator(load, monkeypatch):
    text = SHOUTER.replace("[input]", "[\"input == 'x'\"]")
    monkeypatch.setitem(sys.modules, "cel", None)
    environment = load(text, SHOUTER.replace("shouter", "other"))
    assert outputs(environment, "other", "a") == ["A?"]
    with pytest.raises(EnvironmentSetupError) as caught:
        environment.from_list([1]).apply("shouter")
    assert "0.yaml:6:9 (agents[0].actions[0])" in caught.value.where


SHARING = """
agents:
  - name: one
    actions: [tell]
  - name: two
    actions:
      - name: shout
        function: HOME:shout
        trigger_conditions: [input]
      - tell
actions:
  - name: tell
    function: HOME:count
    trigger_conditions: [_input_event]
    config: {name: shared}
"""


def test_a_file_has_several_agents_and_they_share_actions(load):
    environment = load(SHARING)
    assert environment.declared_agents == ["one", "two"]
    assert outputs(environment, "one", 1) == ["shared _input_event"]
    assert outputs(environment, "two", 1) == ["1!", "shared _input_event"]


def test_what_is_shared_may_be_in_a_file_that_is_loaded_later(load):
    agents, actions = SHARING.split("actions:\n  - name: tell")
    assert outputs(load(agents, f"actions:\n  - name: tell{actions}"), "one", 1) == ["shared _input_event"]


RESOURCES = """
agents:
  - name: helper
    react:
      chat_model: model
      prompt: {text: "Answer: {input}"}
      output_schema: HOME:Answer
      max_iterations: 3
      on_error: dead_letter
    chat_model_setups:
      - {name: model, clazz: openai, connection: service, model: m, prompt: style, tools: [look_up]}
    prompts:
      - name: style
        messages:
          - {role: system, content: "Be brief. {\\"a\\": 1}"}
          - {content: "{input}"}
    tools:
      - name: look_up
        function: HOME:look_up
        injected_args: {tenant: {source: config, key: tenant}}
        timeouts: {total: 3}
chat_model_connections:
  - {name: service, clazz: "flink_agents_py.ext.openai:OpenAIChatModelConnection", base_url: "${url}", max_retries: 1}
"""


def plan_of(environment, name):
    agent, name = environment.named_agent(name)
    return AgentPlan.from_agent(agent, None, name, shared_resources=environment.shared_resources)


def test_resources_of_every_kind_are_in_the_plan(load):
    plan = plan_of(load(RESOURCES, url="http://localhost:1/v1"), "helper")
    connection = plan.resource_providers[ResourceType.CHAT_MODEL_CONNECTION]["service"]
    assert connection.descriptor.arguments == {"base_url": "http://localhost:1/v1", "max_retries": 1}
    setup = plan.resource_providers[ResourceType.CHAT_MODEL]["model"].descriptor
    assert (setup.target_module, setup.arguments["tools"]) == ("flink_agents_py.ext.openai", ["look_up"])
    tool = plan.get_resource("look_up", ResourceType.TOOL)
    assert tool.metadata.parameters["required"] == ["word"]
    assert (tool.injected_args["tenant"].key, tool.timeouts.total) == ("tenant", 3)
    style = plan.get_resource("style", ResourceType.PROMPT)
    assert [message.role.value for message in style.template] == ["system", "user"]
    assert plan.get_resource("_default_user_prompt", ResourceType.PROMPT) == Prompt.from_text("Answer: {input}")
    start = plan.actions["start_action"]
    assert (start.config["max_iterations"], start.on_error) == (3, "dead_letter")


def test_external_actions_are_called_from_an_action(load):
    text = """
agents:
  - name: clerk
    actions:
      - {name: pay, function: "HOME:pay", trigger_conditions: [input], on_error: skip, aliases: [paid]}
external_actions:
  - {name: refund, handler: "HOME:refund", parameters: "HOME:Refund", max_concurrent: 2}
"""
    environment = load(text)
    assert outputs(environment, "clerk", 17, "x") == [{"paid": 17}, "INVALID_CALL"]


CALLING = """
agents:
  - name: asker
    actions:
      - {name: ask, function: "HOME:ask_shouter", trigger_conditions: [input]}
    subagents:
      - {name: loud, agent: shouter}
"""


def test_an_agent_may_call_others_of_any_file(load):
    assert outputs(load(CALLING, SHOUTER), "asker", "why") == [["WHY?"]]


def test_values_are_filled_in_with_their_type(load):
    text = SHOUTER.replace('config: {mark: "?"}', 'config: {mark: "${a}${b}", n: "${n}"}')
    agent, _ = load(text, a="x", b=1, n=2.5).named_agent("shouter")
    assert agent.actions["shout"].marker.config == {"mark": "x1", "n": 2.5}


def test_without_values_texts_that_look_like_placeholders_stay(load):
    agent, _ = load(SHOUTER.replace('"?"', '"${a}"')).named_agent("shouter")
    assert agent.actions["shout"].marker.config == {"mark": "${a}"}


def test_anchors_and_merged_keys_are_understood(load):
    text = """
agents:
  - name: one
    actions:
      - &base {name: a, function: "HOME:shout", trigger_conditions: [input], config: {mark: a}}
      - {<<: *base, name: b, config: {mark: b}}
"""
    assert outputs(load(text), "one", "x") == ["Xa", "Xb"]


def test_functions_are_imported_when_the_agent_is_applied(load):
    environment = load(SHOUTER, SHOUTER.replace("shouter", "other").replace("HOME", "no_such_module"))
    assert outputs(environment, "shouter", "a") == ["A?"]
    with pytest.raises(FunctionNotFoundError) as caught:
        environment.named_agent("other")
    assert caught.value.where.endswith("1.yaml:7:19 (agents[0].actions[0].function)")


def test_an_unknown_name_is_told_what_there_is(load):
    with pytest.raises(AgentDefinitionError, match="loaded are: 'shouter'") as caught:
        load(SHOUTER).from_list([1]).apply("shuter")
    assert caught.value.fix == "is it 'shouter'?"
    with pytest.raises(AgentDefinitionError, match="loaded are: none"):
        AgentsExecutionEnvironment.get_execution_environment().from_list([1]).apply("x")


def test_a_wrong_file_among_several_leaves_nothing_behind(load, tmp_path):
    environment = load(SHARING)
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(SHOUTER.replace("HOME", HOME))
    bad.write_text("agents: 3")
    with pytest.raises(AgentFileError):
        environment.load_yaml([good, bad])
    assert environment.declared_agents == ["one", "two"]
    environment.load_yaml(good)
    assert environment.declared_agents == ["one", "two", "shouter"]


# --- the published schema ---------------------------------------------------------------------------------------------


def test_the_published_schema_is_that_of_the_models():
    published = files("flink_agents_py.declarative").joinpath("agents.schema.json").read_text("utf-8")
    assert json.loads(published) == json_schema()


@pytest.mark.parametrize("text", [SHOUTER, SHARING, RESOURCES, CALLING])
def test_files_satisfy_the_schema(text):
    from ruamel.yaml import YAML

    Draft202012Validator.check_schema(json_schema())
    Draft202012Validator(json_schema()).validate(YAML(typ="safe").load(text.replace("HOME", HOME)))


def test_the_command_line_takes_a_file(load, tmp_path, capsys):
    from flink_agents_py.cli import main

    load(SHARING)
    path = str(tmp_path / "0.yaml")
    assert main(["plan", "show", f"{path}:two"]) == 0
    assert "tell" in capsys.readouterr().out
    assert main(["plan", "show", path]) == 1
    assert "one, two" in capsys.readouterr().err
    assert main(["plan", "show", f"{path}:three"]) == 1
    assert "no agent 'three'" in capsys.readouterr().err


def test_yaml_is_not_imported_before_a_file_is_loaded():
    import subprocess

    program = "import sys, flink_agents_py as f; f.AgentsExecutionEnvironment.get_execution_environment()\n"
    program += "assert not {'ruamel.yaml', 'flink_agents_py.declarative'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
