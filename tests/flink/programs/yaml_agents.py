"""An agent of a YAML file, with conditions as triggers."""

from __future__ import annotations

from typing import Any

from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import AgentsExecutionEnvironment, Event, InputEvent, OutputEvent, RunnerContext
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import key_of, numbers

FILE = """
agents:
  - name: sorter
    actions:
      - name: even
        function: tests.flink.programs.yaml_agents:even
        trigger_conditions: ["type == EventType.InputEvent && input[1] % 2 == 0"]
      - name: large
        function: tests.flink.programs.yaml_agents:large
        trigger_conditions: ["number >= ${large}", "type == 'halved' && 'odd' in marks"]
      - name: broken
        function: tests.flink.programs.yaml_agents:large
        trigger_conditions: ["input[1].missing == 1"]
"""


class Halved(Event):
    """Half of an even number."""

    EVENT_TYPE = "halved"

    number: int
    marks: list[str]


def even(event: InputEvent, ctx: RunnerContext) -> None:
    """Halve it."""
    half = event.input[1] // 2
    ctx.send_event(Halved(number=half, marks=["odd"] if half % 2 else []))


def large(event: Event, ctx: RunnerContext) -> None:
    """Say it."""
    ctx.send_event(OutputEvent({"type": event.type, "number": event.get_attr("number")}))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: count, keys, file, large, outputs."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    agents.load_yaml(spec["file"], values={"large": spec["large"]})
    stream = agents.from_datastream(numbers(env, spec["count"], spec["keys"]), key_of)
    append_to(stream.apply("sorter").to_datastream(), spec["outputs"])
