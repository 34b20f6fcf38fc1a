"""What a loopback OpenAI server answers, and what it was asked."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class ModelReply:
    """One answer of a model.

    Args:
        content: its text; anything else is sent as JSON text (what a structured answer is).
        tool_calls: tools the model wants called: pairs of name and arguments.
        latency_s: seconds before the answer instead of the server's.
        usage: tokens, ``(prompt, completion)``; by default the number of words.
        finish_reason: instead of ``stop`` (``tool_calls`` if there are any).
    """

    content: Any = None
    tool_calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    latency_s: float | None = None
    usage: tuple[int, int] | None = None
    finish_reason: str | None = None


@dataclass(frozen=True)
class ModelFault:
    """An answer that is no answer.

    Args:
        status: HTTP status; 0 closes the connection without a word.
        retry_after_s: sent as ``Retry-After``.
        retry_after_ms: sent as ``retry-after-ms``.
        hang: never answer; the client has to give up.
        message: the text of the error.
    """

    status: int = 500
    retry_after_s: int | None = None
    retry_after_ms: int | None = None
    hang: bool = False
    message: str = "a fault the test asked for"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that tell when to come back."""
        headers = {}
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(self.retry_after_s)
        if self.retry_after_ms is not None:
            headers["retry-after-ms"] = str(self.retry_after_ms)
        return headers


@dataclass
class ModelRequest:
    """One request as the server saw it.

    Attributes:
        number: 1 for the first request of the server, whatever it asked for.
        kind: ``chat`` or ``embeddings``.
        repeat: how many requests with an equal body came before.
        status: HTTP status of the answer; 0 as long as there is none (in work, hung up on, or the client gave up).
    """

    number: int
    kind: str
    body: dict[str, Any]
    headers: Mapping[str, str]
    repeat: int = 0
    status: int = 0
    arrived_at: float = field(default_factory=time.monotonic)

    @cached_property
    def digest(self) -> str:
        """The same for equal bodies."""
        return digest_of(self.body)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, as the client sent it."""
        messages: list[dict[str, Any]] = self.body.get("messages", [])
        return messages

    @property
    def last(self) -> dict[str, Any]:
        """The newest message."""
        return self.messages[-1] if self.messages else {}

    @property
    def text(self) -> str:
        """Text of the newest message of the user."""
        return next((text_of(m) for m in reversed(self.messages) if m.get("role") == "user"), "")

    @property
    def tool_results(self) -> list[str]:
        """Texts of the tool messages since the model last spoke, in order."""
        results: list[str] = []
        for message in reversed(self.messages):
            if message.get("role") != "tool":
                break
            results.insert(0, text_of(message))
        return results

    @property
    def tools(self) -> list[str]:
        """Names of the tools the model was offered."""
        return [tool["function"]["name"] for tool in self.body.get("tools") or []]

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema the answer has to fit, if the client asked for one."""
        wanted = self.body.get("response_format") or {}
        schema: dict[str, Any] | None = wanted.get("json_schema", {}).get("schema")
        return schema


def text_of(message: Mapping[str, Any]) -> str:
    """Text of a message, whose content may be a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def digest_of(body: Mapping[str, Any]) -> str:
    """A digest that does not depend on the order of names."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def completion(reply: ModelReply, request: ModelRequest) -> dict[str, Any]:
    """The body of a chat completion."""
    content = reply.content
    if content is not None and not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False)
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": f"call_{request.number}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(reply.tool_calls)
        ]
    usage = reply.usage or (sum(len(text_of(m).split()) for m in request.messages), len((content or "").split()))
    finish = reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")
    return {
        "id": f"chatcmpl-{request.number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.body.get("model", ""),
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)},
    }


def embeddings(request: ModelRequest) -> dict[str, Any]:
    """The body of an embeddings answer: words that two texts share bring their vectors together."""
    texts = request.body.get("input", [])
    texts = [texts] if isinstance(texts, str) else texts
    vectors = [bag_of_words(text, request.body.get("dimensions") or 64) for text in texts]
    as_text = request.body.get("encoding_format") == "base64"
    tokens = sum(len(text.split()) for text in texts)
    return {
        "object": "list",
        "model": request.body.get("model", ""),
        "data": [
            {"object": "embedding", "index": index, "embedding": _base64(vector) if as_text else vector}
            for index, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def bag_of_words(text: str, dimensions: int) -> list[float]:
    """A unit vector with a place for each word, found by a hash: the same everywhere, and no model."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()):
        place = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
        vector[place % dimensions] += 1.0
    length = sum(value * value for value in vector) ** 0.5 or 1.0
    return [value / length for value in vector]


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
