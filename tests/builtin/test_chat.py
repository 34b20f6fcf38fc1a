"""Chats of users' own actions: output schemas, error strategies, parallel chats, injected arguments."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from flink_agents_py import (
    Agent,
    ChatMessage,
    ChatRequestEvent,
    ChatResponseEvent,
    InjectedArg,
    InputEvent,
    OutputEvent,
    ResourceDescriptor,
    ResourceType,
    RunnerContext,
    Tool,
    ToolRequestEvent,
    ToolResponseEvent,
    action,
    tool,
)
from flink_agents_py.errors import (
    ActionFailedError,
    ModelRequestError,
    ModelUnavailableError,
    SignatureError,
    StructuredOutputError,
)
from flink_agents_py.resources.messages import tool_call
from flink_agents_py.testing import AgentHarness, Scenario, ScriptedChatModel, asks_for, crash_everywhere
from flink_agents_py.testing.scripted_model import ScriptedChatModelConnection


class Score(BaseModel):
    score: int
    reasons: list[str] = []


class Asker(Agent):
    """Asks as the input says, and outputs the whole answer."""

    @action(InputEvent)
    @staticmethod
    def ask(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(ChatRequestEvent("asker", [ChatMessage.user(event.input)], **ctx.config.get("ask", {})))

    @action(ChatResponseEvent)
    @staticmethod
    def answer(event: ChatResponseEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(event.response))


def asker(model: ScriptedChatModel, agent: Agent | None = None, **setup: Any) -> Agent:
    agent = agent or Asker()
    agent.add_resource("asker", ResourceType.CHAT_MODEL, model.setup("model", **setup))
    agent.add_resource("model", ResourceType.CHAT_MODEL_CONNECTION, model.connection)
    return agent


class Structured(Asker):
    @action(InputEvent)
    @staticmethod
    def ask(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(ChatRequestEvent("asker", [ChatMessage.user(event.input)], output_schema=Score))


def answer_of(agent: Agent, value: Any = "go", config: dict[str, Any] | None = None) -> ChatMessage:
    harness = AgentHarness(agent, config, latency=0.01)
    harness.feed("ann", value)
    harness.run()
    (answer,) = harness.outputs
    return answer


# --- output schemas ---------------------------------------------------------------------------------------------------


def test_a_service_that_offers_it_gets_the_schema_itself():
    model = ScriptedChatModel([{"score": 5}], native=True)
    answer = answer_of(asker(model, Structured()))
    assert answer.extra_args["structured_output"] == Score(score=5)
    assert answer.extra_args["structured_output_strategy"] == "native"
    assert [message.text for message in model.requests[0].messages] == ["go"]
    assert model.requests[0].output_schema.schema_dict() == Score.model_json_schema()


def test_any_other_model_is_instructed_and_its_text_is_read():
    model = ScriptedChatModel(['Sure!\n```json\n{"score": 4, "reasons": ["a {b}"]}\n```'])
    answer = answer_of(asker(model, Structured()))
    assert answer.extra_args["structured_output"] == Score(score=4, reasons=["a {b}"])
    assert answer.extra_args["structured_output_strategy"] == "prompt"
    assert "JSON Schema" in model.requests[0].messages[0].text


def test_an_answer_that_does_not_fit_is_sent_back_once():
    model = ScriptedChatModel([{"score": "high"}, {"score": 3}])
    answer = answer_of(asker(model, Structured()))
    assert answer.extra_args["structured_output"] == Score(score=3)
    assert answer.extra_args["structured_output_strategy"] == "prompt, repaired"
    assert "score: Input should be a valid integer" in model.requests[1].text
    assert answer.extra_args["chat_usage"]["calls"] == 2


def test_a_second_misfit_is_an_error():
    model = ScriptedChatModel(["no", "no"])
    with pytest.raises(ActionFailedError) as caught:
        answer_of(asker(model, Structured()))
    assert isinstance(caught.value.__cause__, StructuredOutputError)
    assert len(model.requests) == 2


def test_a_service_that_refuses_the_schema_is_asked_by_prompt():
    def say(request):
        if request.output_schema is not None:
            raise ModelRequestError("unknown parameter response_format")
        return {"score": 1}

    answer = answer_of(asker(ScriptedChatModel(say, native=True), Structured()))
    assert answer.extra_args["structured_output_strategy"] == "native refused, prompt"
    assert answer.extra_args["structured_output"] == Score(score=1)


def test_a_user_who_insists_on_the_services_own_way_gets_its_error():
    model = ScriptedChatModel([ModelRequestError("unknown parameter")], native=True)
    with pytest.raises(ActionFailedError, match="unknown parameter"):
        answer_of(asker(model, Structured(), structured_output_strategy="native"))


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_error_that_no_attempt_would_change_fails_the_job_at_once():
    model = ScriptedChatModel([ModelRequestError("no such model")])
    with pytest.raises(ActionFailedError, match="no such model"):
        answer_of(asker(model))
    assert len(model.requests) == 1


def test_errors_of_the_service_are_tried_again_as_often_as_the_connection_says():
    model = ScriptedChatModel([ModelUnavailableError("down")])
    with pytest.raises(ActionFailedError, match="down"):
        answer_of(asker(model), config={"ScriptedChatModelConnection.max_retries": 2})
    assert len(model.requests) == 3


class Counting(Asker):
    @action(ChatResponseEvent)
    @staticmethod
    def answer(event: ChatResponseEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent((event.response.text, event.retry_count)))


def test_the_response_tells_how_often_the_service_was_asked_again():
    busy = [ModelUnavailableError("busy"), ModelUnavailableError("still busy")]
    model = ScriptedChatModel([asks_for(("none", {})), "fine"], fail_first=busy)
    assert answer_of(asker(model, Counting())) == ("fine", 4)


def test_under_retry_every_error_is_tried_again_misfits_included():
    replies = iter([ModelRequestError("odd"), "no", "no", {"score": 2}])
    model = ScriptedChatModel(lambda request: next(replies))
    config = {"error-handling-strategy": "retry", "max-retries": 2, "retry-wait-interval": 1}
    answer = answer_of(asker(model, Structured()), config=config)
    assert answer.extra_args["structured_output"] == Score(score=2)


@pytest.mark.parametrize(("strategy", "letters"), [("ignore", 0), ("dead_letter", 1)])
def test_a_chat_that_fails_can_be_dropped_or_kept_as_a_dead_letter(strategy, letters):
    model = ScriptedChatModel(lambda request: ModelRequestError("bad") if request.text == "bad" else "fine")
    harness = AgentHarness(asker(model), {"error-handling-strategy": strategy}, latency=0.01)
    harness.feed("ann", "bad")
    harness.feed("ann", "good")
    harness.run()
    assert [answer.text for answer in harness.outputs] == ["fine"]
    assert len(harness.side_output("dead-letters")) == letters
    assert harness.stats.skipped == 1 - letters


# --- costs ------------------------------------------------------------------------------------------------------------


def test_tokens_and_cost_are_counted_over_the_whole_chat():
    model = ScriptedChatModel([asks_for(("add", {"a": 1, "b": 2})), "three four"])
    agent = asker(model, tools=["add"])
    agent.add_resource("add", ResourceType.TOOL, Tool.from_callable(plus, name="add"))
    prices = {"script": {"input": 2_000_000, "output": 1_000_000}}
    answer = answer_of(agent, "one two", {"ScriptedChatModelConnection.prices": prices})
    assert answer.extra_args["chat_usage"] == {
        "prompt": 2 + 3,
        "completion": 2,
        "cost": 12.0,
        "calls": 2,
        "retries": 0,
        "waited": 0.0,
    }


def test_tokens_are_counted_in_the_metrics_of_the_action():
    harness = AgentHarness(asker(ScriptedChatModel(["three four"])), latency=0.01)
    harness.feed("ann", "one two")
    harness.run()
    group = harness.engine.metrics.get_sub_group("action", "chat_model_action").get_sub_group("model", "scripted")
    assert group.get_counter("promptTokens").get_count() == 2
    assert group.get_counter("completionTokens").get_count() == 2


def plus(a: int, b: int) -> int:
    return a + b


# --- parallel chats ---------------------------------------------------------------------------------------------------


def who_is(name: str) -> str:
    return f"{name} is known"


class Twins(Asker):
    """Two chats with tools in one run."""

    @action(InputEvent)
    @staticmethod
    def ask(event: InputEvent, ctx: RunnerContext) -> None:
        for name in (event.input, event.input[::-1]):
            ctx.send_event(ChatRequestEvent("asker", [ChatMessage.user(name)]))

    @action(ChatResponseEvent)
    @staticmethod
    def answer(event: ChatResponseEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(event.response.text))


def twins() -> Agent:
    def say(request):
        if request.round < 2:
            return asks_for(("who_is", {"name": f"{request.text}{request.round}"}))
        return " / ".join(message.text for message in request.messages if message.role.value != "assistant")

    agent = asker(ScriptedChatModel(say), Twins(), tools=["who_is"])
    return agent.add_resource("who_is", ResourceType.TOOL, Tool.from_callable(who_is))


def test_two_chats_of_one_run_keep_their_transcripts_apart():
    harness = AgentHarness(twins(), latency=lambda call: 0.01 if "ann" in str(call.args) else 0.025)
    harness.feed("k", "anna1")
    harness.run()
    assert sorted(harness.outputs) == [
        "1anna / 1anna0 is known / 1anna1 is known",
        "anna1 / anna10 is known / anna11 is known",
    ]


def test_two_chats_of_one_run_survive_a_crash_anywhere():
    assert crash_everywhere(Scenario(twins, [("k", "xy"), ("l", "zz")], ordered=False)).points > 50


# --- tools without a model --------------------------------------------------------------------------------------------


class Direct(Agent):
    """Asks for tools itself, by their names as resources."""

    @action(InputEvent)
    @staticmethod
    def ask(event: InputEvent, ctx: RunnerContext) -> None:
        calls = [tool_call("plus", {"a": event.input, "b": 1}, "x"), tool_call("gone", {}, "y")]
        ctx.send_event(ToolRequestEvent("", calls))

    @action(ToolResponseEvent)
    @staticmethod
    def told(event: ToolResponseEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent((event.responses["x"], event.success, event.error["y"])))


def test_an_action_may_ask_for_tools_itself():
    agent = Direct().add_resource("plus", ResourceType.TOOL, Tool.from_callable(plus))
    harness = AgentHarness(agent, latency=0.01)
    harness.feed("k", 1)
    harness.run()
    ((result, success, error),) = harness.outputs
    assert (result, success) == (2, {"x": True, "y": False})
    assert "there is no tool 'gone'" in error


# --- arguments the model does not see ---------------------------------------------------------------------------------


class Shop(Asker):
    @action(InputEvent)
    @staticmethod
    def ask(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.short_term_memory.set("user.name", "ann")
        ctx.send_event(ChatRequestEvent("asker", [ChatMessage.user(event.input)]))

    @tool(
        injected_args={
            "tenant": InjectedArg.from_config("shop.tenant"),
            "user": InjectedArg.from_short_term_memory("user.name"),
        }
    )
    @staticmethod
    def order(item: str, tenant: str, user: str, idempotency_key: str = "") -> str:
        """Order an item.

        Args:
            item: what to order.
        """
        return f"{item} for {user} at {tenant}, {len(idempotency_key)} characters"


def test_injected_arguments_are_hidden_from_the_model_and_cannot_be_given_by_it():
    model = ScriptedChatModel([asks_for(("order", {"item": "tea", "tenant": "evil"})), "ordered"])
    harness = AgentHarness(asker(model, Shop(), tools=["order"]), {"shop.tenant": "north"}, latency=0.01)
    harness.feed("k", "tea please")
    harness.run()
    assert model.requests[1].tool_results == ["tea for ann at north, 32 characters"]
    schema = harness.plan.get_resource("order", ResourceType.TOOL).metadata.parameters
    assert schema["properties"] == {"item": {"type": "string", "description": "what to order."}}


def test_an_injected_argument_without_a_value_is_the_tools_error():
    model = ScriptedChatModel([asks_for(("order", {"item": "tea"})), "sorry"])
    answer_of(asker(model, Shop(), tools=["order"]))
    assert model.requests[1].tool_results == [
        "Error: the injected argument 'tenant' has no value: there is none at 'shop.tenant'"
    ]


def test_an_injected_argument_must_be_a_parameter():
    with pytest.raises(SignatureError, match="no parameter 'color'"):
        Tool.from_callable(who_is, injected_args={"color": InjectedArg.from_config("x")})


class Metered(ScriptedChatModelConnection):
    def chat(self, *args, **kwargs):
        self.metric_group.get_counter("asked").inc()
        return super().chat(*args, **kwargs)

    async def achat(self, *args, **kwargs):
        self.metric_group.get_counter("asked").inc()
        return await super().achat(*args, **kwargs)


def test_a_resource_has_a_metric_group_of_its_own():
    model = ScriptedChatModel(["hi"])
    agent = Asker().add_resource("asker", ResourceType.CHAT_MODEL, model.setup("model"))
    descriptor = ResourceDescriptor(Metered, **model.connection.arguments)
    agent.add_resource("model", ResourceType.CHAT_MODEL_CONNECTION, descriptor)
    harness = AgentHarness(agent, latency=0.01)
    harness.feed("ann", "hi")
    harness.run()
    group = harness.engine.metrics.get_sub_group("resource", "chat_model_connection").get_sub_group("name", "model")
    assert group.get_counter("asked").get_count() == 1
