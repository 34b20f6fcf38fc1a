# ruff: noqa: N805 - an action without self is one of the forms under test
"""Every mistake in an agent is an error that names the class, the member, the rule and the fix."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timezone

import pytest

from flink_agents_py import errors
from flink_agents_py.agent import Agent, action, chat_model_setup, prompt
from flink_agents_py.events import Event, InputEvent
from flink_agents_py.plan import AgentPlan
from flink_agents_py.resources.base import Resource, ResourceDescriptor, ResourceType, SerializableResource


def fails(agent, error, *parts, where, **kwargs):
    with pytest.raises(error) as caught:
        AgentPlan.from_agent(agent, **kwargs)
    assert type(caught.value) is error
    assert where in caught.value.where
    assert caught.value.fix
    for part in parts:
        assert part in str(caught.value)
    return caught.value


def ok(event, ctx): ...


class Scored(Event):
    pass


# --- signatures -------------------------------------------------------------------------------------------------------


class TooFew(Agent):
    @action(InputEvent)
    def handle(event): ...


class TooMany(Agent):
    @action(InputEvent)
    @staticmethod
    def handle(event, ctx, third): ...


class KeywordOnly(Agent):
    @action(InputEvent)
    def handle(event, *, ctx): ...


class SelfWithoutContext(Agent):
    @action(InputEvent)
    def handle(self, ctx): ...


class Generator(Agent):
    @action(InputEvent)
    def handle(event, ctx):
        yield event


class AsyncGenerator(Agent):
    @action(InputEvent)
    async def handle(event, ctx):
        yield event


class NotCallable(Agent):
    @action(InputEvent)
    def handle(event, ctx): ...


class OverriddenByAValue(NotCallable):
    handle = 5


@pytest.mark.parametrize(
    ("cls", "part"),
    [
        (TooFew, "(event)"),
        (TooMany, "third"),
        (KeywordOnly, "ctx"),
        (SelfWithoutContext, "(ctx)"),
        (Generator, "ctx.send_event"),
        (AsyncGenerator, "ctx.send_event"),
        (OverriddenByAValue, "5 is not callable"),
    ],
)
def test_an_action_that_cannot_be_called_with_event_and_context_is_refused(cls, part):
    fails(cls(), errors.SignatureError, "FA102", part, where=f"{cls.__name__}.handle")


def test_names_defaults_and_variable_arguments_are_free():
    agent = Agent().add_action("a", ["x"], lambda e, c, n=1: n).add_action("b", ["x"], lambda *args, **more: args)
    assert list(AgentPlan.from_agent(agent).actions) == ["a", "b"]


class WrongEvent(Agent):
    @action("scored")
    def handle(event: Scored, ctx): ...


def test_an_annotation_that_no_trigger_fits_is_refused():
    fails(WrongEvent(), errors.SignatureError, "Scored", "'scored'", "@action(Scored)", where="WrongEvent.handle")


# --- names and triggers -----------------------------------------------------------------------------------------------


def test_an_action_that_is_decorated_and_added_is_a_duplicate():
    agent = NotCallable().add_action("handle", ["x"], ok)
    fails(agent, errors.DuplicateNameError, "NotCallable.handle", where="NotCallable.add_action('handle')")


@pytest.mark.parametrize("triggers", [[], [" "], ["a == @"]])
def test_missing_blank_and_mistaken_triggers_are_refused(triggers):
    agent = Agent().add_action("a", triggers, ok)
    fails(agent, errors.TriggerError, "FA103", where="Agent.add_action('a')")


@pytest.mark.parametrize("name", ["", "  "])
def test_blank_names_are_refused(name):
    fails(Agent().add_action(name, ["x"], ok), errors.AgentDefinitionError, "blank", where="Agent.add_action")
    with pytest.raises(errors.AgentDefinitionError, match="blank"):
        AgentPlan.from_agent(Agent(), agent_name=name)


def test_a_class_instead_of_an_agent_is_explained():
    with pytest.raises(errors.AgentDefinitionError, match=r"write NotCallable\(\)"):
        AgentPlan.from_agent(NotCallable)


class ManyMistakes(TooFew, Generator):
    @action()
    def untriggered(event, ctx): ...


def test_all_mistakes_are_reported_at_once():
    error = fails(ManyMistakes(), errors.SignatureError, "FA103", "untriggered", where="TooFew.handle")
    assert error.fix.count("also:") == 1


# --- what cannot travel -----------------------------------------------------------------------------------------------


def test_a_function_that_cannot_be_pickled_is_named_among_those_that_can():
    lock = threading.Lock()
    agent = Agent().add_action("fine", ["x"], lambda e, c: 1).add_action("locked", ["x"], lambda e, c: lock)
    fails(agent, errors.NotSerializableError, "lock", "Resource", where="Agent.add_action('locked')")


def test_an_agent_object_that_cannot_be_copied_is_named_with_its_attributes():
    class Locked(Agent):
        def __init__(self):
            super().__init__()
            self.client = threading.Lock()

        @action("x")
        def handle(self, event, ctx): ...

    fails(Locked(), errors.NotSerializableError, "lock", "Resource", where="attributes client")


def test_a_configuration_value_that_json_cannot_carry_is_named_with_its_path():
    agent = Agent().add_action("a", ["x"], ok, rules={"first": [1, ok]})
    fails(agent, errors.NotSerializableError, "'rules.first[1]'", where="config of Agent.add_action('a')")


@dataclass
class Rule:
    since: datetime


def test_typed_configuration_values_travel():
    rule = Rule(datetime(2026, 1, 2, tzinfo=timezone.utc))
    plan = AgentPlan.from_agent(Agent().add_action("a", ["x"], ok, rule=rule))
    assert AgentPlan.from_json(plan.to_json()).get_action_config_value("a", "rule") == rule


# --- resources --------------------------------------------------------------------------------------------------------


class Thing(Resource):
    def __init__(self, *, connection=None, prompt=None, tools=(), embedding_model=None, vector_store=None): ...


class Words(SerializableResource):
    resource_type = ResourceType.PROMPT
    text: str


def agent_with(**resources):
    agent = Agent()
    for name, (kind, arguments) in resources.items():
        agent.add_resource(name, kind, ResourceDescriptor(Thing, **arguments))
    return agent


@pytest.mark.parametrize(
    ("kind", "arguments", "missing"),
    [
        (ResourceType.CHAT_MODEL, {"connection": "c"}, "chat_model_connection 'c'"),
        (ResourceType.EMBEDDING_MODEL, {"connection": "c"}, "embedding_model_connection 'c'"),
        (ResourceType.CHAT_MODEL, {"prompt": "p"}, "prompt 'p'"),
        (ResourceType.CHAT_MODEL, {"tools": ["t"]}, "tool 't'"),
        (ResourceType.VECTOR_STORE, {"embedding_model": "e"}, "embedding_model 'e'"),
        (ResourceType.CHAT_MODEL, {"vector_store": "v"}, "vector_store 'v'"),
    ],
)
def test_a_reference_to_an_undeclared_resource_is_found_when_compiling(kind, arguments, missing):
    fails(
        agent_with(mine=(kind, arguments)),
        errors.UnknownResourceError,
        f"there is no {missing}",
        f"{kind.value} 'mine'",
        where=f"argument '{next(iter(arguments))}' of Agent.add_resource('mine')",
    )


def test_tools_and_prompts_may_come_from_an_mcp_server_later():
    agent = agent_with(
        server=(ResourceType.MCP_SERVER, {}), model=(ResourceType.CHAT_MODEL, {"tools": ["t"], "prompt": "p"})
    )
    assert AgentPlan.from_agent(agent).get_resource("model", ResourceType.CHAT_MODEL)


def test_resources_that_name_each_other_in_a_circle_are_shown_as_a_circle():
    agent = agent_with(
        a=(ResourceType.VECTOR_STORE, {"embedding_model": "b"}), b=(ResourceType.EMBEDDING_MODEL, {"vector_store": "a"})
    )
    fails(
        agent,
        errors.ResourceCycleError,
        "vector_store 'a' -> embedding_model 'b' -> vector_store 'a'",
        where="Agent.add_resource('a')",
    )


class BothWays(Agent):
    @prompt
    def hello():
        return Words(text="x")


def test_a_resource_that_is_decorated_and_added_is_a_duplicate():
    agent = BothWays().add_resource("hello", ResourceType.PROMPT, Words(text="y"))
    fails(agent, errors.DuplicateNameError, "BothWays.hello", where="BothWays.add_resource('hello')")


def test_an_argument_the_class_does_not_take_is_refused_with_those_it_takes():
    agent = Agent().add_resource("m", ResourceType.CHAT_MODEL, ResourceDescriptor(Thing, conection="c"))
    fails(agent, errors.AgentDefinitionError, "'conection'", "connection, prompt", where="Agent.add_resource('m')")


def test_an_argument_that_json_cannot_carry_is_named():
    agent = Agent().add_resource("m", ResourceType.CHAT_MODEL, ResourceDescriptor(Thing, tools=[1, ok]))
    fails(agent, errors.NotSerializableError, "'tools[1]'", where="Agent.add_resource('m')")


def test_a_resource_class_that_no_worker_can_import_is_refused():
    class Local(Resource):
        pass

    agent = Agent().add_resource("m", ResourceType.CHAT_MODEL, ResourceDescriptor(Local))
    fails(agent, errors.NotSerializableError, "Local", "module level", where="Agent.add_resource('m')")


@pytest.mark.parametrize("value", [None, "a prompt", object()])
def test_what_is_no_resource_is_refused(value):
    agent = Agent().add_resource("m", ResourceType.PROMPT, value)
    fails(agent, errors.AgentDefinitionError, type(value).__name__, where="Agent.add_resource('m')")


def test_data_of_another_type_than_declared_is_refused():
    agent = Agent().add_resource("m", ResourceType.SKILLS, Words(text="x"))
    fails(agent, errors.AgentDefinitionError, "prompt", "skills", where="Agent.add_resource('m')")


class Raises(Agent):
    @chat_model_setup
    def model():
        raise KeyError("API_KEY")


def test_a_resource_function_that_raises_is_named_and_its_error_chained():
    error = fails(Raises(), errors.AgentDefinitionError, "KeyError", "API_KEY", where="Raises.model")
    assert isinstance(error.__cause__, KeyError)
