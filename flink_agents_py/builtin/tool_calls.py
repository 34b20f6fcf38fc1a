"""The action behind :class:`ToolRequestEvent`: calls the tools of one answer in parallel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from flink_agents_py.chat_events import ToolRequestEvent, ToolResponseEvent
from flink_agents_py.errors import FlinkAgentsError, ToolError, UnknownResourceError
from flink_agents_py.policies import RetryPolicy
from flink_agents_py.resources.agent_tool import AgentTool
from flink_agents_py.resources.base import ResourceType
from flink_agents_py.resources.chat_models import TRANSIENT
from flink_agents_py.resources.external_tool import ExternalActionTool, value_of
from flink_agents_py.resources.mcp import RemoteTool
from flink_agents_py.resources.secrets import redact
from flink_agents_py.resources.tools import FunctionTool, Tool

if TYPE_CHECKING:
    from flink_agents_py.context import RunnerContext

# A server that is being restarted; a call that was lost on the way is made again, as everywhere after a crash.
_SERVERS_RETRY = RetryPolicy(max_attempts=6, retry_on=TRANSIENT)


async def tool_call_action(event: ToolRequestEvent, ctx: RunnerContext) -> None:
    """Call the tools, each by a durable call; what goes wrong with one is its result, for the model to read."""
    results: dict[str, Any] = {}
    errors: dict[str, str] = {}
    waiting: list[Awaitable[Any]] = []
    agents: list[tuple[str, AgentTool, dict[str, Any]]] = []
    order: list[str] = []
    for call in event.tool_calls:
        call_id = call["id"]
        results[call_id] = None  # the order of the results is that of the calls
        try:
            tool = _find(call["function"]["name"], event.model, ctx)
            if isinstance(tool, AgentTool):
                agents.append((call_id, tool, _arguments(call["function"])))
                continue
            waiting.append(_call(tool, call["function"], ctx))
            order.append(call_id)
        except FlinkAgentsError as error:
            errors[call_id] = error.what
    if waiting:
        outcomes = await ctx.gather(*waiting, return_exceptions=True)
        for call_id, outcome in zip(order, outcomes, strict=True):
            try:
                results[call_id] = _result(outcome)
            except Exception as error:  # noqa: BLE001 - whatever a tool raises is for the model
                errors[call_id] = _message(error)
    for call_id, tool, arguments in agents:  # one after the other: each is part of this action
        try:
            answers = await ctx.call_agent(tool.agent, tool.input_of(arguments))
            results[call_id] = answers[0] if len(answers) == 1 else answers
        except Exception as error:  # noqa: BLE001 - (the same)
            errors[call_id] = _message(error)
    for call_id, message in errors.items():
        results[call_id] = f"Error: {message}"
    ctx.send_event(
        ToolResponseEvent(
            event.id,
            results,
            external_ids={call["id"]: call.get("original_id") for call in event.tool_calls},
            success={call_id: call_id not in errors for call_id in results},
            error=errors,
        )
    )


def _arguments(function: dict[str, Any]) -> dict[str, Any]:
    if function.get("invalid"):
        raise ToolError(f"the arguments of {function['name']} are no JSON object: {function['invalid'][:200]}")
    return dict(function["arguments"] or {})


def _call(tool: Tool, function: dict[str, Any], ctx: RunnerContext) -> Awaitable[Any]:
    """The durable call a model asks for.

    Raises:
        ToolError: the arguments do not fit.
    """
    arguments = _arguments(function)
    if isinstance(tool, ExternalActionTool):
        return ctx.call(tool.action, arguments)
    if isinstance(tool, FunctionTool):
        for hidden in tool.injected_args:
            arguments.pop(hidden, None)  # not for the model to say
        arguments = tool.arguments(arguments)
        arguments |= {arg: source.resolve(arg, ctx) for arg, source in tool.injected_args.items()}
    return ctx.durable_execute_async(
        _made(tool),
        arguments,
        name=f"tool {function['name']}",
        retry=tool.retry or (_SERVERS_RETRY if isinstance(tool, RemoteTool) else None),
        timeouts=tool.timeouts,
    )


def _find(name: str, model: str, ctx: RunnerContext) -> Tool:
    tool: Tool | None = None
    if model:
        tool = ctx.get_resource(model, ResourceType.CHAT_MODEL).find_tool(name)
    else:
        try:
            tool = ctx.get_resource(name, ResourceType.TOOL)
        except UnknownResourceError as error:
            raise ToolError(error.what) from None
    if tool is None:
        raise ToolError(f"there is no tool {name!r}; use one of those offered")
    return tool


def _made(tool: Tool) -> Callable[[dict[str, Any], str], Any]:
    """The call as a function of data alone: a tool may have arguments of any name, ``name`` and ``retry`` included."""
    keyed = isinstance(tool, FunctionTool) and tool.takes_idempotency_key

    def all_of(arguments: dict[str, Any], idempotency_key: str) -> dict[str, Any]:
        return {**arguments, "idempotency_key": idempotency_key} if keyed else arguments

    if tool.is_async:

        async def acall(arguments: dict[str, Any], idempotency_key: str) -> Any:
            return await tool.acall(**all_of(arguments, idempotency_key))

        return acall

    def call(arguments: dict[str, Any], idempotency_key: str) -> Any:
        return tool.call(**all_of(arguments, idempotency_key))

    return call


def _result(outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome
    return value_of(outcome)


def _message(error: Exception) -> str:
    text = error.what if isinstance(error, FlinkAgentsError) else f"{type(error).__name__}: {error}"
    return redact(text)
