"""How a plan carries resources: a class with arguments, built on the worker, or plain data with its class.

The JSON shapes are those of flink-agents plans.
"""

from __future__ import annotations

import inspect
import sys
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticSerializationError

from flink_agents_py.errors import AgentDefinitionError, FunctionNotFoundError, NotSerializableError
from flink_agents_py.plan.functions import PythonFunction
from flink_agents_py.plan.importing import found_elsewhere, resolve
from flink_agents_py.plan.values import from_document, to_document
from flink_agents_py.resources import secrets
from flink_agents_py.resources.base import (
    Resource,
    ResourceContext,
    ResourceDescriptor,
    ResourceType,
    SerializableResource,
)
from flink_agents_py.resources.tools import Tool

_SECRETS = frozenset({"api_key", "password", "secret"})
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

    def provide(self, context: ResourceContext) -> Any:
        """Build it, from its arguments and those that the configuration has for its class.

        Raises:
            FunctionNotFoundError: its class is not here.
            SecretError: a secret it refers to is not here.
            Exception: whatever its constructor raises.
        """
        cls = resolve(self.descriptor.target_module, self.descriptor.target_clazz, what=self.label)
        arguments = from_document(self.descriptor.arguments, f"arguments of {self.label}")
        arguments.update(overrides(cls.__name__, context.config.conf_data))
        for name in secret_arguments(cls).intersection(arguments):
            arguments[name] = secrets.resolve(arguments[name], f"argument {name!r} of {self.label}")
        if "get_resource" in _parameters(cls):
            arguments["get_resource"] = context.get_resource
        try:
            resource = cls(**arguments)
        except ValidationError as error:  # its text repeats the arguments, secrets among them
            problems = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()]
            raise AgentDefinitionError(
                f"{self.label} cannot be built: {secrets.redact('; '.join(problems))}",
                where=f"{cls.__module__}:{cls.__qualname__}",
                fix="correct the arguments of its descriptor, or what the configuration has for the class",
            ) from None
        if isinstance(resource, Resource):
            resource.bind(context)
        return resource


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

    def provide(self, context: ResourceContext) -> Any:  # noqa: ARG002 - same call for both kinds
        """Read it back.

        Raises:
            FunctionNotFoundError: its class is not here.
            ValidationError: its class reads other data now.
        """
        cls = resolve(self.module, self.clazz, what=self.label)
        fields = dict(self.serialized)
        for name in cls.function_fields:
            # Whoever read the plan from a file has said that its pickled code is trusted.
            fields[name] = PythonFunction.model_validate(fields[name]).as_callable(allow_pickled=True)
        return cls.model_validate(fields)

    @property
    def has_pickled_code(self) -> bool:
        """Whether a function of it travels by value."""
        return any(isinstance(value, dict) and "pickled" in value for value in self.serialized.values())


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
    if resource_type is ResourceType.TOOL and callable(resource):
        return _plain(name, resource_type, Tool.from_callable(resource), where)
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
    known = descriptor.type or _own_class(module, qualname)
    for argument in secret_arguments(known).intersection(descriptor.arguments):
        secrets.refuse_literal(descriptor.arguments[argument], f"argument {argument!r}", where)
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
        serialized = resource.model_dump(mode="json", exclude=set(cls.function_fields))
    except PydanticSerializationError as error:
        raise NotSerializableError(
            f"{resource_type.value} {name!r} has no JSON form: {error}",
            where=where,
            fix="give it plain fields, or use a ResourceDescriptor, which builds it on the worker",
        ) from error
    for field in cls.function_fields:
        serialized[field] = PythonFunction.from_callable(getattr(resource, field)).model_dump(mode="json")
    return PlainResource(
        name=name, type=resource_type, module=cls.__module__, clazz=cls.__qualname__, serialized=serialized
    )


def secret_arguments(cls: type | None) -> frozenset[str]:
    """Arguments of a class that may only be given by reference: those it names, and what everybody calls a secret."""
    named: frozenset[str] = getattr(cls, "secret_arguments", frozenset())
    return named | _SECRETS


def overrides(class_name: str, conf_data: dict[str, Any]) -> dict[str, Any]:
    """Arguments that the configuration has for a class: its keys are ``ClassName.argument``."""
    prefix = class_name + "."
    return {key[len(prefix) :]: value for key, value in conf_data.items() if key.startswith(prefix)}


def refuse_literal_secrets(provider: DescribedResource, conf_data: dict[str, Any]) -> None:
    """Check that the configuration holds no secret of the resource in the open.

    Raises:
        AgentDefinitionError: it does.
    """
    cls = _own_class(provider.descriptor.target_module, provider.descriptor.target_clazz)
    class_name = provider.descriptor.target_clazz.rpartition(".")[2]
    for argument, value in overrides(class_name, conf_data).items():
        if argument in secret_arguments(cls):
            secrets.refuse_literal(value, f"the option '{class_name}.{argument}'", "configuration")


def _own_class(module: str, qualname: str) -> type | None:
    """A class that comes with the package, or was imported already; others are not imported where one compiles."""
    if not module.startswith("flink_agents_py.") and module not in sys.modules:
        return None
    try:
        found = resolve(module, qualname, what=qualname)
    except FunctionNotFoundError:
        return None
    return found if isinstance(found, type) else None


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
