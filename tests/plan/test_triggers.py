"""Trigger entries: event types, possibly quoted, or expressions; nothing that would silently never fire."""

from __future__ import annotations

import pytest

from flink_agents_py.errors import TriggerError
from flink_agents_py.plan.triggers import event_type_of, triggers_of


@pytest.mark.parametrize(
    "name",
    ["_input_event", "my.module.Scored", "mod.test.<locals>.Scored", "order/created", "订单", "my event", "a-b", "in"],
)
def test_a_name_is_taken_as_it_is(name):
    assert event_type_of(name, "A.f") == name


def test_quotes_and_blanks_around_a_name_do_not_belong_to_it():
    assert event_type_of(" 'order(1)' ", "A.f") == "order(1)"
    assert event_type_of("'true'", "A.f") == "true"


@pytest.mark.parametrize(
    "text",
    [
        "attributes.ready == true",
        "type != 'x'",
        "has(score)",
        "a && b",
        "score>3",
        "ready ? a : b",
        "a in b",
        "a[0]",
        "(a.b)",
        "a . b",
        "EventType.InputEvent",
        "true",
        "null",
        "42",
        "''",
        "'order created'",
    ],
)
def test_what_cannot_be_a_name_is_an_expression(text):
    assert event_type_of(text, "A.f") is None


@pytest.mark.parametrize("triggers", [[], [""], ["ok", "  "]])
def test_no_trigger_and_blank_triggers_are_refused(triggers):
    with pytest.raises(TriggerError):
        triggers_of(triggers, "A.f")


def test_each_entry_counts_once():
    triggers = triggers_of(["b", "a", "b", "'a'", "x == 1", " x == 1 "], "A.f")
    assert triggers.event_types == ["b", "a"]
    assert triggers.expressions == ["x == 1"]
