"""Messages and tools in Anthropic's protocol, and its answers as messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flink_agents_py.ext.openai_format import distinct
from flink_agents_py.ext.strict_schema import strict
from flink_agents_py.resources.messages import ChatMessage, ImagePart, MessageRole, TextPart, tool_call
from flink_agents_py.resources.output_schema import OutputSchema
from flink_agents_py.resources.tools import Tool


def to_request(
    messages: Sequence[ChatMessage], tools: Sequence[Tool] | None, schema: OutputSchema | None, options: dict[str, Any]
) -> dict[str, Any]:
    """A request of the protocol: the system's word apart, turns that alternate, results of tools in one turn."""
    system = "\n\n".join(message.text for message in messages if message.role is MessageRole.SYSTEM)
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role is MessageRole.SYSTEM:
            continue
        role = "assistant" if message.role is MessageRole.ASSISTANT else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    request: dict[str, Any] = {"messages": turns, **options}
    if system:
        request["system"] = system
    if tools:
        described = [tool.metadata for tool in tools if tool.metadata is not None]
        request["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in described
        ]
    if schema is not None:
        held = strict(schema.schema_dict()) or schema.schema_dict()
        request["output_config"] = {"format": {"type": "json_schema", "schema": held}}
    return request


def _blocks(message: ChatMessage) -> list[dict[str, Any]]:
    if message.role is MessageRole.TOOL:
        result = {
            "type": "tool_result",
            "tool_use_id": message.extra_args.get("external_id", ""),
            "content": message.text,
        }
        return [{**result, "is_error": True} if message.extra_args.get("is_error") else result]
    content = [TextPart(text=message.content)] if isinstance(message.content, str) else message.content
    blocks = [_part(part) for part in content if not isinstance(part, TextPart) or part.text]
    blocks += [
        {
            "type": "tool_use",
            "id": call.get("original_id") or call["id"],
            "name": call["function"]["name"],
            "input": call["function"]["arguments"],
        }
        for call in message.tool_calls
    ]
    return blocks


def _part(part: TextPart | ImagePart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if part.url:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


def to_answer(message: Any) -> ChatMessage:
    """An answer as a message."""
    usage = message.usage
    extra: dict[str, Any] = {
        "model_name": message.model,
        "finish_reason": message.stop_reason,
        "promptTokens": usage.input_tokens,
        "completionTokens": usage.output_tokens,
        "usage": {"prompt": usage.input_tokens, "completion": usage.output_tokens},
    }
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [
        tool_call(block.name, dict(block.input), block.id) for block in message.content if block.type == "tool_use"
    ]
    return ChatMessage(role=MessageRole.ASSISTANT, content=text, tool_calls=distinct(calls), extra_args=extra)
