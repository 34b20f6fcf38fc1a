"""Condition expressions: what is translated, what is known of them, and mistakes with their place."""

from __future__ import annotations

import sys

import pytest

from flink_agents_py import Agent, AgentPlan, Event, InputEvent
from flink_agents_py.errors import EnvironmentSetupError, PlanFormatError, SignatureError, TriggerError
from flink_agents_py.plan.cel_tokens import EVENT_TYPES
from flink_agents_py.plan.conditions import read_condition

pytest.importorskip("cel", reason="common-expression-language needs Python 3.11")


def read(source):
    condition = read_condition(source, "A.f")
    condition.program("A.f")
    return condition


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("score > 80", "attributes.score > 80"),
        ("attributes.score > 80", "attributes.score > 80"),
        ("has(score)", "has(attributes.score)"),
        ("has(a.b.c)", "(has(attributes.a) && has(attributes.a.b) && has(attributes.a.b.c))"),
        ("has(attributes.a.b)", "(has(attributes.a) && has(attributes.a.b))"),
        ("type == EventType.InputEvent", "type == '_input_event'"),
        ("id != '' && type(id) == string", "id != '' && type(id) == string"),
        ("items.exists(i, i.price > limit)", "attributes.items.exists(i, i.price > attributes.limit)"),
        ("items.exists(i, i == 1) && i", "attributes.items.exists(i, i == 1) && attributes.i"),
        ("'EventType.InputEvent' == name // type", "'EventType.InputEvent' == attributes.name // type"),
        ("x in (a) || x in [r'\\d', b'y']", "attributes.x in (attributes.a) || attributes.x in [r'\\d', b'y']"),
        ("name.startsWith('in') && size(name) > 2", "attributes.name.startsWith('in') && size(attributes.name) > 2"),
    ],
)
def test_attributes_and_event_types_are_written_out_for_the_evaluator(source, text):
    assert read(source).text == text


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ("input.score > 3 && input.score < 9", [("input", "score")]),
        ("attributes['a.b'].c == 1", [("a.b", "c")]),
        ("'a.b' in attributes", [("a.b",)]),
        ("'a' + b in attributes", [("b",), ()]),
        ("attributes[key] == 1", [(), ("key",)]),
        ("size(attributes) > 1", [()]),
        ("lines[0].text.contains('x')", [("lines", 0, "text")]),
        ("lines[n].text == 'x'", [("lines",), ("n",)]),
        ("type == 'x'", []),
    ],
)
def test_what_an_expression_reads_is_known(source, paths):
    assert list(read(source).paths) == paths


@pytest.mark.parametrize(
    ("source", "types"),
    [
        ("type == 'a' && score > 3", ("a",)),
        ("score > 3 && (type == 'a')", ("a",)),
        ("EventType.InputEvent == type", ("_input_event",)),
        ("(type == 'a' && x == 1) || type in ['b', EventType.OutputEvent]", ("a", "b", "_output_event")),
        ("type in ['a', 'b'] && type != 'x' && type in ['b']", ("b",)),
        ("type == 'a' || score > 3", None),
        ("!(type == 'a')", None),
        ("type == 'a' ? x == 1 : y == 1", None),
        ("type == name", None),
        (r"type == 'a\n'", None),
        ("score > 3", None),
    ],
)
def test_the_types_it_can_hold_for_are_known(source, types):
    assert read(source).event_types == types


@pytest.mark.parametrize(
    ("source", "line", "column", "what"),
    [
        ("type ==", 1, 8, "unexpected input the end"),
        ("a == 1 &&\n  b ++ 2", 2, 6, "extraneous"),
        ("has(score) && ) == 2", 1, 15, "unexpected input ')'"),
        ("has(a.b.c) && (x == EventType.InputEvent && )", 1, 45, "unexpected"),
        ("a == 'x", 1, 6, "does not end"),
        ("a @ b == 1", 1, 3, "no part of CEL"),
        ("type == EventType.Nothing", 1, 19, "no EventType.Nothing"),
        ("EventType == 1", 1, 1, "names of event types"),
        ("x == nothing(1)", 1, 6, "no function nothing"),
        ("x.lowerAscii() == 'a'", 1, 3, "no function lowerAscii"),
        ("has(type)", 1, 5, "name of an attribute"),
        ("has(a['b'])", 1, 5, "name of an attribute"),
        ("has()", 1, 5, "name of an attribute"),
        ("a.exists(b.c, true)", 1, 3, "exists is called as"),
        ("Thing{a: 1} == x", 1, 1, "no message type"),
        ("(a.b.c)", 1, 2, "neither true nor false"),
        ("EventType.InputEvent", 1, 1, "event type alone"),
        ("42", 1, 1, "constant"),
        ("null", 1, 1, "alone"),
        ("'order created'", 1, 1, "constant"),
        ("price * 2", 1, 1, "gives a value"),
        ("size(a)", 1, 1, "size(...) gives a value"),
        ("type == 'a' && type == 'b'", 1, 1, "never hold"),
        ("(" * 65 + "true" + ")" * 65, 1, 65, "brackets within brackets"),
    ],
)
def test_a_mistake_is_shown_where_it_is(source, line, column, what):
    with pytest.raises(TriggerError) as caught:
        read(source)
    assert what in caught.value.what
    assert (caught.value.line, caught.value.column) == (line, column)
    shown, caret = caught.value.what.split("\n")[-2:]
    assert shown.strip() == source.split("\n")[line - 1].strip()
    assert len(caret) - 4 == column


def test_an_endless_expression_is_refused():
    with pytest.raises(TriggerError, match="longer than 8192 characters"):
        read(" && ".join(["score > 1"] * 1000))


def run(event, ctx): ...


def test_the_compiler_checks_expressions_and_says_which_action_has_the_mistake():
    with pytest.raises(TriggerError, match="column 6") as caught:
        AgentPlan.from_agent(Agent().add_action("a", ["a == 1", "b == ="], run))
    assert caught.value.where == "Agent.add_action('a')"


class Scored(Event):
    EVENT_TYPE = "scored"
    score: int


def scored(event: Scored, ctx): ...


def test_the_annotation_has_to_fit_the_types_of_the_conditions_if_they_say_them():
    AgentPlan.from_agent(Agent().add_action("a", ["type == 'scored' && score > 1"], scored))
    AgentPlan.from_agent(Agent().add_action("a", ["score > 1"], scored))
    with pytest.raises(SignatureError, match="_input_event"):
        AgentPlan.from_agent(Agent().add_action("a", ["type == EventType.InputEvent && input > 1"], scored))


def test_a_plan_carries_expressions_as_they_were_written():
    agent = Agent().add_action("a", [InputEvent, "score  > 1 "], run)
    text = AgentPlan.from_agent(agent).to_json()
    plan = AgentPlan.from_json(text)
    assert plan.actions["a"].trigger_conditions == ["_input_event", "score  > 1 "]
    assert plan.actions_by_event == {"_input_event": ["a"]}
    assert plan.to_json() == text


def test_a_plan_with_a_wrong_expression_is_refused_when_it_is_read():
    text = AgentPlan.from_agent(Agent().add_action("a", ["score > 1"], run)).to_json()
    with pytest.raises(PlanFormatError, match="no function nothing"):
        AgentPlan.from_json(text.replace("score > 1", "nothing(score)"))


def test_reading_a_plan_needs_no_evaluator_and_compiling_one_says_what_to_install(monkeypatch):
    agent = Agent().add_action("a", ["score > 1"], run)
    text = AgentPlan.from_agent(agent).to_json()
    monkeypatch.setitem(sys.modules, "cel", None)
    assert AgentPlan.from_json(text).has_conditions
    with pytest.raises(EnvironmentSetupError, match="common-expression-language") as caught:
        AgentPlan.from_agent(agent)
    assert "flink-agents-py[cel]" in caught.value.fix or sys.version_info < (3, 11)


def test_the_event_types_of_expressions_are_those_of_the_classes():
    for name, event_type in EVENT_TYPES.items():
        assert event_type == next(cls for cls in _subclasses(Event) if cls.__name__ == name).EVENT_TYPE


def _subclasses(cls):
    return [found for direct in cls.__subclasses__() for found in (direct, *_subclasses(direct))]
