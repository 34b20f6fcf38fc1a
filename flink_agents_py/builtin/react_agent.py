"""An agent that lets a model think and act: ask it, call the tools it asks for, tell it the results, until it answers.

It uses the tool calls that models are trained for, not a text protocol.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic import BaseModel

from flink_agents_py.agent import Agent, Trigger
from flink_agents_py.builtin.chat import OUTCOME, chat_model_action
from flink_agents_py.builtin.tool_calls import tool_call_action
from flink_agents_py.chat_events import ChatRequestEvent, ChatResponseEvent, ToolRequestEvent, ToolResponseEvent
from flink_agents_py.context import RunnerContext
from flink_agents_py.errors import AgentDefinitionError, MaxIterationsError
from flink_agents_py.events import InputEvent, OutputEvent
from flink_agents_py.policies import OnError
from flink_agents_py.resources.base import ResourceDescriptor, ResourceType
from flink_agents_py.resources.messages import ChatMessage, MessageRole
from flink_agents_py.resources.output_schema import OutputSchema
from flink_agents_py.resources.prompts import LocalPrompt, Prompt
from flink_agents_py.resources.structured import STRUCTURED_OUTPUT

_MODEL = "_default_chat_model"
_PROMPT = "_default_user_prompt"


class ReActAgent(Agent):
    """Each input becomes a chat; its answer is the output.

    Args:
        chat_model: a descriptor of the chat model (setup) to use, or the name of one that is declared elsewhere. Its
            connection and tools are resources of the environment or of this agent.
        prompt: with ``{input}`` for inputs that are texts, numbers or bools, ``{field}`` for the fields of others
            (dictionaries, rows, dataclasses, pydantic models). Without one, texts and numbers are sent as they are.
        output_schema: a pydantic model, a row type or a JSON Schema: outputs are of that type, else they are texts.
        max_iterations: answers of the model for one input; if the last of them still asks for tools,
            :class:`~flink_agents_py.errors.MaxIterationsError` is the input's outcome.
        on_error: what becomes of an input whose chat fails: ``fail`` | ``dead_letter`` | ``skip``. Under ``fail`` the
            option ``error-handling-strategy`` decides about errors of the model.
    """

    def __init__(
        self,
        *,
        chat_model: ResourceDescriptor | str,
        prompt: Prompt | None = None,
        output_schema: Any = None,
        max_iterations: int = 10,
        on_error: OnError = "fail",
    ) -> None:
        super().__init__()
        if max_iterations < 1:
            raise AgentDefinitionError(
                f"max_iterations is {max_iterations}", where="ReActAgent", fix="a model has to answer at least once"
            )
        if isinstance(chat_model, ResourceDescriptor):
            self.add_resource(_MODEL, ResourceType.CHAT_MODEL, chat_model)
            chat_model = _MODEL
        if isinstance(prompt, LocalPrompt):
            self.add_resource(_PROMPT, ResourceType.PROMPT, prompt)
        self.add_action(
            "start_action",
            [InputEvent],
            self.start_action,
            on_error=on_error,
            chat_model=chat_model,
            has_prompt=prompt is not None,
            output_schema=OutputSchema.of(output_schema),
            max_iterations=max_iterations,
        )
        if on_error != "fail":  # else the built-in ones join, and ``error-handling-strategy`` has its say
            chat_events: list[Trigger] = [ChatRequestEvent, ToolResponseEvent]
            self.add_action("chat_model_action", chat_events, chat_model_action, on_error=on_error)
            self.add_action("tool_call_action", [ToolRequestEvent], tool_call_action, on_error=on_error)
        self.add_action("stop_action", [ChatResponseEvent], self.stop_action, on_error=on_error)

    @staticmethod
    def start_action(event: InputEvent, ctx: RunnerContext) -> None:
        """Turn the input into a chat."""
        config = ctx.action_config
        if config["has_prompt"]:
            prompt: Prompt = ctx.get_resource(_PROMPT, ResourceType.PROMPT)
            messages = prompt.format_messages(role=MessageRole.USER, **_fields(event.input))
        elif isinstance(event.input, (str, int, float)):
            messages = [ChatMessage.user(str(event.input))]
        elif isinstance(event.input, ChatMessage):
            messages = [event.input]
        else:
            raise TypeError(
                f"an input of type {type(event.input).__name__} needs a prompt that says how to tell it to the model: "
                "ReActAgent(prompt=Prompt.from_text('... {field} ...'))"
            )
        ctx.send_event(
            ChatRequestEvent(
                config["chat_model"],
                messages,
                output_schema=config["output_schema"],
                max_iterations=config["max_iterations"],
            )
        )

    @staticmethod
    def stop_action(event: ChatResponseEvent, ctx: RunnerContext) -> None:
        """Send the answer downstream."""
        response = event.response
        extra = response.extra_args
        if extra.get(OUTCOME) == "max_iterations":
            asked = ", ".join(call["function"]["name"] for call in response.tool_calls)
            raise MaxIterationsError(
                f"the model has answered {extra['iterations']} times and still asks for tools ({asked})",
                where=f"key {ctx.key!r}, sequence {ctx.sequence}",
                fix="raise max_iterations, or see whether the results of the tools help the model on",
            )
        ctx.send_event(OutputEvent(extra.get(STRUCTURED_OUTPUT, response.text)))


def _fields(value: Any) -> dict[str, Any]:
    if value is None or isinstance(value, (str, int, float)):
        return {"input": value}
    if isinstance(value, BaseModel):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "as_dict"):  # a Row
        return dict(value.as_dict())
    return dict(value) if isinstance(value, dict) else {"input": value}
