"""OpenAI's protocol: what goes over the wire, what comes back, and which errors are worth another attempt."""

from __future__ import annotations

import asyncio
import json

import pytest

from flink_agents_py import ChatMessage, ImagePart, OutputSchema, Tool
from flink_agents_py.errors import ModelRequestError, ModelUnavailableError
from flink_agents_py.ext.openai import AzureOpenAIChatModelConnection, OpenAIChatModelConnection, OpenAIChatModelSetup
from flink_agents_py.resources.messages import MessageRole
from flink_agents_py.testing import ModelFault, ModelReply, OpenAIServer


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def connection_to(server, **arguments):
    return OpenAIChatModelConnection(base_url=server.url, **arguments)


def ask(connection, *messages, sync=False, **options):
    messages = messages or (ChatMessage.user("hi"),)
    if sync:
        return connection.chat(messages, model="m", **options)

    async def go():
        try:
            return await connection.achat(messages, model="m", **options)
        finally:
            connection.close()
            await asyncio.sleep(0)

    return asyncio.run(go())


@pytest.mark.parametrize("sync", [True, False])
def test_a_chat_there_and_back(sync):
    with OpenAIServer([ModelReply("hello", usage=(7, 2))]) as server:
        answer = ask(connection_to(server), ChatMessage.system("be kind"), ChatMessage.user("hi"), sync=sync, seed=3)
    assert (answer.role, answer.text) == (MessageRole.ASSISTANT, "hello")
    assert answer.extra_args["promptTokens"] == 7
    assert answer.extra_args["completionTokens"] == 2
    body = server.requests[0].body
    assert body["messages"] == [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
    assert (body["model"], body["seed"]) == ("m", 3)


def test_images_and_texts_are_parts_of_one_message():
    with OpenAIServer("a cat") as server:
        image = ImagePart.from_bytes(b"\x89PNG")
        ask(connection_to(server), ChatMessage.user("what is it?", image, ImagePart(url="http://x/y.png")))
    parts = server.requests[0].messages[0]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "image_url"]
    assert parts[1]["image_url"]["url"] == "data:image/png;base64,iVBORw=="


def test_tools_their_calls_and_their_results():
    with OpenAIServer([ModelReply(tool_calls=[("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]), "7"]) as server:
        connection = connection_to(server)
        tools = [Tool.from_callable(add)]
        asked = ask(connection, tools=tools, sync=True)
        results = [
            ChatMessage(role=MessageRole.TOOL, content="3", extra_args={"external_id": call["original_id"]})
            for call in asked.tool_calls
        ]
        ask(connection, ChatMessage.user("hi"), asked, *results, tools=tools, sync=True)
    assert [call["function"] for call in asked.tool_calls] == [
        {"name": "add", "arguments": {"a": 1, "b": 2}},
        {"name": "add", "arguments": {"a": 3, "b": 4}},
    ]
    first, second = server.requests
    assert first.body["tools"][0]["function"]["parameters"]["required"] == ["a", "b"]
    said = second.messages[1]
    assert [json.loads(call["function"]["arguments"]) for call in said["tool_calls"]] == [
        {"a": 1, "b": 2},
        {"a": 3, "b": 4},
    ]
    assert [m["tool_call_id"] for m in second.messages[2:]] == [call["id"] for call in said["tool_calls"]]


def test_tools_can_be_held_to_their_schema():
    with OpenAIServer("hi") as server:
        ask(connection_to(server), tools=[Tool.from_callable(add)], strict=True)
    function = server.requests[0].body["tools"][0]["function"]
    assert function["strict"] is True
    assert function["parameters"]["additionalProperties"] is False
    assert "strict" not in server.requests[0].body


def test_a_schema_is_asked_for_strictly_where_it_can_be():
    schema = OutputSchema({"type": "object", "properties": {"a": {"type": "integer", "default": 1}}})
    with OpenAIServer("{}") as server:
        ask(connection_to(server), output_schema=schema)
    asked = server.requests[0].body["response_format"]["json_schema"]
    assert asked["strict"] is True
    assert asked["schema"]["required"] == ["a"]


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 0])
def test_errors_of_the_service_are_worth_another_attempt(status, sync):
    with OpenAIServer([ModelFault(status, retry_after_ms=1500 if status == 429 else None)]) as server:
        with pytest.raises(ModelUnavailableError) as caught:
            ask(connection_to(server), sync=sync)
        assert len(server.requests) == 1, "the SDK has tried again by itself"
    assert caught.value.status == (status or None)
    assert caught.value.retry_after == (1.5 if status == 429 else None)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_errors_of_the_request_are_not(status):
    with OpenAIServer([ModelFault(status)]) as server, pytest.raises(ModelRequestError) as caught:
        ask(connection_to(server))
    assert caught.value.status == status


def test_a_server_that_says_nothing_is_left_when_the_timeout_is_over():
    with OpenAIServer([ModelFault(hang=True)]) as server, pytest.raises(ModelUnavailableError):
        ask(connection_to(server, timeout=0.2))


def test_nobody_listens():
    with pytest.raises(ModelUnavailableError, match="cannot be reached"):
        ask(OpenAIChatModelConnection(base_url="http://127.0.0.1:9/v1"))


def test_the_key_of_the_environment_goes_to_no_foreign_server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    with OpenAIServer("hi") as server:
        ask(connection_to(server))
    assert "sk-of-openai" not in json.dumps(dict(server.requests[0].headers))


def test_azure_has_its_own_paths_and_header():
    with OpenAIServer("hi") as server:
        endpoint = server.url.removesuffix("/v1")
        connection = AzureOpenAIChatModelConnection(azure_endpoint=endpoint, api_version="2024-10-21", api_key="k123")
        assert ask(connection).text == "hi"
    assert dict(server.requests[0].headers)["api-key"] == "k123"


def test_the_setup_says_what_goes_with_each_chat():
    setup = OpenAIChatModelSetup(connection="c", model="m", temperature=0.2, additional_kwargs={"top_p": 0.5})
    assert setup.model_kwargs == {"model": "m", "temperature": 0.2, "top_p": 0.5}
