"""The ReAct agent: asks a model, calls the tools it asks for, and ends, under the virtual clock."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from flink_agents_py import Prompt, ReActAgent, ResourceType, Tool
from flink_agents_py.errors import (
    ActionFailedError,
    AgentDefinitionError,
    MaxIterationsError,
    ModelRequestError,
    ModelUnavailableError,
)
from flink_agents_py.testing import AgentHarness, Scenario, ScriptedChatModel, asks_for, crash_everywhere
from tests.support.stores import in_memory

TOOL, CONNECTION = ResourceType.TOOL, ResourceType.CHAT_MODEL_CONNECTION


class Sum(BaseModel):
    total: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


def broken(reason: str) -> str:
    """Always fails."""
    raise RuntimeError(reason)


def agent_with(model: ScriptedChatModel, tools: tuple[Any, ...] = (add, shout, broken), **arguments: Any) -> ReActAgent:
    names = [function.__name__ for function in tools]
    agent = ReActAgent(chat_model=model.setup("model", tools=names), **arguments)
    agent.add_resource("model", CONNECTION, model.connection)
    for function in tools:
        agent.add_resource(function.__name__, TOOL, Tool.from_callable(function))
    return agent


def outputs_of(agent: ReActAgent, *inputs: Any, config: dict[str, Any] | None = None) -> list[Any]:
    harness = AgentHarness(agent, config, latency=0.01)
    for number, value in enumerate(inputs):
        harness.feed(f"key-{number}", value)
    harness.run()
    return harness.outputs


def test_a_model_that_needs_no_tool_answers_at_once():
    model = ScriptedChatModel(["it is 4"])
    assert outputs_of(agent_with(model), "what is 2 + 2?") == ["it is 4"]
    assert [request.tools for request in model.requests] == [["add", "shout", "broken"]]


def test_tools_of_one_answer_are_called_and_their_results_go_back_in_the_models_order():
    model = ScriptedChatModel([asks_for(("shout", {"text": "hi"}), ("add", {"a": 1, "b": 2})), "done"])
    assert outputs_of(agent_with(model), "go") == ["done"]
    assert model.requests[1].tool_results == ["HI", "3"]


def test_tools_of_one_answer_run_in_parallel():
    model = ScriptedChatModel([asks_for(*[("add", {"a": n, "b": 1}) for n in range(3)]), "done"])
    harness = AgentHarness(agent_with(model))
    harness.feed("ann", "go")
    harness.calls[0].run()
    assert len(harness.calls) == 3
    for call in reversed(harness.calls):
        call.run()
    harness.calls[0].run()
    assert harness.outputs == ["done"]
    assert model.requests[1].tool_results == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("broken", {"reason": "no luck"}), "Error: RuntimeError: no luck"),
        (("nothing", {}), "Error: there is no tool 'nothing'; use one of those offered"),
        (("add", {"a": 1}), "Error: the arguments of add do not fit: b: Field required"),
        (
            ("add", {"a": 1, "b": 2, "c": 3}),
            "Error: the arguments of add do not fit: c: Extra inputs are not permitted",
        ),
    ],
)
def test_what_goes_wrong_with_a_tool_is_told_to_the_model(call, told):
    model = ScriptedChatModel([asks_for(call, ("add", {"a": 1, "b": 1})), "I see"])
    assert outputs_of(agent_with(model), "go") == ["I see"]
    assert model.requests[1].tool_results == [told, "2"]


def test_a_model_that_never_stops_asking_ends_as_a_dead_letter_that_says_so():
    model = ScriptedChatModel(lambda request: asks_for(("add", {"a": request.round, "b": 1})))
    harness = AgentHarness(agent_with(model, max_iterations=3, on_error="dead_letter"), latency=0.01)
    harness.feed("ann", "go")
    harness.run()
    (letter,) = harness.side_output("dead-letters")
    assert letter["error"].endswith("MaxIterationsError")
    assert "answered 3 times and still asks for tools (add)" in letter["message"]
    assert len(model.requests) == 3


def test_it_asks_ten_times_by_default():
    model = ScriptedChatModel(lambda request: asks_for(("add", {"a": request.round, "b": 1})))
    with pytest.raises(ActionFailedError) as caught:
        outputs_of(agent_with(model), "go")
    assert isinstance(caught.value.__cause__, MaxIterationsError)
    assert len(model.requests) == 10


def test_an_agent_that_may_not_ask_at_all_is_refused():
    with pytest.raises(AgentDefinitionError, match="max_iterations is 0"):
        agent_with(ScriptedChatModel(["x"]), max_iterations=0)


def test_the_fields_of_an_input_fill_the_prompt():
    model = ScriptedChatModel(lambda request: request.text)
    prompt = Prompt.from_text('{name} is {age}, {unknown} and {"a": 1}')
    agent = agent_with(model, prompt=prompt)
    assert outputs_of(agent, {"name": "Ann", "age": 7}) == ['Ann is 7, {unknown} and {"a": 1}']


def test_an_input_with_fields_needs_a_prompt():
    agent = agent_with(ScriptedChatModel(["x"]), on_error="dead_letter")
    harness = AgentHarness(agent)
    harness.feed("ann", {"name": "Ann"})
    assert "needs a prompt" in harness.side_output("dead-letters")[0]["message"]


def test_outputs_have_the_type_of_the_output_schema():
    model = ScriptedChatModel([asks_for(("add", {"a": 1, "b": 2})), {"total": 3}])
    assert outputs_of(agent_with(model, output_schema=Sum), "1 + 2") == [Sum(total=3)]


def test_an_error_of_the_service_is_tried_again_and_waits_on_timers():
    busy = ModelUnavailableError("busy")
    busy.retry_after = 20.0
    model = ScriptedChatModel(["done"], fail_first=[busy])
    harness = AgentHarness(agent_with(model), latency=0.01)
    harness.feed("ann", "go")
    harness.advance(19)
    assert harness.outputs == []
    harness.advance(5)
    assert harness.outputs == ["done"]


def test_the_error_handling_strategy_counts_here_too():
    model = ScriptedChatModel(lambda request: ModelRequestError("bad") if request.text == "bad" else "fine")
    config = {"error-handling-strategy": "ignore"}
    assert outputs_of(agent_with(model), "bad", "good", config=config) == ["fine"]


def ledger_agent() -> ReActAgent:
    def say(request):
        if request.round == 0:
            return asks_for(("add", {"a": len(request.text), "b": 1}), ("shout", {"text": request.text}))
        return " ".join(request.tool_results)

    return agent_with(ScriptedChatModel(say))


def test_no_finished_call_is_repeated_wherever_it_crashes():
    inputs = [("ann", "one"), ("ben", "three"), ("ann", "seven")]
    report = crash_everywhere(Scenario(ledger_agent, inputs, ordered=False))
    assert report.points > 50


def test_with_a_store_no_finished_call_is_repeated_whatever_checkpoint_is_restored():
    inputs = [("ann", "one"), ("ben", "three")]
    report = crash_everywhere(Scenario(ledger_agent, inputs, ordered=False, store=in_memory))
    assert report.points > 50
