"""How a plan carries resources: a class with arguments, built on the worker, or plain data with its class.

The JSON shapes are those of flink-agents plans.
"""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticSerializationError

from flink_agents_py.errors import AgentDefinitionError, NotSerializableError
from flink_agents_py.plan.importing import found_elsewhere, resolve
from flink_agents_py.plan.values import from_document, to_document
from flink_agents_py.resources.base import GetResource, ResourceDescriptor, ResourceType, SerializableResource

TYPE_KEY = "__resource_provider_type__"  # repeated below: the type checker wants the alias as a literal

_SHAPE = ConfigDict(extra="forbid", validate_by_alias=True, validate_by_name=True, serialize_by_alias=True)


class DescriptorDocument(BaseModel):
    """A class and the arguments to call it with."""

    model_config = ConfigDict(extra="forbid")

    target_module: str = Field(min_length=1)
    target_clazz: str = Field(min_length=1, description="path of the class in the module")
    arguments: dict[str, Any] = Field(default={}, description="keyword arguments, encoded by serde")


class DescribedResource(BaseModel):
    """A resource that its class builds from arguments."""

    model_config = _SHAPE

    name: str = Field(min_length=1)
    type: ResourceType
    descriptor: DescriptorDocument
    provider_type: Literal["PythonResourceProvider"] = Field(
        default="PythonResourceProvider", alias="__resource_provider_type__"
    )

    @property
    def label(self) -> str:
        """How errors call it."""
        return f"{self.type.value} {self.name!r}"

    def provide(self, get_resource: GetResource) -> Any:
        """Build it.

        Raises:
            FunctionNotFoundError: its class is not here.
            Exception: whatever its constructor raises.
        """
        cls = resolve(self.descriptor.target_module, self.descriptor.target_clazz, what=self.label)
        arguments = from_document(self.descriptor.arguments, f"arguments of {self.label}")
        if "get_resource" in _parameters(cls):
            arguments["get_resource"] = get_resource
        return cls(**arguments)


class PlainResource(BaseModel):
    """A resource that is plain data."""

    model_config = _SHAPE

    name: str = Field(min_length=1)
    type: ResourceType
    module: str = Field(min_length=1)
    clazz: str = Field(min_length=1)
    serialized: dict[str, Any]
    provider_type: Literal["PythonSerializableResourceProvider"] = Field(
        default="PythonSerializableResourceProvider", alias="__resource_provider_type__"
    )

    @property
    def label(self) -> str:
        """How errors call it."""
        return f"{self.type.value} {self.name!r}"

    def provide(self, get_resource: GetResource) -> Any:  # noqa: ARG002 - same call for both kinds
        """Read it back.

        Raises:
            FunctionNotFoundError: its class is not here.
            ValidationError: its class reads other data now.
        """
        return resolve(self.module, self.clazz, what=self.label).model_validate(self.serialized)


ResourceProvider = Annotated[DescribedResource | PlainResource, Field(discriminator="provider_type")]


def provider_of(name: str, resource_type: ResourceType, resource: Any, where: str) -> DescribedResource | PlainResource:
    """The provider for what a user declared as a resource.

    Raises:
        AgentDefinitionError: it is no resource, or not of the declared type, or an argument does not exist.
        NotSerializableError: its class or its data cannot travel.
    """
    if isinstance(resource, ResourceDescriptor):
        return _described(name, resource_type, resource, where)
    if isinstance(resource, SerializableResource):
        return _plain(name, resource_type, resource, where)
    raise AgentDefinitionError(
        f"{resource_type.value} {name!r} is given as {type(resource).__name__}, which is no resource",
        where=where,
        fix="give a ResourceDescriptor(cls, **arguments), or a SerializableResource such as a Prompt",
    )


def _described(name: str, resource_type: ResourceType, descriptor: ResourceDescriptor, where: str) -> DescribedResource:
    if descriptor.type is not None:
        _check_class(descriptor.type, name, resource_type, where)
        _check_arguments(descriptor.type, descriptor.arguments, where)
    module, separator, qualname = descriptor.clazz.partition(":")
    if not separator:  # the peer's spelling, module.Class
        module, _, qualname = descriptor.clazz.rpartition(".")
    if not module or not qualname:
        raise AgentDefinitionError(
            f"{descriptor.clazz!r} names no class", where=where, fix="write 'module:Class' or 'module.Class'"
        )
    arguments = to_document(descriptor.arguments, where)
    document = DescriptorDocument(target_module=module, target_clazz=qualname, arguments=arguments)
    return DescribedResource(name=name, type=resource_type, descriptor=document)


def _plain(name: str, resource_type: ResourceType, resource: SerializableResource, where: str) -> PlainResource:
    cls = type(resource)
    own_type = getattr(cls, "resource_type", resource_type)
    if own_type is not resource_type:
        raise AgentDefinitionError(
            f"{resource_type.value} {name!r} is a {cls.__qualname__}, which is a {own_type.value}",
            where=where,
            fix=f"declare it as {own_type.value}",
        )
    _check_class(cls, name, resource_type, where)
    try:
        serialized = resource.model_dump(mode="json")
    except PydanticSerializationError as error:
        raise NotSerializableError(
            f"{resource_type.value} {name!r} has no JSON form: {error}",
            where=where,
            fix="give it plain fields, or use a ResourceDescriptor, which builds it on the worker",
        ) from error
    return PlainResource(
        name=name, type=resource_type, module=cls.__module__, clazz=cls.__qualname__, serialized=serialized
    )


def _check_class(cls: type, name: str, resource_type: ResourceType, where: str) -> None:
    if not found_elsewhere(cls.__module__, cls.__qualname__, cls):
        raise NotSerializableError(
            f"{resource_type.value} {name!r} is of class {cls.__module__}:{cls.__qualname__}, "
            "which no worker can import",
            where=where,
            fix="define the class at module level of an importable module",
        )


def _check_arguments(cls: type, arguments: dict[str, Any], where: str) -> None:
    # Only names that do not exist: arguments may still be missing here and come from the configuration.
    parameters = _parameters(cls)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = [name for name in arguments if name not in parameters]
    if unknown and parameters:
        raise AgentDefinitionError(
            f"{cls.__qualname__} takes no argument {', '.join(map(repr, unknown))}",
            where=where,
            fix=f"it takes: {', '.join(name for name in parameters if name != 'get_resource')}",
        )


def _parameters(cls: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(cls).parameters)
    except (ValueError, TypeError):  # a class written in C
        return {}
