"""ReAct against a server that speaks OpenAI's protocol; each run of a tool leaves its mark in the result it gives."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import (
    Agent,
    AgentsExecutionEnvironment,
    ChatMessage,
    ChatRequestEvent,
    ChatResponseEvent,
    InputEvent,
    OutputEvent,
    ReActAgent,
    ResourceDescriptor,
    ResourceName,
    ResourceType,
    RunnerContext,
    Tool,
    action,
)
from tests.flink.programs.chain import fail_once
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import key_of, numbers
from tests.support.ledger import append

MODEL = ResourceDescriptor(
    ResourceName.ChatModel.OPENAI_COMPLETIONS_SETUP, connection="server", model="scripted", tools=["look_up", "measure"]
)


async def look_up(question: str) -> str:
    """Look something up; no two runs give the same."""
    return f"{question} {uuid4().hex}"


def measure(question: str) -> str:
    """Measure something, and block for a moment; no two runs give the same."""
    time.sleep(0.05)
    return f"{question} {uuid4().hex}"


def fail(event: InputEvent, ctx: RunnerContext) -> None:
    """The failure in the middle."""
    if event.input[1] == ctx.config.get("fail-at"):
        fail_once(ctx.config.get("marker"))


class One(ReActAgent):
    """One chat for each input."""

    def __init__(self) -> None:
        super().__init__(chat_model=MODEL)
        self.add_action("fail", [InputEvent], fail)

    @staticmethod
    def start_action(event: InputEvent, ctx: RunnerContext) -> None:
        ChatStart.send(event, ctx, "a")

    @staticmethod
    def stop_action(event: ChatResponseEvent, ctx: RunnerContext) -> None:
        ChatStart.output(event, ctx)


class Two(Agent):
    """Two chats for each input, at the same time in one run."""

    def __init__(self) -> None:
        super().__init__()
        self.add_resource("model", ResourceType.CHAT_MODEL, MODEL)
        self.add_action("fail", [InputEvent], fail)

    @action(InputEvent)
    @staticmethod
    def start(event: InputEvent, ctx: RunnerContext) -> None:
        for side in "ab":
            ChatStart.send(event, ctx, side, "model")

    @action(ChatResponseEvent)
    @staticmethod
    def stop(event: ChatResponseEvent, ctx: RunnerContext) -> None:
        ChatStart.output(event, ctx)


class ChatStart:
    """What both do with inputs and answers."""

    @staticmethod
    def send(event: InputEvent, ctx: RunnerContext, side: str, model: str = "_default_chat_model") -> None:
        append(ctx.config.get("seen"), number=event.input[1], side=side)
        ctx.send_event(ChatRequestEvent(model, [ChatMessage.user(f"question {event.input[1]} {side}")]))

    @staticmethod
    def output(event: ChatResponseEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent({"key": ctx.key, "sequence": ctx.sequence, "answer": event.response.text}))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: url, count, keys, per_second, chats (1 or 2), outputs, seen, fail_at, marker, store."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    config = agents.get_config()
    config.set("fail-at", spec.get("fail_at", -1))
    config.set("marker", spec.get("marker", ""))
    config.set("seen", spec["seen"])
    if "store" in spec:
        config.set("job-identifier", "react")
        config.set("action-state-store.backend", "sqlite")
        config.set("action-state-store.url", spec["store"])
    connection = ResourceDescriptor(
        ResourceName.ChatModel.OPENAI_COMPLETIONS_CONNECTION, base_url=spec["url"], timeout=3.0
    )
    agents.add_resource("server", ResourceType.CHAT_MODEL_CONNECTION, connection)
    agents.add_resource("look_up", ResourceType.TOOL, Tool.from_callable(look_up))
    agents.add_resource("measure", ResourceType.TOOL, Tool.from_callable(measure))
    stream = numbers(env, spec["count"], spec["keys"], per_second=spec["per_second"])
    agent = One() if spec["chats"] == 1 else Two()
    append_to(agents.from_datastream(stream, key_of).apply(agent).to_datastream(), spec["outputs"])
