"""Resources: what an agent needs beside its actions (models, prompts, stores, servers).

A resource travels in the plan either as a :class:`ResourceDescriptor` (class + arguments, built on the worker when
first used) or, if it is plain data, as a :class:`SerializableResource`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from flink_agents_py.config import AgentConfiguration


class ResourceType(Enum):
    """Kinds of resources; names are unique within a kind."""

    CHAT_MODEL = "chat_model"
    CHAT_MODEL_CONNECTION = "chat_model_connection"
    EMBEDDING_MODEL = "embedding_model"
    EMBEDDING_MODEL_CONNECTION = "embedding_model_connection"
    VECTOR_STORE = "vector_store"
    PROMPT = "prompt"
    TOOL = "tool"
    MCP_SERVER = "mcp_server"
    SKILLS = "skills"


GetResource = Callable[[str, ResourceType], Any]


class ResourceContext(Protocol):
    """What a resource sees of the agent it belongs to."""

    @property
    def config(self) -> AgentConfiguration:
        """The agent's configuration."""

    def get_resource(self, name: str, type: ResourceType) -> Any:
        """Another resource of the agent, built on first use.

        Raises:
            UnknownResourceError: nobody declared it.
        """

    def names(self, type: ResourceType) -> list[str]:
        """Names of the declared resources of a type."""


class Resource:
    """Base of resources that are built on the worker.

    The constructor gets the descriptor's arguments as keywords, plus ``get_resource(name, type)`` if it declares a
    parameter of that name: the way to reach the resources it depends on. An argument may also come from the agent's
    configuration, under the key ``ClassName.argument``, which wins over the descriptor. After construction
    :attr:`resource_context` is there, then :meth:`open` is called.
    """

    secret_arguments: ClassVar[frozenset[str]] = frozenset()
    """Arguments that hold secrets: given by reference (:mod:`flink_agents_py.resources.secrets`), never in the open."""

    # In the instance's dictionary, past pydantic: subclasses may be models, or may never call super().__init__().

    @property
    def resource_context(self) -> ResourceContext | None:
        """What the resource sees of its agent; ``None`` for one built outside of a plan."""
        context: ResourceContext | None = vars(self).get("_resource_context")
        return context

    @property
    def metric_group(self) -> Any:
        """Where the resource counts what it does; ``None`` where nobody collects metrics."""
        return vars(self).get("_metric_group")

    def bind(self, context: ResourceContext) -> None:
        """Called by the framework between construction and :meth:`open`."""
        vars(self)["_resource_context"] = context

    def set_metric_group(self, metric_group: Any) -> None:
        """Called by the framework where metrics are collected."""
        vars(self)["_metric_group"] = metric_group

    def open(self) -> None:
        """Called once, after construction, before the first use; the place for connections and warm-up."""

    def close(self) -> None:
        """Called once, in reverse order of construction, when the worker stops."""


class ModelResource(Resource, BaseModel):
    """Base of resources that declare their arguments as pydantic fields."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", protected_namespaces=())


class ResourceDescriptor:
    """How to build a resource: a class (or its ``module:QualName``) and keyword arguments that JSON can carry.

    An argument value that is the name of another resource stays a string; the resource asks for it itself.
    """

    def __init__(self, clazz: type | str, **arguments: Any) -> None:
        self.clazz = clazz if isinstance(clazz, str) else f"{clazz.__module__}:{clazz.__qualname__}"
        self.arguments = arguments
        # Kept so that the compiler can refuse classes nobody can import elsewhere (local classes, __main__).
        self.type: type | None = None if isinstance(clazz, str) else clazz
        self.place: str | None = None
        """Where it is declared, if that is a file: ``agents.yaml:12:9 (...)``."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResourceDescriptor) and self.clazz == other.clazz and self.arguments == other.arguments

    def __hash__(self) -> int:
        return hash(self.clazz)

    def __repr__(self) -> str:
        # Arguments may hold secrets; their names are enough to recognise the descriptor.
        return f"ResourceDescriptor({self.clazz}, {', '.join(sorted(self.arguments))})"


class SerializableResource(BaseModel):
    """Base of resources that are plain data (prompts, schemas): the plan carries them as JSON."""

    model_config = ConfigDict(extra="forbid")

    resource_type: ClassVar[ResourceType]
    function_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that hold a function: the plan carries a reference to it, or the function itself by value."""
