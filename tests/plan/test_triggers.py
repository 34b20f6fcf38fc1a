"""Trigger entries: event types, possibly quoted; nothing that would silently never fire."""

from __future__ import annotations

import pytest

from flink_agents_py.errors import TriggerError
from flink_agents_py.plan.triggers import event_type_of, event_types_of


@pytest.mark.parametrize(
    "name", ["_input_event", "my.module.Scored", "mod.test.<locals>.Scored", "order/created", "订单", "my event", "a-b"]
)
def test_a_name_is_taken_as_it_is(name):
    assert event_type_of(name, "A.f") == name


def test_quotes_and_blanks_around_a_name_do_not_belong_to_it():
    assert event_type_of(" 'order(1)' ", "A.f") == "order(1)"


@pytest.mark.parametrize(
    "text",
    ["attributes.ready == true", "type != 'x'", "has(score)", "a && b", "score > 3", "EventType.InputEvent", "true"],
)
def test_a_condition_expression_is_refused_instead_of_never_firing(text):
    with pytest.raises(TriggerError, match="condition expression") as caught:
        event_type_of(text, "A.f")
    assert caught.value.where == "A.f"


@pytest.mark.parametrize("triggers", [[], [""], ["ok", "  "]])
def test_no_trigger_and_blank_triggers_are_refused(triggers):
    with pytest.raises(TriggerError):
        event_types_of(triggers, "A.f")


def test_an_event_type_named_twice_triggers_once():
    assert event_types_of(["b", "a", "b", "'a'"], "A.f") == ["b", "a"]
