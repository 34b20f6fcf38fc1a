"""Chat messages: what goes to a model and what comes back."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class MessageRole(str, Enum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class TextPart(BaseModel):
    """A piece of text in a message of several parts."""

    type: Literal["text"] = "text"
    text: str


class ImagePart(BaseModel):
    """An image: by URL, or as base64 text with its media type."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["image"] = "image"
    url: str | None = None
    data: str | None = Field(default=None, description="base64")
    media_type: str = "image/png"

    @classmethod
    def from_bytes(cls, content: bytes, media_type: str = "image/png") -> ImagePart:
        """An image that is at hand. It goes into the journal with the message: keep it small, or give a URL."""
        return cls(data=base64.b64encode(content).decode("ascii"), media_type=media_type)

    @classmethod
    def from_file(cls, path: str | Path, media_type: str = "image/png") -> ImagePart:
        """An image in a file that can be read here."""
        return cls.from_bytes(Path(path).read_bytes(), media_type)

    @property
    def data_url(self) -> str:
        """The image as one URL, as OpenAI's protocol wants it."""
        return self.url or f"data:{self.media_type};base64,{self.data}"


ContentPart = Annotated[TextPart | ImagePart, Field(discriminator="type")]


class ChatMessage(BaseModel):
    """One message of a chat.

    Args:
        role: who speaks; a user if not given.
        content: text, or a list of :class:`TextPart` and :class:`ImagePart`.
        tool_calls: of an assistant: ``{"id", "type": "function", "function": {"name", "arguments": {...}}}`` each.
        extra_args: of an answer: ``model_name``, ``promptTokens``, ``completionTokens``, ``usage``, ``cost``,
            ``finish_reason``, ``structured_output`` and ``structured_output_strategy``; of a tool's message:
            ``external_id``, the id of the call it answers.
    """

    role: MessageRole = MessageRole.USER
    content: str | list[ContentPart] = ""
    tool_calls: list[dict[str, Any]] = Field(default_factory=list)
    extra_args: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def system(cls, content: str) -> ChatMessage:
        """How the model is to behave."""
        return cls(role=MessageRole.SYSTEM, content=content)

    @classmethod
    def user(cls, *content: str | TextPart | ImagePart) -> ChatMessage:
        """What the user says: a text, or several parts."""
        if len(content) == 1 and isinstance(content[0], str):
            return cls(content=content[0])
        return cls(content=[TextPart(text=part) if isinstance(part, str) else part for part in content])

    @classmethod
    def assistant(cls, content: str = "", tool_calls: Sequence[dict[str, Any]] = ()) -> ChatMessage:
        """What the model says."""
        return cls(role=MessageRole.ASSISTANT, content=content, tool_calls=list(tool_calls))

    @property
    def text(self) -> str:
        """The text of the message, of all its parts."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))

    def __str__(self) -> str:
        return f"{self.role.value}: {self.text}"


def tool_call(name: str, arguments: dict[str, Any], id: str, original_id: str | None = None) -> dict[str, Any]:
    """A tool call as messages and events carry it.

    Args:
        id: unique within the message.
        original_id: what the provider calls it; ``id`` if not given.
    """
    return {
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
        "original_id": original_id or id,
    }


def after_first_system(messages: Sequence[ChatMessage], *added: ChatMessage) -> list[ChatMessage]:
    """``messages`` with ``added`` behind the first system message, or in front if there is none."""
    first = next((n for n, message in enumerate(messages) if message.role is MessageRole.SYSTEM), -1)
    return [*messages[: first + 1], *added, *messages[first + 1 :]]
