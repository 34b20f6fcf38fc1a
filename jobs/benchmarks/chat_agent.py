"""The ``chat`` workload as an agent: the built-in chat action with the OpenAI connection."""

# ruff: noqa: D102 - the methods are named by Flink or say what they do; their classes say the rest

from __future__ import annotations

import os

from pyflink.common import Row

from flink_agents_py import (
    Agent,
    ChatMessage,
    ChatRequestEvent,
    ChatResponseEvent,
    InputEvent,
    OutputEvent,
    ResourceDescriptor,
    ResourceName,
    RunnerContext,
    action,
    chat_model_connection,
    chat_model_setup,
)
from jobs.benchmarks import gauge
from jobs.benchmarks.chat import URL, question


class ChatAgent(Agent):
    """Asks the model about each record."""

    @chat_model_connection
    @staticmethod
    def server() -> ResourceDescriptor:
        return ResourceDescriptor(clazz=ResourceName.ChatModel.OPENAI_COMPLETIONS_CONNECTION, base_url=os.environ[URL])

    @chat_model_setup
    @staticmethod
    def model() -> ResourceDescriptor:
        return ResourceDescriptor(clazz=ResourceName.ChatModel.OPENAI_COMPLETIONS_SETUP, connection="server", model="m")

    @action(InputEvent)
    @staticmethod
    def ask(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(ChatRequestEvent("model", [ChatMessage.user(question(event.input[1]))]))

    @action(ChatResponseEvent)
    @staticmethod
    def answered(event: ChatResponseEvent, ctx: RunnerContext) -> None:
        gauge.tick()
        ctx.send_event(OutputEvent(Row(ctx.key, len(event.response.text))))
