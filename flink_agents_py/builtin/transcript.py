"""What a chat has said so far, in the run's memory under a path of its own: chats of one run never mix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from flink_agents_py.chat_events import ChatRequestEvent
from flink_agents_py.resources.messages import ChatMessage
from flink_agents_py.resources.output_schema import OutputSchema

if TYPE_CHECKING:
    from flink_agents_py.context import RunnerContext

_CHATS = "_chat"
_REQUESTS = "_tool_requests"


class Transcript:
    """One chat: its request, its messages, and how often the model has answered.

    Each message is a field of its own, so a round writes what it adds and no more.
    """

    def __init__(self, ctx: RunnerContext, request_id: UUID, head: dict[str, Any], messages: list[ChatMessage]) -> None:
        self._memory = ctx.sensory_memory
        self.request_id = request_id
        self._head = head
        self.messages = messages
        self._stored = int(head["messages"])

    @classmethod
    def begin(cls, ctx: RunnerContext, request: ChatRequestEvent, limit: int) -> Transcript:
        """The transcript of a new chat; nothing is written before :meth:`wait_for_tools`."""
        head: dict[str, Any] = {
            "model": request.model,
            "prompt_args": request.prompt_args,
            "schema": request.output_schema,
            "limit": limit if request.max_iterations is None else request.max_iterations,
            "rounds": 0,
            "messages": 0,
            "strategy": "",
            "usage": {"prompt": 0, "completion": 0, "cost": 0.0, "calls": 0, "retries": 0, "waited": 0.0},
        }
        return cls(ctx, request.id, head, request.messages)

    @classmethod
    def behind(cls, ctx: RunnerContext, tool_request_id: UUID) -> Transcript | None:
        """The chat that sent a tool request, if it was one."""
        known = ctx.sensory_memory.get(f"{_REQUESTS}.{tool_request_id}")
        if known is None:
            return None
        ctx.sensory_memory.delete(f"{_REQUESTS}.{tool_request_id}")
        path = f"{_CHATS}.{known}"
        head = ctx.sensory_memory.get(f"{path}.head")
        messages = [ctx.sensory_memory.get(f"{path}.m{number}") for number in range(head["messages"])]
        return cls(ctx, UUID(known), head, messages)

    @property
    def model(self) -> str:
        """Name of the chat model."""
        return str(self._head["model"])

    @property
    def prompt_args(self) -> dict[str, Any]:
        """Values for the setup's prompt."""
        args: dict[str, Any] = self._head["prompt_args"]
        return args

    @property
    def schema(self) -> OutputSchema | None:
        """The shape the answer is to have."""
        schema: OutputSchema | None = self._head["schema"]
        return schema

    @property
    def strategy(self) -> str:
        """How the schema is brought to the model, ``""`` before the first call."""
        return str(self._head["strategy"])

    @strategy.setter
    def strategy(self, strategy: str) -> None:
        self._head["strategy"] = strategy

    @property
    def rounds(self) -> int:
        """Answers of the model that asked for tools."""
        return int(self._head["rounds"])

    @property
    def exhausted(self) -> bool:
        """Whether no further answer may ask for tools."""
        return self.rounds >= int(self._head["limit"])

    @property
    def usage(self) -> dict[str, Any]:
        """Tokens, cost, calls, their retries and the seconds waited for those, of the whole chat so far."""
        usage: dict[str, Any] = self._head["usage"]
        return usage

    def count(self, answer: ChatMessage) -> None:
        """Add what an answer cost."""
        usage = self.usage
        usage["prompt"] += answer.extra_args.get("promptTokens", 0)
        usage["completion"] += answer.extra_args.get("completionTokens", 0)
        usage["cost"] += answer.extra_args.get("cost", 0.0)
        usage["calls"] += 1
        usage["retries"] += answer.extra_args.get("retries", 0)
        usage["waited"] += answer.extra_args.get("retry_wait_s", 0.0)

    def round(self) -> None:
        """Count an answer that asks for tools."""
        self._head["rounds"] += 1

    def wait_for_tools(self, tool_request_id: UUID, answer: ChatMessage) -> None:
        """Keep the chat until the tools that ``answer`` asks for have given their results."""
        self.messages.append(answer)
        path = f"{_CHATS}.{self.request_id}"
        for number in range(self._stored, len(self.messages)):
            self._memory.set(f"{path}.m{number}", self.messages[number])
        self._head["messages"] = self._stored = len(self.messages)
        self._memory.set(f"{path}.head", self._head)
        self._memory.set(f"{_REQUESTS}.{tool_request_id}", str(self.request_id))

    def end(self) -> None:
        """Forget the chat."""
        if self._stored:
            self._memory.delete(f"{_CHATS}.{self.request_id}")
