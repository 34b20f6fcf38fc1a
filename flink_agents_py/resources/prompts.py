"""Prompts: texts or messages with ``{name}`` in them; other braces are left alone, so JSON in a prompt is safe."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from flink_agents_py.resources.base import ResourceType, SerializableResource
from flink_agents_py.resources.messages import ChatMessage, MessageRole, TextPart

_NAME = re.compile(r"\{([^{}]+)\}")


class Prompt(SerializableResource, ABC):
    """A template for messages. ``{name}`` is replaced by the argument of that name; an unknown one stays as it is."""

    resource_type: ClassVar[ResourceType] = ResourceType.PROMPT

    @staticmethod
    def from_text(text: str) -> LocalPrompt:
        """A prompt of one message."""
        return LocalPrompt(template=text)

    @staticmethod
    def from_messages(messages: Sequence[ChatMessage]) -> LocalPrompt:
        """A prompt of several messages."""
        return LocalPrompt(template=list(messages))

    @abstractmethod
    def format_string(self, **kwargs: Any) -> str:
        """The prompt as one text."""

    @abstractmethod
    def format_messages(self, role: MessageRole = MessageRole.SYSTEM, **kwargs: Any) -> list[ChatMessage]:
        """The prompt as messages; ``role`` is that of a prompt made from text."""


class LocalPrompt(Prompt):
    """A prompt that is all in the plan."""

    template: str | list[ChatMessage]

    def format_string(self, **kwargs: Any) -> str:
        """The prompt as one text; messages are set under each other, with their roles."""
        if isinstance(self.template, str):
            return fill(self.template, kwargs)
        return "\n".join(f"{message.role.value}: {fill(message.text, kwargs)}" for message in self.template)

    def format_messages(self, role: MessageRole = MessageRole.SYSTEM, **kwargs: Any) -> list[ChatMessage]:
        """The prompt as messages."""
        if isinstance(self.template, str):
            return [ChatMessage(role=role, content=fill(self.template, kwargs))]
        return [_filled(message, kwargs) for message in self.template]


def fill(template: str, values: dict[str, Any]) -> str:
    """``template`` with each ``{name}`` that ``values`` has replaced."""
    return _NAME.sub(lambda match: str(values.get(match[1], match[0])), template)


def _filled(message: ChatMessage, values: dict[str, Any]) -> ChatMessage:
    if isinstance(message.content, str):
        content: Any = fill(message.content, values)
    else:
        content = [
            TextPart(text=fill(part.text, values)) if isinstance(part, TextPart) else part for part in message.content
        ]
    return message.model_copy(update={"content": content})
