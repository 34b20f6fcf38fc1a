"""An agent whose plan is exchanged while its runs are in flight, and one whose plan changes over a savepoint."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pyflink.common import Duration, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat

from flink_agents_py import (
    Agent,
    AgentPlan,
    AgentsExecutionEnvironment,
    Event,
    InputEvent,
    OutputEvent,
    PlanFile,
    Prompt,
    ResourceType,
    RunnerContext,
    Tool,
)
from flink_agents_py.engine.driver import DEAD_LETTERS
from flink_agents_py.errors import UnknownResourceError
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import key_of, numbers
from tests.support.ledger import append

NAME = "changing"
TOOLS = ("look_up", "search", "book")


async def wait(ledger: str, gate: str, number: int, version: str) -> str:
    """A call that lasts until the gate is open."""
    append(ledger, number=number, version=version)
    while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - it is the test that makes it
        await asyncio.sleep(0.3)
    return f"answer {number}"


def look_up(order: int) -> str:
    """Look up."""
    return f"looked up {order}"


def search(order: int) -> str:
    """Search."""
    return f"searched {order}"


def book(order: int) -> str:
    """Book."""
    return f"booked {order}"


async def begin(event: InputEvent, ctx: RunnerContext) -> None:
    number = event.input[1]
    config = ctx.config
    answer = await ctx.durable_execute_async(
        wait, config.get("ledger"), config.get("gate"), number, ctx.plan_version, name="wait"
    )
    ctx.send_event(Event(type="answered", attributes={"number": number, "said": answer, "began": ctx.plan_version}))


def emit(event: Event, ctx: RunnerContext, teller: str) -> None:
    tools = []
    for name in TOOLS:
        try:
            tools.append(ctx.get_resource(name, ResourceType.TOOL).call(order=1))
        except UnknownResourceError:
            continue
    number = event.get_attr("number")
    prompt = ctx.get_resource("prompt", ResourceType.PROMPT).format_string(number=str(number))
    made = {"number": number, "key": ctx.key, "began": event.get_attr("began"), "ended": ctx.plan_version}
    ctx.send_event(OutputEvent({**made, "prompt": prompt, "tools": tools, "teller": teller}))


def tell(event: Event, ctx: RunnerContext) -> None:
    emit(event, ctx, "tell")


def shout(event: Event, ctx: RunnerContext) -> None:
    emit(event, ctx, "shout")


def version(number: int) -> Agent:
    """Prompt, tools, and who is triggered by the answer."""
    agent = Agent().add_resource("prompt", ResourceType.PROMPT, Prompt.from_text(f"v{number}: {{number}}"))
    for tool in {1: (look_up, search), 2: (search, book)}[number]:
        agent.add_resource(tool.__name__, ResourceType.TOOL, Tool.from_callable(tool))
    agent.add_action("begin", [InputEvent], begin)
    agent.add_action("tell", ["answered" if number == 1 else "never"], tell)
    return agent.add_action("shout", ["answered" if number == 2 else "never"], shout)


def plan_text(spec: dict[str, Any]) -> list[str]:
    """Digest and JSON of a version, on one line."""
    import json

    plan = AgentPlan.from_agent(version(spec["version"]), agent_name=NAME)
    return [plan.digest, json.dumps(json.loads(plan.to_json()))]


def renamed() -> Agent:
    """Version 1 with ``begin`` under another name, which says so."""
    agent = Agent().add_resource("prompt", ResourceType.PROMPT, Prompt.from_text("renamed: {number}"))
    agent.add_action("start", [InputEvent], begin, aliases=["begin"])
    return agent.add_action("shout", ["answered"], shout)


AGENTS = {"1": lambda: version(1), "renamed": renamed}


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: count, keys, per_second, gate, ledger, outputs; plans (a file or a folder), agent, config."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    config = agents.get_config()
    for key, value in {"max-in-flight": 4000, "max-queued": 2000, **spec.get("config", {})}.items():
        config.set(key, value)
    config.set("ledger", spec["ledger"])
    config.set("gate", spec["gate"])
    plans: Any = None
    if spec.get("plans"):
        plans = PlanFile(spec["plans"], interval_s=0.2)
        if Path(spec["plans"]).is_dir():
            lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), spec["plans"])
            source = lines.monitor_continuously(Duration.of_millis(200)).build()
            plans = env.from_source(source, WatermarkStrategy.no_watermarks(), "plans").uid("plans")
    records = numbers(env, spec["count"], spec["keys"], spec["per_second"], forever=True)
    built = agents.from_datastream(records, key_of, event_time=spec.get("event_time", False))
    built.apply(AGENTS[spec.get("agent", "1")](), agent_name=NAME, updates=plans)
    if plans is None:
        append_to(built.to_datastream(), spec["outputs"])
    else:
        stream = built.to_datastream(plan_version=True)
        append_to(stream.map(lambda pair: {"version": pair[0], **pair[1]}), spec["outputs"])
        append_to(built.side_output(DEAD_LETTERS), f"{spec['outputs']}.letters", "letters")
