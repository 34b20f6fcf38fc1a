"""A step that gives out much at once, to an agent and past it; a sink that reads both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from pyflink.common import Configuration, Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import numbers

PAST = OutputTag("past", Types.PICKLED_BYTE_ARRAY())


class Echo(Agent):
    """Says which number its input has."""

    @action(InputEvent)
    @staticmethod
    def echo(event: InputEvent, ctx: RunnerContext) -> None:
        """Nothing else."""
        ctx.send_event(OutputEvent({"number": event.input["number"], "payload": event.input["payload"]}))


class Spread(ProcessFunction):
    """Many records for each that comes; one of them goes past the agent."""

    def __init__(self, many: int, payload: int) -> None:
        self._many = many
        self._payload = payload

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        first = value[1] * self._many
        for number in range(first, first + self._many - 1):
            yield {"number": number, "payload": "x" * self._payload}
        yield PAST, {"number": first + self._many - 1}


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> AgentsExecutionEnvironment:
    """Spec: count, per_second, many (for each of them), payload (characters), outputs; joined: one sink for both;
    asked: the option.
    """
    env.set_parallelism(2)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    if "asked" in spec:
        agents.get_config().set("unaligned-checkpoints", spec["asked"])
    spread = (
        numbers(env, spec["count"], 1, spec["per_second"])
        .process(Spread(spec["many"], spec["payload"]), Types.PICKLED_BYTE_ARRAY())
        .set_parallelism(1)
        .name("spread")
        .uid("spread")
    )
    built = agents.from_datastream(spread, lambda record: record["number"] % 50, Types.LONG()).apply(Echo())
    echoed, past = built.to_datastream(Types.PICKLED_BYTE_ARRAY()), spread.get_side_output(PAST)
    if spec["joined"]:
        append_to(echoed.union(past).map(bare, Types.PICKLED_BYTE_ARRAY()).name("join"), spec["outputs"])
    else:
        append_to(echoed.map(bare, Types.PICKLED_BYTE_ARRAY()), spec["outputs"])
        append_to(past, spec["outputs"], "append past")
    return agents


def bare(record: dict[str, Any]) -> dict[str, Any]:
    """Without what makes it long."""
    return {"number": record["number"]}


def chosen(spec: dict[str, Any]) -> list[bool]:
    """Whether checkpoints are unaligned: as soon as the pipeline is built, and once ``agents.execute`` has seen it.

    Spec: mode, and what ``build`` takes; nothing runs.
    """
    flink = Configuration()
    flink.set_string("python.execution-mode", spec["mode"])
    env = StreamExecutionEnvironment.get_execution_environment(flink)
    agents = build(env, spec)
    answers = [agents.settings()]
    with patch.object(env, "execute", lambda: answers.append(agents.settings())):
        agents.execute()
    return [settings["execution.checkpointing.unaligned.enabled"] == "true" for settings in answers]
