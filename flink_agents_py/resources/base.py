"""Resources: what an agent needs beside its actions (models, prompts, stores, servers).

A resource travels in the plan either as a :class:`ResourceDescriptor` (class + arguments, built on the worker when
first used) or, if it is plain data, as a :class:`SerializableResource`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


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


class Resource:
    """Base of resources that are built on the worker.

    The constructor gets the descriptor's arguments as keywords, plus ``get_resource(name, type)`` if it declares a
    parameter of that name: the way to reach the resources it depends on.
    """

    def open(self) -> None:
        """Called once, after construction, before the first use; the place for connections and warm-up."""

    def close(self) -> None:
        """Called once, in reverse order of construction, when the worker stops."""


class ResourceDescriptor:
    """How to build a resource: a class (or its ``module:QualName``) and keyword arguments that JSON can carry.

    An argument value that is the name of another resource stays a string; the resource asks for it itself.
    """

    def __init__(self, clazz: type | str, **arguments: Any) -> None:
        self.clazz = clazz if isinstance(clazz, str) else f"{clazz.__module__}:{clazz.__qualname__}"
        self.arguments = arguments
        # Kept so that the compiler can refuse classes nobody can import elsewhere (local classes, __main__).
        self.type: type | None = None if isinstance(clazz, str) else clazz

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
