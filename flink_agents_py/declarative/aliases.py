"""Short names in YAML files: of event types and of the classes that come with the package."""

from __future__ import annotations

from flink_agents_py.agent_events import AgentRequestEvent, AgentResponseEvent
from flink_agents_py.events import EventType
from flink_agents_py.external.events import ActionFailedEvent
from flink_agents_py.resources.base import ResourceType
from flink_agents_py.resources.names import ResourceName

EVENT_ALIASES = {
    "input": EventType.InputEvent,
    "output": EventType.OutputEvent,
    "chat_request": EventType.ChatRequestEvent,
    "chat_response": EventType.ChatResponseEvent,
    "tool_request": EventType.ToolRequestEvent,
    "tool_response": EventType.ToolResponseEvent,
    "context_retrieval_request": EventType.ContextRetrievalRequestEvent,
    "context_retrieval_response": EventType.ContextRetrievalResponseEvent,
    "action_failed": ActionFailedEvent.EVENT_TYPE,
    "agent_request": AgentRequestEvent.EVENT_TYPE,
    "agent_response": AgentResponseEvent.EVENT_TYPE,
}
"""They stand for a whole trigger; in expressions there is EventType."""

_CHAT, _EMBEDDING, _STORE = ResourceName.ChatModel, ResourceName.EmbeddingModel, ResourceName.VectorStore

CLASS_ALIASES: dict[ResourceType, dict[str, str]] = {
    ResourceType.CHAT_MODEL_CONNECTION: {
        "openai": _CHAT.OPENAI_COMPLETIONS_CONNECTION,
        "azure_openai": _CHAT.AZURE_OPENAI_CONNECTION,
        "vllm": _CHAT.VLLM_CONNECTION,
        "anthropic": _CHAT.ANTHROPIC_CONNECTION,
        "ollama": _CHAT.OLLAMA_CONNECTION,
        "local": _CHAT.LOCAL_CONNECTION,
    },
    ResourceType.CHAT_MODEL: {
        "openai": _CHAT.OPENAI_COMPLETIONS_SETUP,
        "azure_openai": _CHAT.AZURE_OPENAI_SETUP,
        "vllm": _CHAT.VLLM_SETUP,
        "anthropic": _CHAT.ANTHROPIC_SETUP,
        "ollama": _CHAT.OLLAMA_SETUP,
        "local": _CHAT.LOCAL_SETUP,
    },
    ResourceType.EMBEDDING_MODEL_CONNECTION: {
        "openai": _EMBEDDING.OPENAI_CONNECTION,
        "local": _EMBEDDING.LOCAL_CONNECTION,
    },
    ResourceType.EMBEDDING_MODEL: {"openai": _EMBEDDING.OPENAI_SETUP, "local": _EMBEDDING.LOCAL_SETUP},
    ResourceType.VECTOR_STORE: {"sqlite_vec": _STORE.SQLITE_VEC, "pgvector": _STORE.PGVECTOR},
    ResourceType.MCP_SERVER: {"mcp": ResourceName.MCP_SERVER},
}
