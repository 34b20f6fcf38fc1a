"""Ollama's protocol: what goes over the wire, what comes back, and which errors are worth another attempt."""

from __future__ import annotations

import asyncio

import pytest

from flink_agents_py import ChatMessage, ImagePart, MessageRole, OutputSchema, Tool
from flink_agents_py.errors import ModelRequestError, ModelUnavailableError
from flink_agents_py.ext.ollama import OllamaChatModelConnection, OllamaChatModelSetup
from tests.support.json_server import JsonServer


def answer(content="", calls=()):
    message = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    counts = {"prompt_eval_count": 5, "eval_count": 3}
    return {"model": "tiny", "message": message, "done": True, "done_reason": "stop", **counts}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def ask(url, *messages, sync=False, **options):
    connection = OllamaChatModelConnection(base_url=url)
    messages = messages or (ChatMessage.user("hi"),)
    if sync:
        return connection.chat(messages, model="tiny", **options)
    return asyncio.run(connection.achat(messages, model="tiny", **options))


@pytest.mark.parametrize("sync", [True, False])
def test_a_chat_there_and_back(sync):
    with JsonServer(answer("hello")) as server:
        said = ask(server.url, ChatMessage.user("see", ImagePart.from_bytes(b"x")), sync=sync, options={"num_ctx": 10})
    assert said.text == "hello"
    assert (said.extra_args["promptTokens"], said.extra_args["completionTokens"]) == (5, 3)
    ((path, _, body),) = server.requests
    assert path == "/api/chat"
    assert body["messages"] == [{"role": "user", "content": "see", "images": ["eA=="]}]
    assert body["options"]["num_ctx"] == 10


def test_tools_their_calls_and_their_results():
    calls = [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]
    with JsonServer(answer(calls=calls), answer("7")) as server:
        asked = ask(server.url, tools=[Tool.from_callable(add)])
        result = ChatMessage(role=MessageRole.TOOL, content="3", extra_args={"tool_name": "add"})
        ask(server.url, ChatMessage.user("hi"), asked, result)
    assert [call["id"] for call in asked.tool_calls] == ["call_0", "call_1"]
    assert server.requests[0][2]["tools"][0]["function"]["name"] == "add"
    assert server.requests[1][2]["messages"][2] == {"role": "tool", "content": "3", "tool_name": "add"}


def test_a_schema_is_the_format():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    with JsonServer(answer("{}")) as server:
        ask(server.url, output_schema=OutputSchema(schema))
    assert server.requests[0][2]["format"] == schema


@pytest.mark.parametrize(("status", "error"), [(503, ModelUnavailableError), (404, ModelRequestError)])
def test_errors(status, error):
    with JsonServer((status, {}, {"error": "no"})) as server, pytest.raises(error) as caught:
        ask(server.url)
    assert caught.value.status == status


@pytest.mark.parametrize("sync", [True, False])
def test_nobody_listens(sync):
    with pytest.raises(ModelUnavailableError):
        ask("http://127.0.0.1:9", sync=sync)


def test_the_setup_says_what_goes_with_each_chat():
    setup = OllamaChatModelSetup(connection="c", model="tiny", temperature=0, keep_alive="5m")
    assert setup.model_kwargs == {
        "model": "tiny",
        "options": {"temperature": 0.0},
        "keep_alive": "5m",
        "extract_reasoning": True,
    }


def test_what_a_model_thinks_is_not_what_it_says():
    with JsonServer(answer("<think>hm\n</think>\n\nfour"), answer("<think>hm</think>four")) as server:
        said = ask(server.url)
        raw = ask(server.url, extract_reasoning=False)
    assert (said.text, said.extra_args["reasoning"]) == ("four", "hm")
    assert raw.text == "<think>hm</think>four"


def test_the_peers_name_for_the_timeout():
    assert OllamaChatModelConnection(request_timeout=7).timeout == 7
