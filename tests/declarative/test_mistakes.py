"""Mistakes in YAML files: each is told with file, line and column."""

from __future__ import annotations

import pytest

from flink_agents_py import AgentsExecutionEnvironment, ResourceType
from flink_agents_py.errors import AgentFileError, SignatureError, TriggerError, UnknownResourceError
from flink_agents_py.resources.prompts import Prompt

HOME = "tests.support.yaml_functions"
GOOD = """\
agents:
  - name: one
    actions:
      - name: shout
        function: HOME:shout
        trigger_conditions: [input]
    chat_model_setups:
      - name: model
        clazz: openai
        connection: service
prompts:
  - name: style
    text: be brief
"""


def write(path, text):
    path.write_text(text.replace("HOME", HOME), encoding="utf-8")
    return path


def load(path, text, **values):
    return AgentsExecutionEnvironment.get_execution_environment().load_yaml(write(path, text), values=values or None)


@pytest.mark.parametrize(
    ("old", "new", "place", "what"),
    [
        # shape
        ("name: shout", "nmae: shout", "4:9 (agents[0].actions[0].nmae)", "no key 'nmae'"),
        ("actions:", "action:", "3:5 (agents[0].action)", "no key 'action'"),
        ("        function: HOME:shout\n", "", "4:9 (agents[0].actions[0].function)", "function is missing"),
        ("HOME:shout", "HOME.shout", "5:19 (agents[0].actions[0].function)", "pattern"),
        ("[input]", "input", "6:29 (agents[0].actions[0].trigger_conditions)", "list"),
        ("[input]", "[]", "6:29 (agents[0].actions[0].trigger_conditions)", "at least 1"),
        ("[input]", "[input, true]", "6:37 (agents[0].actions[0].trigger_conditions[1])", "string"),
        ("[input]", "[input, ' ']", "6:37 (agents[0].actions[0].trigger_conditions[1])", "pattern"),
        ("trigger_conditions: [input]", "config: {}", "4:9 (agents[0].actions[0])", "exactly one of trigger_cond"),
        ("[input]", "[input]\n        listen_to: [input]", "4:9 (agents[0].actions[0])", "exactly one of"),
        ("[input]", "[input]\n        on_error: explode", "7:19 (agents[0].actions[0].on_error)", "dead_letter"),
        ("[input]", "[input]\n        type: java", "7:15 (agents[0].actions[0].type)", "python"),
        (
            "[input]",
            "[input]\n        retry: {max_atempts: 3}",
            "7:17 (agents[0].actions[0].retry.max_atempts)",
            "no key",
        ),
        ("text: be brief", "text: be brief\n    messages: [{content: x}]", "12:5 (prompts[0])", "exactly one of text"),
        ("text: be brief", "messages: [{role: boss, content: x}]", "13:23 (prompts[0].messages[0].role)", "system"),
        # what the shape does not tell
        ("clazz: openai", "clazz: opnai", "9:16 (agents[0].chat_model_setups[0].clazz)", "no alias of a chat_model"),
        ("prompts:", "prompts:\n  - {name: style, text: x}", "13:5 (prompts[1])", "twice, first in line 12"),
        (
            "    actions:",
            "    actions:\n      - {name: shout, function: 'a:b', listen_to: [x]}",
            "5:9",
            "'shout' is in",
        ),
        ("prompts:", "  - {name: one}\nprompts:", "11:5 (agents[1])", "twice, first in line 2"),
        # triggers
        ("[input]", "['score >']", "6:38 (agents[0].actions[0].trigger_conditions[0])", "unexpected input the end"),
        (
            "[input]",
            '[input, "a == 1 && b @ 2"]',
            "6:50 (agents[0].actions[0].trigger_conditions[1])",
            "no part of CEL",
        ),
        ("[input]", "\n          - type == EventType.Inpt", "7:31", "no EventType.Inpt"),
        ("[input]", "[EventType.InputEvent]", "6:30", "event type alone"),
        # YAML
        ("name: one", "name: one\n    name: two", "3:5", "the key 'name' is here twice"),
        ("text: be brief", "text: 'be brief", "14:1", "no YAML"),
        ("text: be brief", "text: be: brief", "13:13", "no YAML"),
        ("text: be brief", "text: *nothing", "13:11", "undefined alias"),
        ("text: be brief", "text: &a [*a]", "13:11", "alias inside"),
        ("text: be brief", "text: !!python/object:os.system x", "13:11", "constructor"),
        ("text: be brief", "text: x\n  ? [1, 2]\n  : y", "14:3", "no YAML"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path, old, new, place, what):
    if "CEL" in what or "unexpected" in what:
        pytest.importorskip("cel", reason="common-expression-language needs Python 3.11")
    assert old in GOOD
    path = tmp_path / "agents.yaml"
    with pytest.raises(AgentFileError) as caught:
        load(path, GOOD.replace(old, new, 1))
    assert what in caught.value.what, str(caught.value)
    assert caught.value.where.removeprefix(f"{path}:").startswith(place), str(caught.value)


def test_a_mistyped_key_is_told_which_was_meant_and_all_mistakes_are_listed(tmp_path):
    text = GOOD.replace("name: shout", "nmae: shout").replace("prompts:", "promts:")
    with pytest.raises(AgentFileError) as caught:
        load(tmp_path / "a.yaml", text)
    message = str(caught.value)
    assert "is it 'name'?" in message
    assert "also: there is no key 'promts' here" in message
    assert "a.yaml:11:1 (promts)" in message


@pytest.mark.parametrize("content", [b"", b"- a list\n", b"\xff\xfe"])
def test_a_file_without_a_mapping_is_refused(tmp_path, content):
    path = tmp_path / "agents.yaml"
    path.write_bytes(content)
    with pytest.raises(AgentFileError, match=r"agents\.yaml"):
        AgentsExecutionEnvironment.get_execution_environment().load_yaml(path)
    with pytest.raises(AgentFileError, match="cannot be read"):
        AgentsExecutionEnvironment.get_execution_environment().load_yaml(tmp_path / "missing.yaml")


def test_aliases_cannot_blow_a_small_file_up(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    with pytest.raises(AgentFileError, match="more than"):
        load(tmp_path / "agents.yaml", "\n".join(lines))


def test_a_placeholder_without_a_value_is_told(tmp_path):
    with pytest.raises(AgentFileError, match=r"no value for \$\{url\}") as caught:
        load(tmp_path / "a.yaml", GOOD.replace("be brief", "see ${url}"), host="x")
    assert caught.value.where.endswith("a.yaml:13:11")


def test_what_only_the_code_tells_has_the_place_of_its_entry(tmp_path):
    environment = load(tmp_path / "a.yaml", GOOD.replace("HOME:shout", "HOME:not_an_action"))
    with pytest.raises(SignatureError) as caught:
        environment.from_list([1]).apply("one")
    assert caught.value.where.endswith("a.yaml:4:9 (agents[0].actions[0])")


def test_a_resource_that_is_not_there_is_told_with_the_place_of_who_names_it(tmp_path):
    environment = load(tmp_path / "a.yaml", GOOD)
    with pytest.raises(UnknownResourceError, match="chat_model_connection 'service'") as caught:
        environment.from_list([1]).apply("one")
    assert "a.yaml:8:9 (agents[0].chat_model_setups[0])" in caught.value.where


def test_a_shared_action_that_is_not_there_is_told(tmp_path):
    environment = load(tmp_path / "a.yaml", GOOD.replace("    actions:", "    actions:\n      - tell"))
    with pytest.raises(AgentFileError, match="no shared action 'tell'") as caught:
        environment.from_list([1]).apply("one")
    assert caught.value.where.endswith("a.yaml:4:9 (agents[0].actions[0])")


@pytest.mark.parametrize(
    ("called", "what"), [("two", "no agent 'two'"), ("one", "in a circle: one -> one"), ("{name: a, agent: b}", "'b'")]
)
def test_an_agent_that_cannot_be_called_is_told(tmp_path, called, what):
    environment = load(tmp_path / "a.yaml", GOOD.replace("    actions:", f"    subagents: [{called}]\n    actions:"))
    with pytest.raises(AgentFileError, match=what) as caught:
        environment.from_list([1]).apply("one")
    assert caught.value.where.endswith("a.yaml:3:17 (agents[0].subagents[0])")


def test_names_are_declared_once_in_all_files_of_an_environment(tmp_path):
    environment = load(tmp_path / "a.yaml", GOOD)
    with pytest.raises(AgentFileError, match=r"agent 'one' is declared twice, first at .*a\.yaml:2:5"):
        environment.load_yaml(write(tmp_path / "b.yaml", "agents: [{name: one}]"))
    with pytest.raises(AgentFileError, match=r"prompts 'style' is declared twice, first at .*a\.yaml:12:5"):
        environment.load_yaml(write(tmp_path / "c.yaml", "prompts: [{name: style, text: x}]"))
    environment.add_resource("other", ResourceType.PROMPT, Prompt.from_text("x"))
    with pytest.raises(AgentFileError, match="a shared prompt 'other' already"):
        environment.load_yaml(write(tmp_path / "d.yaml", "prompts: [{name: other, text: x}]"))


def test_the_error_of_an_expression_is_chained(tmp_path):
    with pytest.raises(AgentFileError) as caught:
        load(tmp_path / "a.yaml", GOOD.replace("[input]", "['has(type)']"))
    assert isinstance(caught.value.__cause__, TriggerError)
