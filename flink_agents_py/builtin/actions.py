"""The built-in actions, and when a plan gets them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flink_agents_py.agent_events import AgentRequestEvent
from flink_agents_py.builtin.agent_calls import agent_call_action
from flink_agents_py.builtin.chat import chat_model_action
from flink_agents_py.builtin.retrieval import context_retrieval_action
from flink_agents_py.builtin.tool_calls import tool_call_action
from flink_agents_py.chat_events import (
    ChatRequestEvent,
    ContextRetrievalRequestEvent,
    ToolRequestEvent,
    ToolResponseEvent,
)
from flink_agents_py.resources.base import ResourceType


@dataclass(frozen=True)
class BuiltInAction:
    """An action that joins an agent declaring a resource of one of the types, unless it has one of that name."""

    name: str
    function: Callable[..., Any]
    triggers: tuple[str, ...]
    needs: frozenset[ResourceType]
    calls_agents: bool = False
    """Whether it joins an agent that other agents were added to, instead."""
    handles_errors: bool = False
    """Whether ``error-handling-strategy`` decides what becomes of its errors."""


BUILT_IN_ACTIONS = (
    BuiltInAction(
        "chat_model_action",
        chat_model_action,
        (ChatRequestEvent.EVENT_TYPE, ToolResponseEvent.EVENT_TYPE),
        frozenset({ResourceType.CHAT_MODEL}),
        handles_errors=True,
    ),
    BuiltInAction(
        "tool_call_action",
        tool_call_action,
        (ToolRequestEvent.EVENT_TYPE,),
        frozenset({ResourceType.CHAT_MODEL, ResourceType.TOOL}),
    ),
    BuiltInAction(
        "context_retrieval_action",
        context_retrieval_action,
        (ContextRetrievalRequestEvent.EVENT_TYPE,),
        frozenset({ResourceType.VECTOR_STORE}),
    ),
    BuiltInAction(
        "agent_call_action", agent_call_action, (AgentRequestEvent.EVENT_TYPE,), frozenset(), calls_agents=True
    ),
)
