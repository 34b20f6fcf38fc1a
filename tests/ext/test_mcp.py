"""MCP servers by the official SDK, the server a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from flink_agents_py import (
    Agent,
    AgentsExecutionEnvironment,
    ChatMessage,
    ChatRequestEvent,
    ChatResponseEvent,
    InputEvent,
    OutputEvent,
    ResourceDescriptor,
    ResourceName,
    ResourceType,
    action,
)
from flink_agents_py.errors import McpUnavailableError, ToolError
from flink_agents_py.ext.mcp import MCPServer
from flink_agents_py.testing import ModelReply, OpenAIServer
from tests.stores.servers import free_port
from tests.support import mcp_server

STDIO = {"command": sys.executable, "args": [mcp_server.__file__, "stdio"]}


def with_server(work, **arguments):
    """What ``work`` returns; the server is gone afterwards."""

    async def go():
        server = MCPServer(**(arguments or STDIO))
        try:
            return await work(server)
        finally:
            connection = server._connections.get()
            await connection.close()

    return asyncio.run(go())


def test_tools_prompts_and_their_errors():
    async def work(server):
        tools = {tool.name: tool for tool in await server.alist_tools()}
        assert tools["add"].description == "Add two numbers."
        assert tools["add"].parameters["required"] == ["a", "b"]
        assert await server.acall_tool("add", {"a": 1, "b": 2}) == 3
        with pytest.raises(ToolError, match="refuse"):
            await server.acall_tool("refuse", {"why": "no"})
        with pytest.raises(ToolError, match="valid integer"):
            await server.acall_tool("add", {"a": "x", "b": 2})
        assert await server.alist_prompts() == ["greet"]
        assert await server.aget_prompt("greet", {"name": "ann"}) == [ChatMessage.user("Say hello to ann.")]
        assert await server.aget_prompt("nobody", {}) is None

    with_server(work)


def test_a_server_killed_in_the_middle_of_a_call_is_started_again_by_the_next():
    async def work(server):
        first = await server.acall_tool("pid", {})
        waiting = asyncio.ensure_future(server.acall_tool("wait", {"seconds": 60}))
        while not waiting.done():
            await asyncio.sleep(0.3)  # the request is on its way
            os.kill(first, signal.SIGKILL)
            with pytest.raises(McpUnavailableError, match="lost"):
                await waiting
        assert await server.acall_tool("pid", {}) != first

    with_server(work)


def test_a_server_that_is_not_there_is_worth_another_attempt():
    async def work(server):
        with pytest.raises(ConnectionError, match="cannot be reached"):
            await server.alist_tools()
        with pytest.raises(McpUnavailableError, match="cannot be reached"):
            await server.acall_tool("add", {})

    with_server(work, url=f"http://127.0.0.1:{free_port()}/mcp")
    with_server(work, command="no-such-program")


def test_a_server_has_one_address_and_keeps_its_secrets():
    with pytest.raises(ValidationError, match="command"):
        MCPServer()
    with pytest.raises(ValidationError, match="command"):
        MCPServer(command="x", url="http://x")
    server = MCPServer(endpoint="http://x", headers={"Authorization": "Bearer abcdef"})
    assert server.url == "http://x"
    assert "abcdef" not in repr(server)


class Adder(Agent):
    @action(InputEvent)
    @staticmethod
    def ask(event, ctx):
        ctx.send_event(ChatRequestEvent("model", [ChatMessage.user(event.input)]))

    @action(ChatResponseEvent)
    @staticmethod
    def answered(event, ctx):
        ctx.send_event(OutputEvent(event.response.text))


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    def rule(request):
        if request.tool_results:
            return f"it is {request.tool_results[0]}"
        return ModelReply(tool_calls=[("add", {"a": 2, "b": 40})])

    with OpenAIServer(rule) as server:
        yield server


def test_a_model_uses_the_tools_of_a_server(model):
    agents = AgentsExecutionEnvironment.get_execution_environment()
    connection = ResourceDescriptor(ResourceName.ChatModel.OPENAI_COMPLETIONS_CONNECTION, base_url=model.url)
    setup = ResourceDescriptor(
        ResourceName.ChatModel.OPENAI_COMPLETIONS_SETUP, connection="service", model="m", mcp_servers=["calculator"]
    )
    agents.add_resource("service", ResourceType.CHAT_MODEL_CONNECTION, connection)
    agents.add_resource("model", ResourceType.CHAT_MODEL, setup)
    agents.add_resource("calculator", ResourceType.MCP_SERVER, ResourceDescriptor(ResourceName.MCP_SERVER, **STDIO))
    outputs = agents.from_list([{"key": "k", "value": "2 + 40?"}]).apply(Adder()).to_list()
    assert outputs == [{"k": "it is 42"}]
    assert "add" in model.requests[0].tools
