"""References between resources that can be seen before anything is built.

Which arguments name other resources is up to each class, but some names mean the same everywhere; those are checked
when the agent is compiled. The rest shows when the worker builds the resource.
"""

from __future__ import annotations

from collections.abc import Iterator

from flink_agents_py.plan.providers import DescribedResource
from flink_agents_py.plan.resources import Id, Providers, resource_cycle, unknown_resource
from flink_agents_py.resources.base import ResourceType
from flink_agents_py.serde import from_plain

_CONNECTION_OF = {
    ResourceType.CHAT_MODEL: ResourceType.CHAT_MODEL_CONNECTION,
    ResourceType.EMBEDDING_MODEL: ResourceType.EMBEDDING_MODEL_CONNECTION,
}
# Servers and skills bring prompts and tools that nobody knows before a worker has asked them.
_LATE_SOURCES = (ResourceType.MCP_SERVER, ResourceType.SKILLS)
_LATE_TYPES = (ResourceType.PROMPT, ResourceType.TOOL)


def check_references(providers: Providers, places: dict[Id, str]) -> None:
    """Check the conventional arguments of all descriptors.

    Args:
        places: where each resource was declared, for the messages.

    Raises:
        UnknownResourceError: one names a resource that is not declared.
        ResourceCycleError: they name each other in a circle.
    """
    edges: dict[Id, list[Id]] = {}
    late = any(providers.get(kind) for kind in _LATE_SOURCES)
    for kind, named in providers.items():
        for name, provider in named.items():
            if not isinstance(provider, DescribedResource):
                continue
            key = (kind, name)
            for argument, target in _named_by(provider):
                if target[1] in providers.get(target[0], {}):
                    edges.setdefault(key, []).append(target)
                elif not (late and target[0] in _LATE_TYPES):
                    raise unknown_resource(providers, target, f"argument {argument!r} of {places[key]}")
    _check_acyclic(edges, places)


def _named_by(provider: DescribedResource) -> Iterator[tuple[str, Id]]:
    arguments = provider.descriptor.arguments
    connection_type = _CONNECTION_OF.get(provider.type)
    single = {
        "prompt": ResourceType.PROMPT,
        "embedding_model": ResourceType.EMBEDDING_MODEL,
        "vector_store": ResourceType.VECTOR_STORE,
        **({"connection": connection_type} if connection_type is not None else {}),
    }
    for argument, kind in single.items():
        if isinstance(arguments.get(argument), str):
            yield argument, (kind, arguments[argument])
    tools = from_plain(arguments.get("tools"), allow_pickle=False)
    if isinstance(tools, (list, tuple)):
        for tool in tools:
            if isinstance(tool, str):
                yield "tools", (ResourceType.TOOL, tool)


def _check_acyclic(edges: dict[Id, list[Id]], places: dict[Id, str]) -> None:
    done: set[Id] = set()

    def visit(key: Id, path: list[Id]) -> None:
        if key in path:
            raise resource_cycle([*path[path.index(key) :], key], places[key])
        if key in done:
            return
        for target in edges.get(key, ()):
            visit(target, [*path, key])
        done.add(key)

    for key in edges:
        visit(key, [])
