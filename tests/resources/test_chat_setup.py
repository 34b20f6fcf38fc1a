"""A chat model's setup: prompt, tools and those of MCP servers, found when they are first used."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import Field

from flink_agents_py import (
    Agent,
    AgentPlan,
    BaseChatModelConnection,
    BaseChatModelSetup,
    ChatMessage,
    Prompt,
    ResourceDescriptor,
    ResourceType,
    Tool,
)
from flink_agents_py.errors import ToolError, UnknownResourceError
from flink_agents_py.resources.mcp import BaseMCPServer
from flink_agents_py.resources.tools import ToolMetadata

contacted: list[str] = []


class Echo(BaseChatModelConnection):
    """Says what it was given."""

    def chat(self, messages, tools=None, output_schema=None, **kwargs):
        said = [f"{message.role.value}: {message.text}" for message in messages]
        return ChatMessage.assistant(f"{said} {[tool.name for tool in tools]} {kwargs}")


class Server(BaseMCPServer):
    label: str
    offers: list[str] = Field(default_factory=list)

    async def alist_tools(self):
        contacted.append(self.label)
        return [ToolMetadata(name=name) for name in self.offers]

    async def acall_tool(self, name, arguments):
        return f"{self.label}.{name}{arguments}"

    async def alist_prompts(self):
        return ["remote"]

    async def aget_prompt(self, name, arguments):
        return [ChatMessage.system(f"{self.label}'s {name} {arguments}")] if name == "remote" else None


def here(text: str) -> str:
    return text


def setup_of(servers: dict[str, list[str]] | None = None, **arguments: Any) -> BaseChatModelSetup:
    contacted.clear()
    agent = Agent()
    agent.add_resource("echo", ResourceType.CHAT_MODEL_CONNECTION, ResourceDescriptor(Echo))
    setup = ResourceDescriptor(BaseChatModelSetup, connection="echo", model="m", **arguments)
    agent.add_resource("chat", ResourceType.CHAT_MODEL, setup)
    agent.add_resource("here", ResourceType.TOOL, Tool.from_callable(here))
    agent.add_resource("local", ResourceType.PROMPT, Prompt.from_text("be {mood}"))
    for label, offers in (servers or {}).items():
        agent.add_resource(label, ResourceType.MCP_SERVER, ResourceDescriptor(Server, label=label, offers=offers))
    plan = AgentPlan.from_json(AgentPlan.from_agent(agent).to_json())
    setup = plan.get_resource("chat", ResourceType.CHAT_MODEL)
    assert contacted == [], "a server was contacted before it was needed"
    return setup


def said_by(setup: BaseChatModelSetup, **arguments: Any) -> str:
    return asyncio.run(setup.achat([ChatMessage.user("hi")], **arguments)).text


def test_the_prompt_comes_first_with_its_arguments_filled_in():
    setup = setup_of(prompt="local")
    assert said_by(setup, prompt_args={"mood": "kind"}) == "['system: be kind', 'user: hi'] [] {'model': 'm'}"
    assert setup.chat([ChatMessage.user("hi")], {"mood": 1}).text.startswith("['system: be 1'")


def test_options_of_a_chat_win_over_those_of_the_setup():
    setup = setup_of(additional_kwargs={"top_p": 0.5, "seed": 1})
    assert said_by(setup, seed=2) == "['user: hi'] [] {'model': 'm', 'top_p': 0.5, 'seed': 2}"


def test_a_connection_without_coroutine_is_asked_on_a_thread():
    assert not setup_of().is_async


@pytest.mark.parametrize(
    ("arguments", "offered", "asked"),
    [
        ({"tools": ["here", "far"]}, ["here", "far"], ["a", "b"]),
        ({"tools": ["here"], "mcp_servers": ["b"]}, ["here", "far", "wide"], ["b"]),
        ({"tools": ["mcp:b"]}, ["far", "wide"], ["b"]),
        ({"tools": ["mcp:b/wide"]}, ["wide"], ["b"]),
        ({"tools": ["here"]}, ["here"], []),
    ],
)
def test_tools_nobody_declared_are_those_of_mcp_servers(arguments, offered, asked):
    setup = setup_of({"a": [], "b": ["far", "wide"]}, **arguments)
    assert f" {offered} " in said_by(setup)
    assert contacted == asked


def test_a_tool_of_a_server_is_called_where_it_is():
    setup = setup_of({"a": ["x"], "b": ["far"]}, tools=["far"])
    tool = setup.find_tool("far")
    assert asyncio.run(tool.acall(n=1)) == "b.far{'n': 1}"
    assert setup.find_tool("x") is None, "it was not offered"


def test_a_tool_that_no_server_has_is_the_tools_error():
    tool = setup_of({"a": []}, tools=["gone"]).find_tool("gone")
    with pytest.raises(ToolError, match="no MCP server has a tool 'gone'"):
        asyncio.run(tool.acall())


def test_a_prompt_of_a_server():
    setup = setup_of({"a": []}, prompt="remote")
    assert "\"system: a's remote {'x': '1'}\"" in said_by(setup, prompt_args={"x": 1})


def test_a_prompt_that_nobody_has():
    with pytest.raises(UnknownResourceError, match="'nowhere'"):
        said_by(setup_of({"a": []}, prompt="nowhere"))
