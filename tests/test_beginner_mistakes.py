"""The ten mistakes a newcomer is most likely to make: each error says what is wrong, where, and what to do."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from pyflink.common import Types

from flink_agents_py import (
    Agent,
    AgentPlan,
    AgentsExecutionEnvironment,
    InputEvent,
    OutputEvent,
    ResourceType,
    RunnerContext,
    action,
)
from flink_agents_py.errors import FlinkAgentsError
from flink_agents_py.flink.builder import KeyOf
from flink_agents_py.flink.java import java_environment
from flink_agents_py.flink.layout import PlainLayout
from tests.support.flink import say


def message_of(mistake) -> str:
    """What the newcomer reads; printed for those who run this with ``-s``."""
    with pytest.raises(FlinkAgentsError) as caught:
        mistake()
    text = str(caught.value)
    say(f"\n{text}")
    assert text.startswith("[FA")
    assert "\n  fix: " in text
    return text


def run(agent: Agent) -> None:
    environment = AgentsExecutionEnvironment.get_execution_environment()
    environment.from_list([{"key": "ann", "value": 1}]).apply(agent).to_list()


def test_an_action_with_the_wrong_signature():
    class Wrong(Agent):
        @action(InputEvent)
        @staticmethod
        def act(event: InputEvent) -> None:
            pass

    text = message_of(lambda: AgentPlan.from_agent(Wrong()))
    assert "Wrong.act" in text
    assert "ctx" in text


def test_a_model_nobody_declared():
    class Asks(Agent):
        @action(InputEvent)
        @staticmethod
        def act(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.get_resource("gpt", ResourceType.CHAT_MODEL)

    text = message_of(lambda: run(Asks()))
    assert "'gpt'" in text
    assert "test_beginner_mistakes.py" in text  # the line of the user's own code
    assert "driver.py" not in text


def test_a_lambda_in_a_plan_file():
    agent = Agent()
    agent.add_action("shout", [InputEvent], lambda event, ctx: ctx.send_event(OutputEvent(event.input)))
    plan = AgentPlan.from_agent(agent).to_json()
    text = message_of(lambda: AgentPlan.from_json(plan))
    assert "shout" in text


def test_a_machine_without_java(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'flink-agents-py[java]'" in message_of(java_environment)


def test_a_value_in_memory_that_cannot_be_stored():
    class Keeps(Agent):
        @action(InputEvent)
        @staticmethod
        def act(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.short_term_memory.set("client", {"lock": threading.Lock()})

    text = message_of(lambda: run(Keeps()))
    assert "client" in text
    assert "lock" in text


def test_an_input_without_the_key():
    key_of = KeyOf(lambda order: order["customer"], "Orders")
    assert key_of({"customer": "ann"}) == "ann"
    text = message_of(lambda: key_of({"amount": 3}))
    assert "KeyError: 'customer'" in text
    assert "{'amount': 3}" in text
    assert "None" in message_of(lambda: KeyOf(lambda order: order.get("customer"), "Orders")({}))


def test_awaiting_a_coroutine_of_ones_own():
    async def ask(question: str) -> str:
        await asyncio.sleep(0)
        return question

    class Waits(Agent):
        @action(InputEvent)
        @staticmethod
        async def act(event: InputEvent, ctx: RunnerContext) -> None:
            await ask("why")

    text = message_of(lambda: run(Waits()))
    assert "ctx.durable_execute_async" in text


def test_a_model_that_is_down():
    pytest.importorskip("openai")
    from flink_agents_py import ChatMessage, ChatRequestEvent, ResourceDescriptor
    from flink_agents_py.ext.openai import OpenAIChatModelConnection, OpenAIChatModelSetup
    from flink_agents_py.flink.installation import free_ports

    class Chats(Agent):
        @action(InputEvent)
        @staticmethod
        def act(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(ChatRequestEvent(model="small", messages=[ChatMessage(role="user", content="hello")]))

    (port,) = free_ports(1)
    agent = Chats()
    connection = ResourceDescriptor(
        OpenAIChatModelConnection, api_base_url=f"http://127.0.0.1:{port}/v1", api_key="env:NOBODYS_KEY", max_retries=0
    )
    agent.add_resource("connection", ResourceType.CHAT_MODEL_CONNECTION, connection)
    agent.add_resource(
        "small", ResourceType.CHAT_MODEL, ResourceDescriptor(OpenAIChatModelSetup, connection="connection", model="m")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOBODYS_KEY", "x")
        text = message_of(lambda: run(agent))
    assert f"127.0.0.1:{port}" in text


def test_an_output_of_another_type_than_declared():
    layout = PlainLayout(Types.LONG(), "to_datastream(...) of agent Orders")
    text = message_of(lambda: layout.row("twelve", None, 0))
    assert "'twelve'" in text
    assert "to_datastream" in text


def test_two_actions_of_one_name():
    agent = Agent()
    agent.add_action("act", [InputEvent], act)
    text = message_of(lambda: agent.add_action("act", [InputEvent], act))
    assert "'act'" in text


def act(event: InputEvent, ctx: RunnerContext) -> None:
    ctx.send_event(OutputEvent(json.dumps(event.input)))
