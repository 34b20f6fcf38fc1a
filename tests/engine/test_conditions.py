"""Triggers that are expressions: which actions run for an event, in what order, and what happens where one fails."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import subprocess
import sys
from decimal import Decimal
from enum import Enum
from typing import NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel
from pyflink.common import Row

from flink_agents_py import (
    ActionFailedEvent,
    ActionRegistry,
    ActionSpec,
    Agent,
    AgentPlan,
    BusinessRejected,
    Event,
    EventType,
    InputEvent,
    OutputEvent,
    action,
)
from flink_agents_py.errors import ConditionError, TriggerError
from flink_agents_py.testing import AgentHarness, Scenario, crash_everywhere
from tests.support.yaml_functions import shout

pytest.importorskip("cel", reason="common-expression-language needs Python 3.11")


class Priced(Event):
    EVENT_TYPE = "priced"

    price: float
    tags: tuple[str, ...] = ()


def says(name):
    def act(event, ctx):
        ctx.send_event(OutputEvent(name))

    return act


def agent_of(**triggers):
    agent = Agent()
    for name, entries in triggers.items():
        agent.add_action(name, entries, says(name))
    return agent


def ran(agent, *values, **config):
    harness = AgentHarness(agent, {key.replace("__", "."): value for key, value in config.items()})
    for value in values:
        harness.feed("k", value)
    return harness.outputs


def test_an_action_runs_for_the_events_its_expression_is_true_for():
    agent = agent_of(high=["input > 3"], low=["type == EventType.InputEvent && input < 2"])
    assert ran(agent, 1, 3, 5) == ["low", "high"]


def test_entries_are_alternatives_and_an_action_runs_once_for_an_event():
    agent = agent_of(
        a=["input > 1", "input > 2", EventType.InputEvent, "'_input_event'"], b=["input == 9", "input > 2"]
    )
    assert ran(agent, 1, 5) == ["a", "a", "b"]


def test_actions_run_in_the_order_of_the_plan_whatever_triggered_them():
    agent = agent_of(first=["input > 0"], second=[InputEvent], third=["type == '_input_event'"])
    assert ran(agent, 1) == ["first", "second", "third"]


def test_constants_hold_always_and_never():
    assert ran(agent_of(always=["true"], never=["false"]), 1) == ["always"]


class Pricing(Agent):
    @action(InputEvent)
    @staticmethod
    def price(event: InputEvent, ctx):
        ctx.send_event(Priced(price=event.input, tags=("new",)))
        ctx.send_event(Event(type="other", attributes={"price": event.input}))

    @action("type == 'priced' && price > 10.0 && 'new' in tags")
    @staticmethod
    def dear(event: Priced, ctx):
        assert type(event) is Priced
        ctx.send_event(OutputEvent(f"dear {event.price}"))

    @action("attributes.price < 5 && type != EventType.InputEvent")
    @staticmethod
    def cheap(event: Event, ctx):
        ctx.send_event(OutputEvent(f"cheap {event.type}"))


def test_fields_of_event_classes_are_attributes_and_the_class_is_delivered():
    assert ran(Pricing(), 20.0, 1.0) == ["dear 20.0", "cheap priced", "cheap other"]


def test_outputs_trigger_nothing():
    assert ran(agent_of(a=[InputEvent], b=["type == EventType.OutputEvent", "has(output)"]), 1) == ["a"]


def test_an_event_for_which_no_condition_holds_is_counted_apart_from_those_nobody_listens_to():
    harness = AgentHarness(Pricing())
    harness.feed("k", 7.0)
    assert (harness.stats.unmatched, harness.stats.unhandled) == (2, 0)
    harness = AgentHarness(agent_of(a=["type == 'x' && y == 1"]))
    harness.feed("k", 7.0)
    assert (harness.stats.unmatched, harness.stats.unhandled) == (0, 1)


# --- failures ---------------------------------------------------------------------------------------------------------

FAILING = agent_of(broken=["input.missing > 1", "input.there > 1"], other=[InputEvent])


def test_a_condition_that_fails_is_false_counted_and_said_once(caplog):
    harness = AgentHarness(FAILING)
    with caplog.at_level(logging.WARNING):
        harness.feed("k", {"there": 1})
        harness.feed("k", {"there": 2})
    assert harness.outputs == ["other", "broken", "other"]
    assert harness.stats.condition_failures == 2
    (message,) = [record.getMessage() for record in caplog.records if "trigger condition" in record.getMessage()]
    assert "'input.missing > 1' failed: there is no 'missing'" in message
    assert "action broken, key 'k', sequence 1, event _input_event" in message


def test_under_the_strategy_fail_it_fails_the_job():
    strategy = {"action.trigger-condition.evaluate-failure-strategy": "FAIL"}
    harness = AgentHarness(FAILING, strategy)
    with pytest.raises(ConditionError, match="there is no 'missing'") as caught:
        harness.feed("k", {"there": 2})
    assert "action broken, key 'k', sequence 1" in caught.value.where


@pytest.mark.parametrize(
    ("entry", "value", "why"),
    [
        ("input.flag", {"flag": "yes"}, "gave 'yes', not true or false"),
        ("input.flag > 3", {"flag": "yes"}, "values of these types cannot be compared"),
        ("size(input.flag) > 3", {"flag": 1}, "size(...) does not take the values it was given"),
        ("input.flag == 1", {"flag": object()}, "attribute input.flag: conditions cannot read a builtins.object"),
        ("has(input.flag)", {"flag": 10**400}, "attribute input.flag: "),
    ],
)
def test_what_gives_no_truth_value_is_a_failure(entry, value, why):
    entry = entry if entry != "input.flag" else "dyn(input.flag)"
    harness = AgentHarness(agent_of(a=[entry]), {"action.trigger-condition.evaluate-failure-strategy": "FAIL"})
    with pytest.raises(ConditionError) as caught:
        harness.feed("k", value)
    assert why in caught.value.what


def test_a_value_that_cannot_be_read_fails_only_the_conditions_that_read_it():
    harness = AgentHarness(agent_of(a=["input.bad == 1"], b=["input.good == 1"]))
    harness.feed("k", {"bad": object(), "good": 1})
    assert harness.outputs == ["b"]
    assert harness.stats.condition_failures == 1


def test_an_expression_that_a_worker_cannot_read_stops_it_when_it_opens():
    text = AgentPlan.from_agent(agent_of(a=["input > 1"])).to_json()
    plan = AgentPlan.from_json(text.replace("input > 1", "input > > 1"), allow_pickled=True)
    with pytest.raises(TriggerError, match="column 9"):
        AgentHarness(plan)


# --- values -----------------------------------------------------------------------------------------------------------


class Color(Enum):
    RED = "red"


class Model(BaseModel):
    n: int = 3
    inner: dict[str, int] = {"x": 1}


@dataclasses.dataclass
class Data:
    n: int = 3


class Point(NamedTuple):
    x: int
    y: int


NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ("value", "entry"),
    [
        (Model(), "input.n == 3 && input.inner.x == 1 && !has(input.missing)"),
        (Data(), "input.n == 3"),
        (Row(a=1, b="x"), "input.a == 1 && input.b == 'x'"),
        (Row(1, "x"), "input[1] == 'x'"),
        (Row(a=1, b="x"), "input[0] == 1 && input.b == 'x'"),
        (Row(1, "x"), "input[0] == 1 && size(input) == 2"),
        ([{"a": [1, 2]}], "input[0].a[1] == 2"),
        (Point(1, 2), "input[0] == 1 && input.y == 2"),
        (Point(1, 2), "input.x + input.y == 3"),
        ((1, "x"), "input == [1, 'x']"),
        ({"a.b": {"c": 1}}, "input['a.b'].c == 1 && 'a.b' in input"),
        ({1: "x"}, "input[1] == 'x'"),
        (Color.RED, "input == 'red'"),
        (Decimal("1.5"), "input == 1.5"),
        (2**70, "input > 1e21"),
        (UUID(int=0), "input.startsWith('00000000-')"),
        (NOON, "input < timestamp('2026-05-01T12:00:01Z') && input.getHours() == 12"),
        (NOON.date(), "input == timestamp('2026-05-01T00:00:00Z')"),
        (dt.timedelta(seconds=90), "input > duration('1m')"),
        (bytearray(b"ab"), "input == b'ab'"),
        (None, "input == null && has(input)"),
        (True, "input == true"),
        ([{"price": 1}, {"price": 5}], "input.exists(i, i.price > 4)"),
        ("x", "size(attributes) == 1 && 'input' in attributes && id != ''"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
def test_values_of_every_kind_can_be_tested(value, entry):
    harness = AgentHarness(agent_of(a=[entry]), {"action.trigger-condition.evaluate-failure-strategy": "FAIL"})
    harness.feed("k", value)
    assert harness.outputs == ["a"]


def test_of_a_large_event_only_what_is_read_is_converted():
    value = {"wanted": {"n": 1, "object": object()}, "object": object()}
    assert ran(agent_of(a=["input.wanted.n == 1"]), value) == ["a"]


# --- other parts of the engine ----------------------------------------------------------------------------------------


class Failures(Agent):
    @action(InputEvent)
    @staticmethod
    async def ask(event: InputEvent, ctx):
        await ctx.call("refuse", {})

    @action("type == EventType.ActionFailedEvent && failed.code == 'BUSINESS_REJECTED'")
    @staticmethod
    def told(event: ActionFailedEvent, ctx):
        ctx.send_event(OutputEvent(event.failed.code))


def test_a_condition_may_wait_for_failed_external_actions():
    registry = ActionRegistry()

    @registry.action(ActionSpec(name="refuse"))
    async def refuse(call, session):
        raise BusinessRejected("no")

    harness = AgentHarness(Failures().add_action_registry(registry), latency=0.01)
    harness.feed("k", 1)
    harness.advance(1)
    assert harness.outputs == ["BUSINESS_REJECTED"]


def test_events_about_memory_are_made_where_a_condition_names_their_type():
    class Remembering(Agent):
        @action(InputEvent)
        @staticmethod
        def write(event, ctx):
            ctx.short_term_memory.set("n", event.input)

        @action("type == EventType.ShortTermWriteEvent")
        @staticmethod
        def see(event, ctx):
            ctx.send_event(OutputEvent("seen"))

    assert ran(Remembering(), 1) == ["seen"]


def test_a_new_plan_brings_its_own_conditions_and_one_with_a_mistake_is_refused():
    def plan(entry):
        return AgentPlan.from_agent(Agent().add_action("a", [entry], shout)).to_json()

    harness = AgentHarness(AgentPlan.from_json(plan("input > 1")), updates="offered")
    harness.feed("k", 2)
    harness.offer_plan(plan("input > 2"))
    harness.feed("k", 2)
    harness.feed("k", 3)
    harness.offer_plan(plan("input > 3").replace("input > 3", "input > > 3"))
    harness.feed("k", 3)
    assert harness.outputs == ["2!", "3!", "3!"]
    (letter,) = harness.side_output("dead-letters")
    assert "column 9" in letter["message"]


def double(number):
    return 2 * number


class Durable(Agent):
    @action("type == EventType.InputEvent && input % 2 == 1")
    @staticmethod
    async def odd(event: InputEvent, ctx):
        value = await ctx.durable_execute_async(double, event.input)
        ctx.send_event(Priced(price=value))

    @action("price > 5.0", "type == 'priced' && price < 3.0")
    @staticmethod
    async def out(event: Priced, ctx):
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(double, event.price)))


def test_a_crash_anywhere_changes_nothing():
    crash_everywhere(Scenario(Durable, [("a", 1), ("b", 2), ("a", 3), ("b", 5)]))


def test_the_evaluator_is_imported_only_where_a_plan_has_an_expression():
    program = """
import sys
from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent
def run(event, ctx): pass
def apply(*triggers):
    agents = AgentsExecutionEnvironment.get_execution_environment()
    agents.from_list([1]).apply(Agent().add_action("a", triggers, run)).to_list()
    return "cel" in sys.modules
assert not apply(InputEvent, "x")
assert apply(InputEvent, "input == 1")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
