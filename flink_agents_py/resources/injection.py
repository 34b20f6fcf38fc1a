"""Arguments of tools that the framework fills in and the model never sees: a tenant, a user's name, an endpoint."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from flink_agents_py.errors import SignatureError, ToolError
from flink_agents_py.memory import MemoryObject

if TYPE_CHECKING:
    from flink_agents_py.context import RunnerContext

INJECTED_ATTRIBUTE = "__flink_agents_injected__"


class ToolParameterSource(str, Enum):
    """Where an injected argument comes from."""

    CONFIG = "config"
    SENSORY_MEMORY = "sensory_memory"
    SHORT_TERM_MEMORY = "short_term_memory"


class InjectedArg(BaseModel):
    """Where an injected argument comes from, and under which key or path there; its own name if not given."""

    source: ToolParameterSource = ToolParameterSource.SENSORY_MEMORY
    key: str | None = None

    @staticmethod
    def from_config(key: str) -> InjectedArg:
        """A value of the agent's configuration."""
        return InjectedArg(source=ToolParameterSource.CONFIG, key=key)

    @staticmethod
    def from_sensory_memory(path: str) -> InjectedArg:
        """A value of this run's memory."""
        return InjectedArg(source=ToolParameterSource.SENSORY_MEMORY, key=path)

    @staticmethod
    def from_short_term_memory(path: str) -> InjectedArg:
        """A value of the key's memory."""
        return InjectedArg(source=ToolParameterSource.SHORT_TERM_MEMORY, key=path)

    def resolve(self, name: str, ctx: RunnerContext) -> Any:
        """The value now.

        Raises:
            ToolError: there is none.
        """
        key = self.key or name
        if self.source is ToolParameterSource.CONFIG:
            value = ctx.config.get(key)
        else:
            of_run = self.source is ToolParameterSource.SENSORY_MEMORY
            value = (ctx.sensory_memory if of_run else ctx.short_term_memory).get(key)
        if value is None or isinstance(value, MemoryObject):
            raise ToolError(
                f"the injected argument {name!r} has no value: there is none at {key!r}",
                where=self.source.value,
                fix="set it before the chat begins",
            )
        return value


def injected_args_of(
    func: Callable[..., Any], given: Mapping[str, InjectedArg | dict[str, Any]] | None
) -> dict[str, InjectedArg]:
    """What ``@tool(injected_args=...)`` and ``given`` say together.

    Raises:
        SignatureError: one is no parameter of ``func``, or the two contradict each other.
    """
    merged: dict[str, InjectedArg] = dict(getattr(func, INJECTED_ATTRIBUTE, {}))
    for name, spec in (given or {}).items():
        wanted = InjectedArg.model_validate(spec)
        if merged.setdefault(name, wanted) != wanted:
            raise SignatureError(
                f"the injected argument {name!r} is declared twice, and differently", where=_name(func), fix="drop one"
            )
    parameters = inspect.signature(func).parameters
    unknown = [name for name in merged if name not in parameters]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        raise SignatureError(
            f"the function has no parameter {', '.join(map(repr, unknown))} to inject",
            where=_name(func),
            fix=f"its parameters are: {', '.join(parameters)}",
        )
    return merged


def _name(func: Callable[..., Any]) -> str:
    return f"tool {getattr(func, '__qualname__', func)!s}"
