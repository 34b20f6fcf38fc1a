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
    vector_store,
)
from flink_agents_py.config import (
    AgentConfiguration,
    AgentOptions,
    ConfigOption,
    ShortTermMemoryTtlUpdate,
    ShortTermMemoryTtlVisibility,
)
from flink_agents_py.context import RunnerContext
from flink_agents_py.environment import AgentBuilder, AgentsExecutionEnvironment
from flink_agents_py.errors import FlinkAgentsError
from flink_agents_py.events import Event, EventType, InputEvent, OutputEvent
from flink_agents_py.memory import MemoryObject, MemoryRef
from flink_agents_py.memory_events import (
    AgentRunBeginEvent,
    MemoryEvent,
    SensoryReadEvent,
    SensoryWriteEvent,
    ShortTermReadEvent,
    ShortTermWriteEvent,
)
from flink_agents_py.plan import AgentPlan, PythonFunction
from flink_agents_py.policies import RetryPolicy, Timeouts
from flink_agents_py.resources.base import Resource, ResourceDescriptor, ResourceType, SerializableResource

__all__ = [
    "Agent",
    "AgentBuilder",
    "AgentConfiguration",
    "AgentOptions",
    "AgentPlan",
    "AgentRunBeginEvent",
    "AgentsExecutionEnvironment",
    "ConfigOption",
    "Event",
    "EventType",
    "FlinkAgentsError",
    "InputEvent",
    "MemoryEvent",
    "MemoryObject",
    "MemoryRef",
    "OutputEvent",
    "PythonFunction",
    "Resource",
    "ResourceDescriptor",
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
    "Timeouts",
    "action",
    "chat_model_connection",
    "chat_model_setup",
    "embedding_model_connection",
    "embedding_model_setup",
    "mcp_server",
    "prompt",
    "skills",
    "vector_store",
]
