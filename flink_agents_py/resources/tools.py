"""Tools: what a model may ask the agent to do."""

from __future__ import annotations

import functools
import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flink_agents_py.errors import ToolError
from flink_agents_py.policies import RetryPolicy, Timeouts
from flink_agents_py.resources.base import ResourceType, SerializableResource
from flink_agents_py.resources.injection import InjectedArg, injected_args_of
from flink_agents_py.resources.tool_schema import arguments_model, described, json_schema_of

if TYPE_CHECKING:
    from flink_agents_py.external import ActionSpec
    from flink_agents_py.resources.agent_tool import AgentTool
    from flink_agents_py.resources.external_tool import ExternalActionTool


class ToolType(Enum):
    """Where a tool runs."""

    FUNCTION = "function"
    MCP = "mcp"
    EXTERNAL_ACTION = "external_action"
    AGENT = "agent"


class ToolMetadata(BaseModel):
    """What a model is told of a tool: its name, what it is for, and a JSON Schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})

    def get_parameters_dict(self) -> dict[str, Any]:
        """The schema of the arguments."""
        return self.parameters


class Tool(SerializableResource):
    """Base of tools. Implement :meth:`call`, or :meth:`acall` and say so by :attr:`is_async`."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    resource_type: ClassVar[ResourceType] = ResourceType.TOOL

    metadata: ToolMetadata | None = None
    retry: RetryPolicy | None = Field(default=None, description="for each call; the action's policy if not given")
    timeouts: Timeouts | None = Field(default=None, description="for each call; the action's if not given")

    @staticmethod
    def from_callable(
        func: Callable[..., Any],
        *,
        name: str | None = None,
        injected_args: Mapping[str, InjectedArg | dict[str, Any]] | None = None,
        retry: RetryPolicy | None = None,
        timeouts: Timeouts | float | None = None,
    ) -> FunctionTool:
        """A function as a tool: schema and descriptions come from its signature, annotations and docstring.

        Args:
            func: sync (runs on a thread) or ``async def``; a parameter ``idempotency_key`` receives the call's key.
            name: what the model calls it; the function's name if not given.
            injected_args: parameters the model does not see, and where their values come from.

        Raises:
            SignatureError: the function takes ``*args``, its annotations cannot be evaluated, or an injected argument
                is none of its parameters.
        """
        injected = injected_args_of(func, injected_args)
        description, _ = described(func)
        metadata = ToolMetadata(
            name=name or str(getattr(func, "__name__", type(func).__name__)),
            description=description,
            parameters=json_schema_of(arguments_model(func, injected)),
        )
        return FunctionTool(
            func=func,
            metadata=metadata,
            injected_args=injected,
            retry=retry,
            timeouts=None if timeouts is None else Timeouts.model_validate(timeouts),
        )

    @staticmethod
    def from_action_spec(spec: ActionSpec) -> ExternalActionTool:
        """An external action as a tool; the agent needs its registry too (``agent.add_action_registry``)."""
        from flink_agents_py.resources.external_tool import ExternalActionTool

        return ExternalActionTool.of(spec)

    @staticmethod
    def from_agent(
        agent: str, description: str, *, parameters: dict[str, Any] | None = None, name: str | None = None
    ) -> AgentTool:
        """An agent as a tool; the agent whose model uses it needs that agent (``agent.add_agent``).

        Args:
            agent: name under which it was added.
            description: what the model is told of it.
            parameters: JSON Schema of the arguments, which become its input as a dict; without it there is one, a text.
            name: what the model calls it; the name of the agent if not given.
        """
        from flink_agents_py.resources.agent_tool import AgentTool

        return AgentTool.of(agent, description, parameters, name)

    @property
    def name(self) -> str:
        """What the model calls it."""
        return "" if self.metadata is None else self.metadata.name

    @classmethod
    def tool_type(cls) -> ToolType:
        """Where it runs."""
        return ToolType.FUNCTION

    @property
    def is_async(self) -> bool:
        """Whether :meth:`acall` is the way to call it."""
        return False

    @abstractmethod
    def call(self, **arguments: Any) -> Any:
        """Call it. What it returns, and what it raises, goes to the model."""

    async def acall(self, **arguments: Any) -> Any:  # noqa: ARG002 - the signature of tools
        """Call it from a coroutine.

        Raises:
            ToolError: the tool is a synchronous one (:attr:`is_async`).
        """
        raise ToolError(
            f"the tool {self.name!r} is synchronous",
            where=f"tool {self.name}",
            fix="call it with tool.call(...), or define acall and is_async",
        )


class FunctionTool(Tool):
    """A Python function as a tool; :meth:`Tool.from_callable` makes one."""

    function_fields: ClassVar[tuple[str, ...]] = ("func",)

    func: Callable[..., Any]
    injected_args: dict[str, InjectedArg] = Field(default_factory=dict)

    @property
    def is_async(self) -> bool:
        """Whether the function is ``async def``."""
        inner: Any = self.func
        while isinstance(inner, functools.partial):
            inner = inner.func
        return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004

    @property
    def takes_idempotency_key(self) -> bool:
        """Whether the function wants to know the key of the call."""
        return "idempotency_key" in inspect.signature(self.func).parameters

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the model gave, as the types the function declares.

        Raises:
            ToolError: it does not fit; the message is for the model.
        """
        model = _arguments_model(self.func, frozenset(self.injected_args))
        try:
            checked = model.model_validate(dict(given))
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors())
            raise ToolError(
                f"the arguments of {self.name} do not fit: {problems}",
                where=f"tool {self.name}",
                fix="call it again with arguments that fit its schema",
            ) from None
        names = [*checked.model_fields_set.intersection(type(checked).model_fields), *(checked.model_extra or {})]
        # In the order of the schema: a replay must make the same call.
        order = [*type(checked).model_fields, *(checked.model_extra or {})]
        return {name: getattr(checked, name) for name in order if name in names}

    def call(self, **arguments: Any) -> Any:
        """Call the function."""
        return self.func(**arguments)

    async def acall(self, **arguments: Any) -> Any:
        """Call the ``async def`` function."""
        return await self.func(**arguments)


@functools.lru_cache(maxsize=1024)
def _arguments_model(func: Callable[..., Any], hidden: frozenset[str]) -> type[BaseModel]:
    return arguments_model(func, hidden)
