"""External actions as tools of a model: same spec, same limits; a failure is told to the model."""

from __future__ import annotations

from flink_agents_py import ActionRegistry, ActionSpec, BusinessRejected, ReActAgent, ResourceType, Tool
from flink_agents_py.testing import AgentHarness, ScriptedChatModel, asks_for

SPEC = ActionSpec(
    name="refund",
    description="Pay money back.",
    parameters={"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
)


def refund(call, session):
    if call.params["amount"] > 100:
        raise BusinessRejected("too much")
    return {"paid": call.params["amount"]}


def agent_with(model):
    registry = ActionRegistry()
    registry.register(SPEC, refund)
    agent = ReActAgent(chat_model=model.setup("model", tools=["refund"]))
    agent.add_resource("model", ResourceType.CHAT_MODEL_CONNECTION, model.connection)
    agent.add_resource("refund", ResourceType.TOOL, Tool.from_action_spec(SPEC))
    return agent.add_action_registry(registry)


def test_a_model_calls_an_external_action_and_is_told_its_failures():
    asked = asks_for(("refund", {"amount": 5}), ("refund", {"amount": 500}), ("refund", {"amount": "x"}))
    model = ScriptedChatModel([asked, "done"])
    harness = AgentHarness(agent_with(model), latency=0.01)
    harness.feed("ann", "money back")
    harness.run()
    assert harness.outputs == ["done"]
    paid, rejected, misfit = model.requests[1].tool_results
    assert paid == '{"paid":5}'
    assert rejected.startswith("Error: BUSINESS_REJECTED: ")
    assert "too much" in rejected
    assert misfit.startswith("Error: INVALID_CALL: ")
    assert [result["code"] for result in harness.side_output("action-results")].count("SUCCESS") == 1


def test_the_model_sees_the_schema_of_the_spec():
    metadata = Tool.from_action_spec(SPEC).metadata
    assert (metadata.name, metadata.description, metadata.parameters) == (SPEC.name, SPEC.description, SPEC.parameters)
