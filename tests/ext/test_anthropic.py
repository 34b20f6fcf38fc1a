"""Anthropic's protocol: what goes over the wire, what comes back, and which errors are worth another attempt."""

from __future__ import annotations

import asyncio

import pytest

from flink_agents_py import ChatMessage, ImagePart, MessageRole, OutputSchema, Tool
from flink_agents_py.errors import ModelRequestError, ModelUnavailableError
from flink_agents_py.ext.anthropic import AnthropicChatModelConnection, AnthropicChatModelSetup
from tests.support.json_server import JsonServer


def answer(*content, stop="end_turn"):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 3},
    }


HELLO = answer({"type": "text", "text": "hello"})
FAULT = {"type": "error", "error": {"type": "api_error", "message": "no"}}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def ask(server, *messages, sync=False, **options):
    connection = AnthropicChatModelConnection(base_url=server.url)
    messages = messages or (ChatMessage.user("hi"),)
    options = {"model": "claude-x", "max_tokens": 10, **options}
    if sync:
        return connection.chat(messages, **options)

    async def go():
        try:
            return await connection.achat(messages, **options)
        finally:
            connection.close()
            await asyncio.sleep(0)

    return asyncio.run(go())


@pytest.mark.parametrize("sync", [True, False])
def test_a_chat_there_and_back(sync):
    with JsonServer(HELLO) as server:
        said = ask(server, ChatMessage.system("be kind"), ChatMessage.user("hi"), ChatMessage.user("there"), sync=sync)
    assert said.text == "hello"
    assert (said.extra_args["promptTokens"], said.extra_args["completionTokens"]) == (5, 3)
    ((path, _, body),) = server.requests
    assert path == "/v1/messages"
    assert body["system"] == "be kind"
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": t} for t in ("hi", "there")]}]


def test_results_of_tools_come_in_one_turn_of_the_user():
    uses = [{"type": "tool_use", "id": f"t{n}", "name": "add", "input": {"a": n, "b": 1}} for n in range(2)]
    with JsonServer(answer(*uses, stop="tool_use"), HELLO) as server:
        asked = ask(server, tools=[Tool.from_callable(add)])
        results = [
            ChatMessage(role=MessageRole.TOOL, content=str(n), extra_args={"external_id": f"t{n}", "is_error": n == 1})
            for n in range(2)
        ]
        ask(server, ChatMessage.user("hi"), asked, *results)
    assert [call["function"]["arguments"] for call in asked.tool_calls] == [{"a": 0, "b": 1}, {"a": 1, "b": 1}]
    assert server.requests[0][2]["tools"][0]["input_schema"]["required"] == ["a", "b"]
    _, said, told = server.requests[1][2]["messages"]
    assert said == {"role": "assistant", "content": uses}
    assert [block["tool_use_id"] for block in told["content"]] == ["t0", "t1"]
    assert [block.get("is_error", False) for block in told["content"]] == [False, True]


def test_images_are_blocks():
    with JsonServer(HELLO) as server:
        ask(server, ChatMessage.user("see", ImagePart.from_bytes(b"x"), ImagePart(url="http://x/y.png")))
    sources = [block["source"] for block in server.requests[0][2]["messages"][0]["content"][1:]]
    assert [source["type"] for source in sources] == ["base64", "url"]


def test_a_schema_goes_with_models_that_are_known_to_follow_one():
    knows = AnthropicChatModelConnection(base_url="http://x").supports_native_structured_output
    assert [knows(f"claude-{name}") for name in ("sonnet-4-5", "opus-4-10", "haiku-5", "sonnet-4-20250514", "2")] == [
        *(True, True, True),
        *(False, False),
    ]
    with JsonServer(HELLO) as server:
        ask(server, output_schema=OutputSchema({"type": "object", "properties": {}}))
    assert server.requests[0][2]["output_config"]["format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("status", "error"), [(429, ModelUnavailableError), (529, ModelUnavailableError), (400, ModelRequestError)]
)
def test_errors(status, error):
    with JsonServer((status, {"retry-after": "7"}, FAULT)) as server, pytest.raises(error) as caught:
        ask(server)
    assert (caught.value.status, caught.value.retry_after) == (status, 7.0)
    assert len(server.requests) == 1


def test_the_setup_says_what_goes_with_each_chat():
    assert AnthropicChatModelSetup(connection="c", model="m").model_kwargs == {"model": "m", "max_tokens": 1024}
