"""External actions as tools: the same spec, limits, retries and audit, asked for by a model."""

from __future__ import annotations

from typing import Any

from flink_agents_py.errors import ToolError
from flink_agents_py.external import ActionCode, ActionResult, ActionSpec
from flink_agents_py.resources.tools import Tool, ToolMetadata, ToolType


class ExternalActionTool(Tool):
    """A tool that is an external action of the agent's registry; :meth:`of` makes one from its spec."""

    action: str

    @classmethod
    def of(cls, spec: ActionSpec) -> ExternalActionTool:
        """The action of ``spec`` as a tool; the agent needs the registry too (``add_action_registry``)."""
        return cls(action=spec.name, metadata=ToolMetadata.model_validate(spec.as_tool()))

    @classmethod
    def tool_type(cls) -> ToolType:
        """Where it runs."""
        return ToolType.EXTERNAL_ACTION

    def call(self, **arguments: Any) -> Any:  # noqa: ARG002 - the signature of tools
        """Not here: the tool action goes through ``ctx.call``.

        Raises:
            ToolError: always.
        """
        raise ToolError(
            f"the external action {self.action!r} is made by its registry, not by the tool",
            where=f"tool {self.name}",
            fix=f"await ctx.call({self.action!r}, parameters) in an action, or let the tool action do it",
        )


def value_of(outcome: Any) -> Any:
    """What a model is told of the outcome of a call.

    Raises:
        ToolError: an external action failed.
    """
    if not isinstance(outcome, ActionResult):
        return outcome
    if outcome.code != ActionCode.SUCCESS:
        last = outcome.errors[-1].message if outcome.errors else "the action failed"
        raise ToolError(f"{outcome.code}: {last}")
    return outcome.value
