"""AI agents that run inside an Apache Flink job, in pure Python on PyFlink."""

from flink_agents_py.agent import (
    Agent,
    action,
    chat_model_connection,
    chat_model_setup,
    embedding_model_connection,
    embedding_model_setup,
    mcp_server,
    prompt,
    skills,
    tool,
    vector_store,
)
from flink_agents_py.agent_events import AgentRequestEvent, AgentResponseEvent
from flink_agents_py.builtin.react_agent import ReActAgent
from flink_agents_py.chat_events import (
    ChatRequestEvent,
    ChatResponseEvent,
    ContextRetrievalRequestEvent,
    ContextRetrievalResponseEvent,
    ToolRequestEvent,
    ToolResponseEvent,
)
from flink_agents_py.config import (
    AgentConfiguration,
    AgentOptions,
    ConfigOption,
    LongTermMemoryOptions,
    ShortTermMemoryTtlUpdate,
    ShortTermMemoryTtlVisibility,
)
from flink_agents_py.context import RunnerContext
from flink_agents_py.environment import AgentBuilder, AgentsExecutionEnvironment
from flink_agents_py.errors import FlinkAgentsError
from flink_agents_py.events import Event, EventType, InputEvent, OutputEvent
from flink_agents_py.external import (
    ActionCall,
    ActionCode,
    ActionFailedEvent,
    ActionHandler,
    ActionRegistry,
    ActionResult,
    ActionSession,
    ActionSpec,
    BusinessRejected,
    BusinessRetryable,
    FailedAction,
)
from flink_agents_py.long_term import Compaction, LongTermMemory, MemorySet, MemorySetItem
from flink_agents_py.memory import MemoryObject, MemoryRef
from flink_agents_py.memory_events import (
    AgentRunBeginEvent,
    MemoryEvent,
    SensoryReadEvent,
    SensoryWriteEvent,
    ShortTermReadEvent,
    ShortTermWriteEvent,
)
from flink_agents_py.plan import AgentPlan, PlanFile, PythonFunction
from flink_agents_py.policies import RetryPolicy, Timeouts
from flink_agents_py.resources.base import Resource, ResourceDescriptor, ResourceType, SerializableResource
from flink_agents_py.resources.chat_models import (
    BaseChatModelConnection,
    BaseChatModelSetup,
    StructuredOutputStrategy,
)
from flink_agents_py.resources.embedding_models import BaseEmbeddingModelConnection, BaseEmbeddingModelSetup
from flink_agents_py.resources.injection import InjectedArg
from flink_agents_py.resources.mcp import BaseMCPServer
from flink_agents_py.resources.messages import ChatMessage, ImagePart, MessageRole, TextPart
from flink_agents_py.resources.names import ResourceName
from flink_agents_py.resources.output_schema import OutputSchema
from flink_agents_py.resources.prompts import Prompt
from flink_agents_py.resources.tools import Tool
from flink_agents_py.resources.vector_stores import (
    BaseVectorStore,
    ChangeableVectorStore,
    Document,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

__all__ = [
    "ActionCall",
    "ActionCode",
    "ActionFailedEvent",
    "ActionHandler",
    "ActionRegistry",
    "ActionResult",
    "ActionSession",
    "ActionSpec",
    "Agent",
    "AgentBuilder",
    "AgentConfiguration",
    "AgentOptions",
    "AgentPlan",
    "AgentRequestEvent",
    "AgentResponseEvent",
    "AgentRunBeginEvent",
    "AgentsExecutionEnvironment",
    "BaseChatModelConnection",
    "BaseChatModelSetup",
    "BaseEmbeddingModelConnection",
    "BaseEmbeddingModelSetup",
    "BaseMCPServer",
    "BaseVectorStore",
    "BusinessRejected",
    "BusinessRetryable",
    "ChangeableVectorStore",
    "ChatMessage",
    "ChatRequestEvent",
    "ChatResponseEvent",
    "Compaction",
    "ConfigOption",
    "ContextRetrievalRequestEvent",
    "ContextRetrievalResponseEvent",
    "Document",
    "Event",
    "EventType",
    "FailedAction",
    "FlinkAgentsError",
    "ImagePart",
    "InjectedArg",
    "InputEvent",
    "LongTermMemory",
    "LongTermMemoryOptions",
    "MemoryEvent",
    "MemoryObject",
    "MemoryRef",
    "MemorySet",
    "MemorySetItem",
    "MessageRole",
    "OutputEvent",
    "OutputSchema",
    "PlanFile",
    "Prompt",
    "PythonFunction",
    "ReActAgent",
    "Resource",
    "ResourceDescriptor",
    "ResourceName",
    "ResourceType",
    "RetryPolicy",
    "RunnerContext",
    "SensoryReadEvent",
    "SensoryWriteEvent",
    "SerializableResource",
    "ShortTermMemoryTtlUpdate",
    "ShortTermMemoryTtlVisibility",
    "ShortTermReadEvent",
    "ShortTermWriteEvent",
    "StructuredOutputStrategy",
    "TextPart",
    "Timeouts",
    "Tool",
    "ToolRequestEvent",
    "ToolResponseEvent",
    "VectorStoreQuery",
    "VectorStoreQueryMode",
    "VectorStoreQueryResult",
    "action",
    "chat_model_connection",
    "chat_model_setup",
    "embedding_model_connection",
    "embedding_model_setup",
    "mcp_server",
    "prompt",
    "skills",
    "tool",
    "vector_store",
]
