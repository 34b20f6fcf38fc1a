"""The action behind :class:`ChatRequestEvent`: asks the model, lets its tools be called, until there is an answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from flink_agents_py.builtin.transcript import Transcript
from flink_agents_py.chat_events import ChatRequestEvent, ChatResponseEvent, ToolRequestEvent, ToolResponseEvent
from flink_agents_py.config import AgentOptions
from flink_agents_py.errors import ModelRequestError, StructuredOutputError
from flink_agents_py.events import Event
from flink_agents_py.policies import RetryPolicy
from flink_agents_py.resources.base import ResourceType
from flink_agents_py.resources.chat_models import BaseChatModelSetup, StructuredOutputStrategy
from flink_agents_py.resources.messages import ChatMessage, MessageRole
from flink_agents_py.resources.structured import STRATEGY, STRUCTURED_OUTPUT, asked_to_repair, instructed

if TYPE_CHECKING:
    from flink_agents_py.context import RunnerContext

OUTCOME = "outcome"
"""In ``extra_args`` of a response: ``answered``, or ``max_iterations`` if the model went on asking for tools."""

_log = logging.getLogger(__name__)
_NATIVE, _REFUSED, _PROMPT = "native", "native refused, prompt", "prompt"


async def chat_model_action(event: Event, ctx: RunnerContext) -> None:
    """Begin a chat, or go on with the one whose tools have given their results.

    Every question to the model is a durable call. Errors of the service are retried by the connection's policy, under
    ``error-handling-strategy = retry`` all errors are.
    """
    if event.type == ChatRequestEvent.EVENT_TYPE:
        request = ChatRequestEvent.from_event(event)
        transcript = Transcript.begin(ctx, request, ctx.config.get(AgentOptions.CHAT_MAX_ITERATIONS))
    else:
        response = ToolResponseEvent.from_event(event)
        waiting = Transcript.behind(ctx, response.request_id)
        if waiting is None:
            return  # tools that an action of the user has asked for
        transcript = waiting
        transcript.messages += _results(transcript.messages[-1], response)
    await _Chat(ctx, transcript).go_on()


class _Chat:
    def __init__(self, ctx: RunnerContext, transcript: Transcript) -> None:
        self._ctx = ctx
        self._transcript = transcript
        self._setup: BaseChatModelSetup = ctx.get_resource(transcript.model, ResourceType.CHAT_MODEL)
        if transcript.schema is not None:
            _ = transcript.schema.output_schema  # a class that is not here is better missed before the model is paid
        self._retries_all = ctx.config.get(AgentOptions.ERROR_HANDLING_STRATEGY) == "retry"

    async def go_on(self) -> None:
        transcript = self._transcript
        answer = await self._ask(transcript.messages)
        if answer.tool_calls:
            transcript.round()
            if not transcript.exhausted:
                request = ToolRequestEvent(transcript.model, answer.tool_calls)
                transcript.wait_for_tools(request.id, answer)
                self._ctx.send_event(request)
                return
            outcome = "max_iterations"
        else:
            outcome = "answered"
            if transcript.schema is not None:
                answer = await self._structured(answer)
        iterations = transcript.rounds + (not answer.tool_calls)
        answer = _with(answer, **{OUTCOME: outcome}, iterations=iterations, chat_usage=transcript.usage)
        transcript.end()
        usage = transcript.usage
        self._ctx.send_event(ChatResponseEvent(transcript.request_id, answer, usage["retries"], usage["waited"]))

    async def _ask(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        """One question, with the schema as the model's service takes it."""
        schema, transcript = self._transcript.schema, self._transcript
        if schema is None:
            return await self._call(messages)
        if not transcript.strategy:
            transcript.strategy = _NATIVE if self._setup.native(schema) else _PROMPT
        if transcript.strategy == _NATIVE:
            try:
                return await self._call(messages, output_schema=schema)
            except ModelRequestError as error:
                if self._setup.structured_output_strategy is StructuredOutputStrategy.NATIVE:
                    raise
                _log.warning("model %s refuses an output schema, goes on by prompt: %s", transcript.model, error.what)
                transcript.strategy = _REFUSED
        return await self._call(instructed(messages, schema))

    async def _call(self, messages: Sequence[ChatMessage], **options: Any) -> ChatMessage:
        setup, ctx = self._setup, self._ctx
        if self._transcript.prompt_args:
            options["prompt_args"] = self._transcript.prompt_args
        answer: ChatMessage = await ctx.durable_execute_async(
            _counted(setup.achat) if setup.is_async else _counted_sync(setup.chat),
            list(messages),
            name=f"chat {self._transcript.model}",
            retry=_every_error(ctx) if self._retries_all else setup.retry,
            timeouts=setup.timeouts,
            **options,
        )
        self._transcript.count(answer)
        extra = answer.extra_args
        name = str(extra.get("model_name") or self._transcript.model)
        ctx.record_usage(name, extra.get("promptTokens", 0), extra.get("completionTokens", 0), extra.get("cost", 0.0))
        return answer

    async def _structured(self, answer: ChatMessage) -> ChatMessage:
        """The answer with its object; one that does not fit is sent back once, and under *retry* asked for anew."""
        schema = self._transcript.schema
        assert schema is not None
        attempts = 1 + (self._ctx.config.get(AgentOptions.MAX_RETRIES) if self._retries_all else 0)
        for attempt in range(attempts):
            if attempt:
                await self._ctx.sleep(_every_error(self._ctx).delay_s(attempt, str(self._transcript.request_id)))
                answer = await self._ask(self._transcript.messages)
            how = self._transcript.strategy
            try:
                return self._with_object(answer, schema.parse(answer.text), how)
            except StructuredOutputError as error:
                repaired = await self._ask(asked_to_repair(self._transcript.messages, answer, _problem(error)))
            try:
                return self._with_object(repaired, schema.parse(repaired.text), f"{how}, repaired")
            except StructuredOutputError as error:
                self._say(f"{how}, repair failed", error=error.what)
                if attempt + 1 == attempts:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _with_object(self, answer: ChatMessage, value: Any, how: str) -> ChatMessage:
        self._say(how)
        return _with(answer, **{STRUCTURED_OUTPUT: value, STRATEGY: how})

    def _say(self, strategy: str, **more: Any) -> None:
        if not self._ctx.replaying:
            self._ctx.observe(STRUCTURED_OUTPUT, model=self._transcript.model, strategy=strategy, **more)


def _counted(ask: Callable[..., Awaitable[ChatMessage]]) -> Callable[..., Awaitable[ChatMessage]]:
    """``ask``, whose answer tells how many attempts it took: in the answer, so that a replay tells the same."""
    attempts = _Attempts()

    async def asked(*args: Any, **kwargs: Any) -> ChatMessage:
        with attempts:
            return attempts.told(await ask(*args, **kwargs))

    return asked


def _counted_sync(ask: Callable[..., ChatMessage]) -> Callable[..., ChatMessage]:
    attempts = _Attempts()

    def asked(*args: Any, **kwargs: Any) -> ChatMessage:
        with attempts:
            return attempts.told(ask(*args, **kwargs))

    return asked


class _Attempts:
    """The attempts of one call in this attempt of the job, and the seconds between them."""

    def __init__(self) -> None:
        self._made = 0
        self._waited = 0.0
        self._ended = 0.0

    def __enter__(self) -> None:
        if self._made:
            self._waited += monotonic() - self._ended
        self._made += 1

    def __exit__(self, *_: object) -> None:
        self._ended = monotonic()

    def told(self, answer: ChatMessage) -> ChatMessage:
        if self._made == 1:
            return answer
        return _with(answer, retries=self._made - 1, retry_wait_s=round(self._waited, 3))


def _with(answer: ChatMessage, **extra: Any) -> ChatMessage:
    # A copy: what a durable call returned belongs to the call.
    return answer.model_copy(update={"extra_args": {**answer.extra_args, **extra}})


def _problem(error: StructuredOutputError) -> str:
    return error.what.partition(": ")[2]


def _every_error(ctx: RunnerContext) -> RetryPolicy:
    retries = ctx.config.get(AgentOptions.MAX_RETRIES)
    return RetryPolicy(max_attempts=1 + retries, initial=ctx.config.get(AgentOptions.RETRY_WAIT_INTERVAL), factor=2)


def _results(answer: ChatMessage, response: ToolResponseEvent) -> list[ChatMessage]:
    """What the tools gave, in the order in which the model asked."""
    results = []
    for call in answer.tool_calls:
        extra: dict[str, Any] = {
            "external_id": call.get("original_id") or call["id"],
            "tool_name": call["function"]["name"],
        }
        if not response.success.get(call["id"], True):
            extra["is_error"] = True
        content = _text(response.responses.get(call["id"], "the tool gave no result"))
        results.append(ChatMessage(role=MessageRole.TOOL, content=content, extra_args=extra))
    return results


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    return to_json(result, fallback=str, bytes_mode="base64").decode()
