"""Messages and tools in OpenAI's protocol, and its answers as messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from flink_agents_py.ext.strict_schema import strict
from flink_agents_py.resources.messages import ChatMessage, MessageRole, TextPart, tool_call
from flink_agents_py.resources.output_schema import OutputSchema
from flink_agents_py.resources.tools import Tool, ToolMetadata


def to_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Our messages as the protocol has them."""
    return [_message(message) for message in messages]


def _message(message: ChatMessage) -> dict[str, Any]:
    if message.role is MessageRole.TOOL:
        return {"role": "tool", "content": message.text, "tool_call_id": message.extra_args.get("external_id", "")}
    document: dict[str, Any] = {"role": message.role.value, "content": _content(message)}
    if message.tool_calls:
        document["content"] = document["content"] or None
        document["tool_calls"] = [_call(call) for call in message.tool_calls]
    return document


def _content(message: ChatMessage) -> Any:
    if isinstance(message.content, str):
        return message.content
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image_url", "image_url": {"url": part.data_url}}
        for part in message.content
    ]


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function.get("invalid") or json.dumps(function["arguments"], ensure_ascii=False)
    return {
        "id": call.get("original_id") or call["id"],
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def to_tools(tools: Sequence[Tool], *, held: bool = False) -> list[dict[str, Any]]:
    """Our tools as the protocol has them; ``held``: those with a strict form are held to their schema."""
    return [_tool(tool.metadata, held=held) for tool in tools if tool.metadata is not None]


def _tool(tool: ToolMetadata, *, held: bool) -> dict[str, Any]:
    form = strict(tool.parameters) if held else None
    function = {"name": tool.name, "description": tool.description, "parameters": form or tool.parameters}
    return {"type": "function", "function": {**function, "strict": True} if form else function}


def response_format(schema: OutputSchema) -> dict[str, Any]:
    """The request for an answer of that shape; strict where the schema allows."""
    held = strict(schema.schema_dict())
    document = {"name": schema.name, "schema": held or schema.schema_dict(), "strict": held is not None}
    return {"type": "json_schema", "json_schema": document}


def to_answer(completion: dict[str, Any]) -> ChatMessage:
    """A completion, as JSON has it, as a message.

    Raises:
        KeyError, IndexError, TypeError, AttributeError: it is none.
    """
    choice = completion["choices"][0]
    said = choice["message"]
    extra: dict[str, Any] = {"model_name": completion.get("model"), "finish_reason": choice.get("finish_reason")}
    usage = completion.get("usage")
    if usage:
        prompt, answer = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
        extra |= {"promptTokens": prompt, "completionTokens": answer, "usage": {"prompt": prompt, "completion": answer}}
    if said.get("refusal"):
        extra["refusal"] = said["refusal"]
    if said.get("reasoning_content"):
        extra["reasoning"] = said["reasoning_content"]
    asked = enumerate(said.get("tool_calls") or ())
    calls = [_asked(number, call) for number, call in asked if call.get("type", "function") == "function"]
    return ChatMessage(
        role=MessageRole.ASSISTANT, content=said.get("content") or "", tool_calls=distinct(calls), extra_args=extra
    )


def _asked(number: int, call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    text = function.get("arguments") or "{}"
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = None
    valid = isinstance(arguments, dict)
    asked = tool_call(function["name"], arguments if valid else {}, call.get("id") or f"call_{number}")
    if not valid:
        asked["function"]["invalid"] = text  # the tool action tells the model so
    return asked


def distinct(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls with ids of their own, where a service repeats one."""
    seen: set[str] = set()
    for number, call in enumerate(calls):
        if call["id"] in seen:
            call["id"] = f"{call['id']}#{number}"
        seen.add(call["id"])
    return calls
