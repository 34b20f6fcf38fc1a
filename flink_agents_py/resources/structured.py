"""Output schemas by prompt, for models whose service cannot hold them to one: instruct, parse, ask to repair."""

from __future__ import annotations

import json
from collections.abc import Sequence

from flink_agents_py.resources.messages import ChatMessage, after_first_system
from flink_agents_py.resources.output_schema import OutputSchema

STRUCTURED_OUTPUT = "structured_output"
"""In ``extra_args`` of an answer: the object, where a schema was asked for."""
STRATEGY = "structured_output_strategy"
"""In ``extra_args`` of an answer: ``native`` or ``prompt``, with what happened on the way (``native refused, prompt``,
``prompt, repaired``)."""


def instructed(messages: Sequence[ChatMessage], schema: OutputSchema) -> list[ChatMessage]:
    """The messages with the instruction to answer in the shape of ``schema``."""
    text = json.dumps(schema.schema_dict(), ensure_ascii=False)
    return after_first_system(
        messages,
        ChatMessage.system(
            "Your final answer must be one JSON value and nothing else: no explanation, no code fence. "
            f"It must match this JSON Schema:\n{text}"
        ),
    )


def asked_to_repair(messages: Sequence[ChatMessage], answer: ChatMessage, problem: str) -> list[ChatMessage]:
    """The messages with an answer that does not fit, and the request to make it fit."""
    request = ChatMessage.user(f"Your answer cannot be used: {problem}. Answer again, with the corrected JSON alone.")
    return [*messages, ChatMessage.assistant(answer.text), request]
