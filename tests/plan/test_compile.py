# ruff: noqa: N805 - an action without self is one of the forms under test
"""Compiling agents of every form: what becomes an action, in which order, and what it runs."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

import pytest

from flink_agents_py.agent import Agent, action, chat_model_setup, prompt
from flink_agents_py.events import Event, InputEvent, OutputEvent
from flink_agents_py.plan import AgentPlan
from flink_agents_py.policies import RetryPolicy, Timeouts
from flink_agents_py.resources.base import Resource, ResourceDescriptor, ResourceType, SerializableResource

if TYPE_CHECKING:
    from flink_agents_py.context import RunnerContext


class Scored(Event):
    score: float = 0.0


class Alarm(Scored):
    EVENT_TYPE = "alarm"


class AllForms(Agent):
    @action(InputEvent)
    @staticmethod
    def above(event: InputEvent, ctx: RunnerContext) -> None:
        return ("above", event)

    @staticmethod
    @action("x")
    def below(event, ctx):
        return ("below", event)

    @action("x")
    def bare(event, ctx):
        return ("bare", event)

    @action("x")
    @classmethod
    def of_class(cls, event, ctx):
        return (cls.__name__, event)

    @action("x")
    def with_self(self, event, ctx):
        return (type(self).__name__, event)

    @action(Scored, "x")
    async def coroutine(event: Scored, ctx: RunnerContext) -> None: ...

    @action("x")
    def anything(*args):
        return args[:1]

    def helper(self):
        """Not an action."""


def module_action(event, ctx):
    return ("module", event)


def round_trip(plan):
    return AgentPlan.from_json(plan.to_json(), allow_pickled=True)


@pytest.fixture(params=["compiled", "loaded"])
def form(request):
    """What a plan does must not depend on whether it went through JSON."""
    return (lambda plan: plan) if request.param == "compiled" else round_trip


def test_every_way_to_write_an_action_is_found_in_order_and_runs(form):
    plan = form(AgentPlan.from_agent(AllForms()))
    assert list(plan.actions) == ["above", "below", "bare", "of_class", "with_self", "coroutine", "anything"]
    answers = {name: a.callable(1, None) for name, a in plan.actions.items() if not a.is_async}
    assert answers == {
        "above": ("above", 1),
        "below": ("below", 1),
        "bare": ("bare", 1),
        "of_class": ("AllForms", 1),
        "with_self": ("AllForms", 1),
        "anything": (1,),
    }
    assert plan.actions["coroutine"].is_async
    assert plan.pickled_actions == []


def wrapping(function):
    @functools.wraps(function)
    def wrapper(*args):
        return ("wrapped", function(*args))

    return wrapper


def anonymous(function):
    return lambda *args: ("anonymous", function(*args))


class OtherDecorators(Agent):
    @action(Scored)
    @wrapping
    def wrapped(event: Scored, ctx: RunnerContext):
        return event

    @action("x")
    @anonymous
    def nameless(event, ctx):
        return event

    @classmethod
    @action("x")
    def of_class(cls, event, ctx):
        return cls


def test_other_decorators_may_stand_between_action_and_function(form):
    plan = form(AgentPlan.from_agent(OtherDecorators()))
    assert plan.pickled_actions == []
    assert plan.actions["wrapped"].callable(1, None) == ("wrapped", 1)
    assert plan.actions["wrapped"].event_class is Scored
    assert plan.actions["nameless"].callable(1, None) == ("anonymous", 1)
    assert plan.actions["of_class"].callable(1, None) is OtherDecorators


def test_added_actions_follow_the_decorated_ones(form):
    prefix = "p"
    agent = AllForms()
    agent.add_action("module", ["x"], module_action).add_action("lambda", ["x"], lambda event, ctx: prefix + event)
    agent.add_action("partial", "x", functools.partial(lambda a, event, ctx: a + event, "q"))
    plan = form(AgentPlan.from_agent(agent))
    assert list(plan.actions)[-3:] == ["module", "lambda", "partial"]
    assert plan.pickled_actions == ["lambda", "partial"]
    assert [plan.actions[name].callable("e", None) for name in ("lambda", "partial")] == ["pe", "qe"]


def test_actions_by_event_lists_actions_in_plan_order():
    plan = AgentPlan.from_agent(AllForms())
    names = ["below", "bare", "of_class", "with_self", "coroutine", "anything"]
    assert plan.actions_by_event == {"_input_event": ["above"], "x": names, Scored.EVENT_TYPE: ["coroutine"]}
    assert [a.name for a in plan.get_actions("x")] == names
    assert plan.get_actions("nobody listens") == []


class Parent(Agent):
    @action("x")
    def first(event, ctx):
        return "parent first"

    @action("x", limit=3)
    def second(event, ctx):
        return "parent second"

    @action("x")
    def third(self, event, ctx):
        return f"third of {type(self).__name__}"

    @action("x")
    def fourth(event, ctx): ...


class Child(Parent):
    @action("y")
    def own(event, ctx): ...

    def second(self, event, ctx):
        return "child second"

    @action("z")
    def first(event, ctx):
        return "child first"

    fourth = None


def test_inherited_actions_come_first_and_are_replaced_in_place_or_removed(form):
    plan = form(AgentPlan.from_agent(Child()))
    assert list(plan.actions) == ["first", "second", "third", "own"]
    assert plan.actions["first"].trigger_conditions == ["z"]
    assert plan.actions["first"].callable(None, None) == "child first"
    assert plan.actions["third"].callable(None, None) == "third of Child"


def test_an_override_without_decorator_keeps_the_triggers_and_options_of_what_it_replaces(form):
    second = form(AgentPlan.from_agent(Child())).actions["second"]
    assert second.trigger_conditions == ["x"]
    assert second.config == {"limit": 3}
    assert second.callable(None, None) == "child second"


class Stateful(Agent):
    def __init__(self, threshold=0.5):
        super().__init__()
        self.threshold = threshold
        self.seen = []
        self.add_action("added", ["x"], self.late)

    @action("x")
    def check(self, event, ctx):
        self.seen.append(event)
        return self.threshold

    def late(self, event, ctx):
        return list(self.seen)


def test_self_carries_the_agents_state_and_is_one_object_for_all_actions(form):
    agent = Stateful(0.9)
    plan = form(AgentPlan.from_agent(agent))
    assert plan.pickled_actions == ["check", "added"]
    assert plan.actions["check"].callable("e", None) == 0.9
    assert plan.actions["added"].callable(None, None) == ["e"]


def test_the_agent_given_is_never_changed():
    agent = Stateful()
    before = dict(vars(agent))
    plan = AgentPlan.from_agent(agent)
    plan.actions["check"].callable("e", None)
    assert agent.seen == []
    assert vars(agent) == before
    assert list(agent.actions) == ["added"]


def test_a_changed_agent_does_not_change_a_compiled_plan():
    words = ["a"]
    agent = Agent().add_action("f", ["x"], module_action, words=words)
    plan = AgentPlan.from_agent(agent)
    words.append("b")
    agent.add_action("g", ["x"], module_action)
    assert plan.get_action_config_value("f", "words") == ["a"]
    assert list(plan.actions) == ["f"]


def test_options_and_configuration_of_an_action_travel(form):
    retry, timeouts = RetryPolicy(max_attempts=5), Timeouts(attempt=2)
    agent = Agent().add_action(
        "f", ["x"], module_action, on_error="skip", retry=retry, timeouts=timeouts, pair=(1, b"2"), rate=0.5
    )
    plan = form(AgentPlan.from_agent(agent))
    f = plan.actions["f"]
    assert (f.on_error, f.retry, f.timeouts) == ("skip", retry, timeouts)
    assert plan.get_action_config("f") == {"pair": (1, b"2"), "rate": 0.5}
    assert plan.get_action_config_value("f", "pair") == (1, b"2")
    assert plan.get_action_config_value("f", "none") is None


def test_the_agents_name_is_its_class_unless_given(form):
    assert form(AgentPlan.from_agent(Child())).agent_name == "Child"
    assert form(AgentPlan.from_agent(Child(), agent_name="reviews")).agent_name == "reviews"


# --- typed delivery ---------------------------------------------------------------------------------------------------


class Annotated(Agent):
    class Nested(Event):
        pass

    @action(Scored)
    def one(event: Scored, ctx: RunnerContext): ...

    @action(Alarm)
    def base_of_the_trigger(event: Scored, ctx: RunnerContext): ...

    @action(Scored, InputEvent)
    def union(event: Scored | InputEvent, ctx: RunnerContext): ...

    @action(Scored)
    def optional(event: Scored | None, ctx: RunnerContext): ...

    @action(Scored)
    def any_event(event: Event, ctx: RunnerContext): ...

    @action(Scored)
    def anything(event: Any, ctx: RunnerContext): ...

    @action(Nested)
    def nested(event: Nested, ctx: RunnerContext): ...

    @action(Scored)
    def method(self, event: Scored, ctx: RunnerContext): ...


def test_the_annotation_of_the_event_decides_what_is_delivered(form):
    plan = form(AgentPlan.from_agent(Annotated()))
    assert {name: a.event_class for name, a in plan.actions.items()} == {
        "one": Scored,
        "base_of_the_trigger": Scored,
        "union": None,
        "optional": Scored,
        "any_event": None,
        "anything": None,
        "nested": Annotated.Nested,
        "method": Scored,
    }
    assert plan.actions["union"].event_classes == (Scored, InputEvent)
    assert plan.event_classes()[f"{__name__}:Annotated.Nested"] is Annotated.Nested


def test_local_event_classes_are_delivered_typed_and_shared_by_all_actions():
    class Local(Event):
        n: int

    class LocalAgent(Agent):
        @action(InputEvent)
        def send(event: InputEvent, ctx):
            return Local(n=1)

        @action(Local)
        def receive(event: Local, ctx):
            return isinstance(event, Local)

        @action("else")
        def only_named_in_the_annotation(event: Local | Event, ctx): ...

    for plan in (compiled := AgentPlan.from_agent(LocalAgent()), round_trip(compiled)):
        sent = plan.actions["send"].callable(None, None)
        assert plan.actions["receive"].event_class is type(sent)
        assert plan.actions["receive"].callable(sent, None)
        assert plan.actions["only_named_in_the_annotation"].event_class is None


if TYPE_CHECKING:
    from elsewhere import Missing


class Unresolvable(Agent):
    @action("m")
    def handle(event: Missing, ctx: RunnerContext): ...


def test_an_annotation_that_cannot_be_evaluated_is_reported_and_delivers_the_event_as_sent(caplog):
    with caplog.at_level(logging.WARNING):
        plan = AgentPlan.from_agent(Unresolvable())
    assert plan.actions["handle"].event_class is None
    assert "Unresolvable.handle" in caplog.text
    assert "'Missing'" in caplog.text


# --- resources --------------------------------------------------------------------------------------------------------


class Words(SerializableResource):
    resource_type = ResourceType.PROMPT
    text: str


class Model(Resource):
    def __init__(self, model, prompt=None, get_resource=None):
        self.model = model
        self.prompt = get_resource(prompt, ResourceType.PROMPT)


class WithResources(Agent):
    @prompt
    @staticmethod
    def hello():
        return Words(text="hello")

    @chat_model_setup
    def model(self):
        return ResourceDescriptor(Model, model=self.name, prompt="hello")

    name = "m1"


def test_decorated_and_added_resources_are_built_on_demand(form):
    agent = WithResources().add_resource("bye", ResourceType.PROMPT, Words(text="bye"))
    plan = form(AgentPlan.from_agent(agent))
    model = plan.get_resource("model", ResourceType.CHAT_MODEL)
    assert (model.model, model.prompt) == ("m1", Words(text="hello"))
    assert plan.get_resource("bye", ResourceType.PROMPT) == Words(text="bye")
    assert plan.get_resource("model", ResourceType.CHAT_MODEL) is model


def test_resources_of_the_environment_are_there_and_the_agents_own_win():
    shared = {ResourceType.PROMPT: {"hello": Words(text="shared"), "more": Words(text="more")}}
    plan = AgentPlan.from_agent(WithResources(), shared_resources=shared)
    assert plan.get_resource("hello", ResourceType.PROMPT).text == "hello"
    assert plan.get_resource("more", ResourceType.PROMPT).text == "more"


def test_an_output_event_is_an_event_like_any_other_for_triggers():
    plan = AgentPlan.from_agent(Agent().add_action("audit", [OutputEvent], module_action))
    assert plan.actions_by_event == {"_output_event": ["audit"]}
