"""The scripted chat model: fixed replies and rules, in this process and in another."""

from __future__ import annotations

import pytest

from flink_agents_py import Agent, AgentPlan, ChatMessage, ResourceType
from flink_agents_py.errors import FunctionNotFoundError, ModelUnavailableError
from flink_agents_py.testing import ScriptedChatModel, ScriptedRequest, asks_for, scripted_model

CONNECTION = ResourceType.CHAT_MODEL_CONNECTION


def loudly(request: ScriptedRequest) -> str:
    return request.text.upper()


def connection_of(model):
    agent = Agent().add_resource("model", CONNECTION, model.connection)
    return AgentPlan.from_json(AgentPlan.from_agent(agent).to_json()).get_resource("model", CONNECTION)


def said(connection, *texts):
    roles = (ChatMessage.user, ChatMessage.assistant)
    return connection.chat([roles[number % 2](text) for number, text in enumerate(texts)]).text


def test_each_chat_gets_the_replies_in_their_order():
    connection = connection_of(ScriptedChatModel(["one", {"two": 2}]))
    assert [said(connection, "a"), said(connection, "b")] == ["one", "one"]
    assert said(connection, "a", "one", "and?") == '{"two": 2}'
    with pytest.raises(LookupError, match="the chat asks for number 3"):
        said(connection, "a", "one", "b", "two", "c")


def test_a_rule_sees_the_question():
    model = ScriptedChatModel(lambda request: f"{request.round}: {request.text}")
    assert said(connection_of(model), "a", "b", "c") == "1: c"
    assert [request.text for request in model.requests] == ["c"]


def test_failures_come_first_for_each_question():
    connection = connection_of(ScriptedChatModel(["fine"], fail_first=[ModelUnavailableError("busy")]))
    for text in ("a", "b"):
        with pytest.raises(ModelUnavailableError):
            said(connection, text)
        assert said(connection, text) == "fine"


@pytest.mark.parametrize(("replies", "answer"), [(["hi"], "hi"), (loudly, "A")])
def test_another_process_has_data_and_rules_of_modules(monkeypatch, replies, answer):
    connection = connection_of(ScriptedChatModel(replies))
    monkeypatch.setattr(scripted_model, "_scripts", {})  # as it is there
    assert said(connection, "a") == answer


def test_a_rule_that_is_not_there_is_named(monkeypatch):
    connection = connection_of(ScriptedChatModel(loudly))
    monkeypatch.setattr(scripted_model, "_scripts", {})
    connection.rule = "tests:gone"
    with pytest.raises(FunctionNotFoundError, match="tests:gone"):
        said(connection, "a")


def test_an_answer_may_ask_for_tools():
    answer = asks_for(("add", {"a": 1}), ("now", {}))
    assert [(call["id"], call["function"]["name"]) for call in answer.tool_calls] == [
        ("call_0", "add"),
        ("call_1", "now"),
    ]
