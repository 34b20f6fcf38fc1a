"""A chat model that says what a test wants, in this process, without any SDK or server."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, PrivateAttr

from flink_agents_py.errors import FunctionNotFoundError
from flink_agents_py.resources.base import ResourceDescriptor
from flink_agents_py.resources.chat_models import BaseChatModelConnection, BaseChatModelSetup
from flink_agents_py.resources.messages import ChatMessage, MessageRole, tool_call
from flink_agents_py.resources.output_schema import OutputSchema
from flink_agents_py.resources.tools import Tool
from flink_agents_py.serde import digest

_scripts: dict[str, ScriptedChatModel] = {}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class ScriptedRequest:
    """What the model was asked."""

    messages: list[ChatMessage]
    tools: list[str]
    output_schema: OutputSchema | None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The last thing the user said."""
        return next((m.text for m in reversed(self.messages) if m.role is MessageRole.USER), "")

    @property
    def round(self) -> int:
        """How often the model has answered in this chat, from 0."""
        return sum(message.role is MessageRole.ASSISTANT for message in self.messages)

    @property
    def tool_results(self) -> list[str]:
        """What tools have given since the model last spoke, in the order it asked for them."""
        last = [n for n, message in enumerate(self.messages) if message.role is MessageRole.ASSISTANT]
        after = self.messages[last[-1] + 1 :] if last else []
        return [message.text for message in after if message.role is MessageRole.TOOL]


Reply = str | dict[str, Any] | list[Any] | ChatMessage | Exception
Rule = Callable[[ScriptedRequest], Reply]


def asks_for(*calls: tuple[str, dict[str, Any]], text: str = "") -> ChatMessage:
    """An answer that asks for tools: ``asks_for(("add", {"a": 1, "b": 2}), ("now", {}))``."""
    asked = [tool_call(name, arguments, f"call_{number}") for number, (name, arguments) in enumerate(calls)]
    return ChatMessage.assistant(text, asked)


class ScriptedChatModel:
    """What a chat model says, for descriptors of connections and setups.

    ::

        model = ScriptedChatModel([asks_for(("add", {"a": 1, "b": 2})), "the sum is 3"])
        agent = ReActAgent(chat_model=model.setup("model", tools=["add"]))
        agent.add_resource("model", ResourceType.CHAT_MODEL_CONNECTION, model.connection)

    Args:
        replies: answers of **each** chat, in order: the n-th one answers its n-th question, so a replay gets the same;
            or a function of the :class:`ScriptedRequest`. A text is said, other JSON values are sent as JSON text,
            an exception is raised. Another process (Flink) needs data, or a function of an importable module.
        latency_s: seconds before each answer, of real time.
        fail_first: raised one after the other before a question gets its answer, for each question anew.
        native: whether it claims to hold to output schemas by itself.
    """

    def __init__(
        self,
        replies: Sequence[Reply] | Rule,
        *,
        latency_s: float = 0.0,
        fail_first: Sequence[Exception] = (),
        native: bool = False,
    ) -> None:
        self._replies = replies
        self.latency_s = latency_s
        self.native = native
        self._fail_first = list(fail_first)
        self._asked: Counter[str] = Counter()
        self.requests: list[ScriptedRequest] = []
        """Every question that was put, failed ones too."""
        self._name = f"{os.getpid()}-{next(_numbers)}"  # another process must not take its own for this one
        _scripts[self._name] = self

    @property
    def connection(self) -> ResourceDescriptor:
        """A descriptor of a connection to this model."""
        arguments: dict[str, Any] = {"script": self._name, "latency_s": self.latency_s, "native": self.native}
        if not callable(self._replies):
            arguments["replies"] = [reply for reply in self._replies if not isinstance(reply, Exception)]
        elif "<" not in getattr(self._replies, "__qualname__", "<") and self._replies.__module__ != "__main__":
            arguments["rule"] = f"{self._replies.__module__}:{self._replies.__qualname__}"
        return ResourceDescriptor(ScriptedChatModelConnection, **arguments)

    def setup(self, connection: str, **arguments: Any) -> ResourceDescriptor:
        """A descriptor of a setup; ``arguments`` are those of :class:`BaseChatModelSetup`."""
        return ResourceDescriptor(BaseChatModelSetup, connection=connection, model="scripted", **arguments)

    def answer(self, request: ScriptedRequest) -> ChatMessage:
        """The answer to a question; counts it.

        Raises:
            Exception: what the script says.
        """
        self.requests.append(request)
        if self._fail_first:
            question = digest([message.model_dump(mode="json") for message in request.messages])
            self._asked[question] += 1
            if self._asked[question] <= len(self._fail_first):
                raise self._fail_first[self._asked[question] - 1]
        if callable(self._replies):
            return _message(self._replies(request))
        if request.round >= len(self._replies):
            raise LookupError(
                f"the script has {len(self._replies)} replies, the chat asks for number {request.round + 1}"
            )
        return _message(self._replies[request.round])


class ScriptedChatModelConnection(BaseChatModelConnection):
    """The connection to a :class:`ScriptedChatModel`, which makes its descriptor."""

    script: str = ""
    rule: str | None = None
    replies: list[Any] = Field(default_factory=list)
    latency_s: float = 0.0
    native: bool = False

    _model: ScriptedChatModel | None = PrivateAttr(default=None)

    @property
    def scripted(self) -> ScriptedChatModel:
        """The model: that of the test, or in another process one like it."""
        if self._model is None:
            replies: Any = self.replies if self.rule is None else _find(self.rule)
            self._model = _scripts.get(self.script) or ScriptedChatModel(replies, latency_s=self.latency_s)
        return self._model

    def supports_native_structured_output(self, effective_model: str | None) -> bool:  # noqa: ARG002
        """What the script claims."""
        return self.native

    def chat(
        self,
        messages: Sequence[ChatMessage],
        tools: list[Tool] | None = None,
        output_schema: OutputSchema | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """The scripted answer."""
        if self.latency_s:
            time.sleep(self.latency_s)
        return self._said(messages, tools, output_schema, kwargs)

    async def achat(
        self,
        messages: Sequence[ChatMessage],
        tools: list[Tool] | None = None,
        output_schema: OutputSchema | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """The scripted answer."""
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        return self._said(messages, tools, output_schema, kwargs)

    def _said(
        self,
        messages: Sequence[ChatMessage],
        tools: list[Tool] | None,
        schema: OutputSchema | None,
        options: dict[str, Any],
    ) -> ChatMessage:
        offered = [tool.name for tool in tools or ()]
        answer = self.scripted.answer(ScriptedRequest(list(messages), offered, schema, options))
        prompt = sum(len(message.text.split()) for message in messages)
        completion = len(answer.text.split())
        extra = {
            "model_name": str(options.get("model", "scripted")),
            "promptTokens": prompt,
            "completionTokens": completion,
            "usage": {"prompt": prompt, "completion": completion},
            **answer.extra_args,
        }
        return answer.model_copy(update={"extra_args": extra})


def _message(reply: Reply) -> ChatMessage:
    if isinstance(reply, Exception):
        raise reply
    if isinstance(reply, ChatMessage):
        return reply.model_copy(update={"role": MessageRole.ASSISTANT})
    return ChatMessage.assistant(reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False))


def _find(rule: str) -> Any:
    module, _, qualname = rule.partition(":")
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise FunctionNotFoundError(f"the rule {rule} of a scripted model is not here", where="ScriptedChatModel")
    return found
