"""Agents that other agents call: by an action, by an event, and as a tool of a model."""

from __future__ import annotations

import json

import pytest

from flink_agents_py import Agent, Event, InputEvent, OutputEvent, Prompt, ReActAgent, ResourceType, Tool, action
from flink_agents_py.agent_events import AgentRequestEvent, AgentResponseEvent
from flink_agents_py.errors import ActionFailedError, AgentDefinitionError, DuplicateNameError, UntrustedCodeError
from flink_agents_py.plan import AgentPlan
from flink_agents_py.testing import AgentHarness, Scenario, ScriptedChatModel, asks_for
from tests.support.stores import in_memory


async def fetch(what: str) -> str:
    return f"<{what}>"


class Price(Event):
    amount: int


class Billing(Agent):
    """Two actions, calls in both, memory of its own."""

    @action(InputEvent)
    @staticmethod
    async def begin(event, ctx):
        found = await ctx.durable_execute_async(fetch, f"price of {event.input}")
        ctx.sensory_memory.set("found", found)
        ctx.send_event(Price(amount=len(event.input)))

    @action(Price, factor=10)
    @staticmethod
    async def tell(event: Price, ctx):
        left, right = await ctx.gather(
            ctx.durable_execute_async(fetch, "left"), ctx.durable_execute_async(fetch, "right")
        )
        memory = ctx.short_term_memory
        memory.set("count", (memory.get("count") or 0) + 1)
        ctx.send_event(
            OutputEvent(
                {
                    "found": ctx.sensory_memory.get("found"),
                    "amount": event.amount * ctx.get_action_config_value("factor"),
                    "sides": [left, right],
                    "count": memory.get("count"),
                    "prompt": ctx.get_resource("words", ResourceType.PROMPT).format_string(),
                }
            )
        )


def billing() -> Agent:
    return Billing().add_resource("words", ResourceType.PROMPT, Prompt.from_text("of billing"))


class ByAction(Agent):
    @action(InputEvent)
    @staticmethod
    async def ask(event, ctx):
        ctx.short_term_memory.set("mine", event.input)
        ctx.sensory_memory.set("mine", event.input)
        before = await ctx.durable_execute_async(fetch, "before")
        (first,) = await ctx.call_agent("billing", event.input)
        (second,) = await ctx.call_agent("billing", event.input * 2)
        after = await ctx.durable_execute_async(fetch, "after")
        prompt = ctx.get_resource("words", ResourceType.PROMPT).format_string()
        ctx.send_event(OutputEvent([before, first, second, after, prompt, ctx.sensory_memory.get("mine")]))


class ByEvent(Agent):
    @action(InputEvent)
    @staticmethod
    def ask(event, ctx):
        for part in event.input.split():
            ctx.send_event(AgentRequestEvent(agent="billing", input=part))

    @action(AgentResponseEvent)
    @staticmethod
    def answer(event: AgentResponseEvent, ctx):
        ctx.send_event(OutputEvent([event.agent, event.outputs[0]["found"]]))


def by_action() -> Agent:
    agent = ByAction().add_agent("billing", billing())
    return agent.add_resource("words", ResourceType.PROMPT, Prompt.from_text("of the caller"))


def by_event() -> Agent:
    return ByEvent().add_agent("billing", billing())


def answer_of(what: str, count: int) -> dict:
    return {
        "found": f"<price of {what}>",
        "amount": len(what) * 10,
        "sides": ["<left>", "<right>"],
        "count": count,
        "prompt": "of billing",
    }


def test_an_action_calls_an_agent_with_memory_resources_and_configuration_of_its_own():
    harness = AgentHarness(by_action(), latency=0.01)
    harness.feed("k", "ab")
    harness.run()
    assert harness.outputs == [["<before>", answer_of("ab", 1), answer_of("abab", 2), "<after>", "of the caller", "ab"]]
    memory = harness.short_term_memory("k")
    assert memory.get("count") is None
    assert memory.get("mine") == "ab"
    assert memory.get("__agents__.billing.count") == 2


def test_its_memory_is_there_for_the_next_run_of_the_key_and_of_no_other():
    harness = AgentHarness(by_action(), latency=0.01)
    for key in ("k", "k", "other"):
        harness.feed(key, "x")
    harness.run()
    counts = [(key, output[1]["count"]) for key, output in harness.keyed_outputs]
    assert sorted(counts) == [("k", 1), ("k", 3), ("other", 1)]


def test_an_event_calls_an_agent_and_several_are_worked_on_at_once():
    harness = AgentHarness(by_event())
    harness.feed("k", "a b c")
    assert [call.args for call in harness.calls] == [(f"price of {part}",) for part in "abc"]
    while harness.calls:
        harness.calls[-1].run()
    assert sorted(harness.outputs) == [["billing", f"<price of {part}>"] for part in "abc"]


@pytest.mark.parametrize("make", [by_action, by_event])
@pytest.mark.parametrize("store", [None, in_memory])
def test_crashes_at_every_step_repeat_nothing_that_was_recorded(crash, make, store):
    report = crash(
        Scenario(make, [("a", "x y"), ("b", "z")], store=store, ordered=make is by_action), crashes=2, depth=2
    )
    assert report.points > 30


def test_a_model_calls_an_agent_as_a_tool(crash):
    def agent() -> Agent:
        model = ScriptedChatModel([asks_for(("billing", {"input": "tea"})), "It is 30."])
        made = ReActAgent(chat_model=model.setup("model", tools=["billing"]))
        made.add_resource("model", ResourceType.CHAT_MODEL_CONNECTION, model.connection)
        made.add_resource("billing", ResourceType.TOOL, Tool.from_agent("billing", "knows prices"))
        made.model = model
        return made.add_agent("billing", billing())

    asked = agent()
    harness = AgentHarness(asked, latency=0.01)
    harness.feed("k", "what is tea?")
    harness.run()
    assert harness.outputs == ["It is 30."]
    tool = AgentPlan.from_agent(asked).resource_providers[ResourceType.TOOL]["billing"].serialized["metadata"]
    assert tool["description"] == "knows prices"
    assert tool["parameters"]["required"] == ["input"]
    (result,) = asked.model.requests[1].tool_results
    assert json.loads(result) == answer_of("tea", 1)
    assert crash(Scenario(agent, [("a", "x"), ("b", "y")]), depth=2).points > 30


def test_a_model_calls_an_agent_with_a_model_of_its_own():
    inner = ScriptedChatModel([asks_for(("add", {"a": 1, "b": 2})), "three"])
    expert = ReActAgent(chat_model=inner.setup("model", tools=["add"]))
    expert.add_resource("model", ResourceType.CHAT_MODEL_CONNECTION, inner.connection)
    expert.add_resource("add", ResourceType.TOOL, Tool.from_callable(add))
    outer = ScriptedChatModel(
        [asks_for(("expert", {"input": "1 + 2?"}), ("expert", {"input": "and?"})), "It is three."]
    )
    agent = ReActAgent(chat_model=outer.setup("model", tools=["expert"]))
    agent.add_resource("model", ResourceType.CHAT_MODEL_CONNECTION, outer.connection)
    agent.add_resource("expert", ResourceType.TOOL, Tool.from_agent("expert", "adds"))
    agent.add_agent("expert", expert)
    harness = AgentHarness(agent, latency=0.01)
    harness.feed("k", "what is 1 + 2?")
    harness.run()
    assert harness.outputs == ["It is three."]
    assert outer.requests[1].tool_results == ["three", "three"]
    assert inner.requests[1].tool_results == ["3"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_agents_call_agents_that_call_agents():
    class Middle(Agent):
        @action(InputEvent)
        @staticmethod
        async def pass_on(event, ctx):
            ctx.short_term_memory.set("asked", event.input)
            for answer in await ctx.call_agent("billing", event.input):
                ctx.send_event(OutputEvent(answer["count"]))
                ctx.send_event(OutputEvent("twice"))

    class Outer(Agent):
        @action(InputEvent)
        @staticmethod
        async def ask(event, ctx):
            ctx.send_event(OutputEvent(await ctx.call_agent("middle", event.input)))

    harness = AgentHarness(Outer().add_agent("middle", Middle().add_agent("billing", billing())), latency=0.01)
    harness.feed("k", "x")
    harness.run()
    assert harness.outputs == [[1, "twice"]]
    memory = harness.short_term_memory("k")
    assert memory.get("__agents__.middle.asked") == "x"
    assert memory.get("__agents__.middle.__agents__.billing.count") == 1


def test_what_a_called_agent_raises_is_raised_where_it_was_called():
    class Broken(Agent):
        @action(InputEvent, on_error="skip")
        @staticmethod
        def fail(event, ctx):
            ctx.sensory_memory.set("left", 1)
            raise LookupError("nothing there")

    class Caller(Agent):
        @action(InputEvent)
        @staticmethod
        async def ask(event, ctx):
            try:
                await ctx.call_agent("broken", 1)
            except LookupError as error:
                ctx.send_event(OutputEvent([str(error), ctx.sensory_memory.get("__agents__").get_field_names()]))
            await ctx.call_agent("nobody")

    harness = AgentHarness(Caller().add_agent("broken", Broken()))
    with pytest.raises(ActionFailedError, match="there is no agent 'nobody' to call"):
        harness.feed("k", 1)


def test_mistakes_are_named_when_the_agent_is_compiled():
    agent = by_event()
    with pytest.raises(DuplicateNameError, match="'billing' is added twice"):
        agent.add_agent("billing", billing())
    agent.add_agent("self", agent)
    with pytest.raises(AgentDefinitionError, match="'self' would call itself"):
        AgentPlan.from_agent(agent)
    wrong = by_event().add_resource("t", ResourceType.TOOL, Tool.from_agent("nobody", "is not there"))
    with pytest.raises(AgentDefinitionError, match="calls agent 'nobody', which was not added"):
        AgentPlan.from_agent(wrong)


def test_called_agents_travel_in_the_plan_and_are_part_of_its_meaning():
    plan = AgentPlan.from_agent(by_action())
    again = AgentPlan.from_json(plan.to_json())
    assert again.to_json() == plan.to_json()
    assert again.fingerprint == plan.fingerprint
    assert set(again.agents["billing"].actions) == {"begin", "tell"}
    assert set(again.actions) == {"ask", "agent_call_action"}
    other = by_action()
    other.agents["billing"].add_resource("more", ResourceType.PROMPT, Prompt.from_text("x"))
    assert AgentPlan.from_agent(other).fingerprint != plan.fingerprint
    local = ByEvent().add_agent("billing", Agent().add_action("act", [InputEvent], lambda event, ctx: None))
    with pytest.raises(UntrustedCodeError):
        AgentPlan.from_json(AgentPlan.from_agent(local).to_json())
