"""Values of many types through agents: as inputs, keys, arguments, results, memory, waiting inputs and outputs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from tests.flink.programs.sinks import append_to


class Reading(BaseModel):
    """A pydantic model."""

    sensor: str
    value: float


@dataclass(frozen=True)
class Point:
    """A dataclass."""

    x: int
    y: int


NAMED = Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.LONG()])
NESTED = Types.ROW([Types.STRING(), Types.ROW([Types.LONG(), Types.LIST(Types.STRING())])])

INPUTS: dict[str, tuple[list[Any], Any]] = {
    "row": ([Row("a", number) for number in range(3)], Types.ROW([Types.STRING(), Types.LONG()])),
    "named row": ([Row(name="a", number=number) for number in range(3)], NAMED),
    "nested row": ([Row("a", Row(number, ["x", str(number)])) for number in range(3)], NESTED),
    "dict": ([{"number": number, "of": [None, {"deep": (1, 2)}]} for number in range(3)], None),
    "str": (["", "ü \0 '", "c"], Types.STRING()),
    "int": ([0, -1, 2**40], Types.LONG()),
    "float": ([0.5, -0.0, 1e300], Types.DOUBLE()),
    "bytes": ([b"", b"\0\xff", b"c"], None),
    "none": ([None, None, None], None),
    "pydantic": ([Reading(sensor="a", value=number) for number in range(3)], None),
    "dataclass": ([Point(number, 2) for number in range(3)], None),
}

KEYS: dict[str, tuple[Any, Any]] = {
    "str": ("k", Types.STRING()),
    "inferred str": ("k", None),
    "int": (7, Types.LONG()),
    "bool": (True, bool),
    "tuple": (("k", 7), None),
    "pickled str": ("k", Types.PICKLED_BYTE_ARRAY()),
    "row": (Row("k", 7), Types.ROW([Types.STRING(), Types.LONG()])),
    "bytes": (b"k", Types.PICKLED_BYTE_ARRAY()),
}

HELD = {"int", "tuple"}  # the cases that hold the watermark, of those whose keys can

OUTPUTS: dict[str, tuple[Any, Any]] = {
    "named row": (Row(name="a", number=1), NAMED),
    "str": ("a", Types.STRING()),
    "python int": (5, int),
    "python float": (0.5, float),
    "python dict": ({"a": [1, None]}, dict),
    "pydantic": (Reading(sensor="a", value=1), Reading),
    "dataclass": (Point(1, 2), Point),
    "anything": ({"a": Point(1, 2)}, None),
}


async def give_back(value: Any) -> Any:
    """The argument, a moment later."""
    await asyncio.sleep(0.02)
    return value


def described(value: Any) -> str:
    """What must not change on the way (Flink names the fields of a nameless row f0, f1, ...)."""
    if isinstance(value, Row):
        return f"Row({', '.join(described(item) for item in value)})"
    return f"{type(value).__name__} {value!r}"


class ShapesAgent(Agent):
    """Tells what it got, what a durable call made of it, and what it finds in memory of the input before."""

    @action(InputEvent)
    @staticmethod
    async def look(event: InputEvent, ctx: RunnerContext) -> None:
        given = event.input
        back = await ctx.durable_execute_async(give_back, given)
        memory = ctx.short_term_memory
        earlier = described(memory.get("value")) if memory.is_exist("value") else None
        memory.set("value", given)
        result = {
            "case": ctx.config.get("case"),
            "key": described(ctx.key),
            "sequence": ctx.sequence,
            "moment": [ctx.timestamp, ctx.watermark],
            "given": described(given),
            "back": described(back),
            "earlier": earlier,
        }
        ctx.send_event(OutputEvent(result))


class ConstantAgent(Agent):
    """Emits what it was made with, for every input."""

    @action(InputEvent)
    @staticmethod
    def emit(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(OUTPUTS[ctx.config.get("case")][0]))


class SidesAgent(Agent):
    """Main and side outputs, failures set aside and skipped."""

    @action(InputEvent, on_error="dead_letter")
    @staticmethod
    async def split(event: InputEvent, ctx: RunnerContext) -> None:
        number = await ctx.durable_execute_async(give_back, event.input)
        if number == 3:
            raise ValueError("three is no number")
        if number % 2:
            ctx.side_output("odd", number)
        ctx.send_event(OutputEvent(number))

    @action(InputEvent, on_error="skip")
    @staticmethod
    def stumble(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(100 + event.input))
        if event.input == 1:
            raise SystemExit


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: outputs; cases: ``inputs``, ``keys``, ``outputs``, ``sides`` or ``undeclared``, the job's pipelines."""
    cases = {"inputs": _inputs, "keys": _keys, "outputs": _outputs, "sides": _sides, "undeclared": _undeclared}
    cases[spec["cases"]](env, spec["outputs"])


def _inputs(env: StreamExecutionEnvironment, path: str) -> None:
    for case, (values, declared) in INPUTS.items():
        _apply(env, path, case, env.from_collection(values, declared), lambda _: "one", Types.STRING())


def _keys(env: StreamExecutionEnvironment, path: str) -> None:
    for case, (key, declared) in KEYS.items():
        if case == "inferred str":

            def selector(_: Any, key: str = key) -> str:
                return key

            _apply(env, path, case, env.from_collection([1, 2, 3], Types.LONG()), selector, declared)
        else:
            stream = env.from_collection([1, 2, 3], Types.LONG())
            _apply(env, path, case, stream, lambda _, key=key: key, declared)


def _apply(env: StreamExecutionEnvironment, path: str, case: str, stream: Any, selector: Any, key_type: Any) -> None:
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    agents.get_config().set("case", case)
    applied = agents.from_datastream(stream, selector, key_type, event_time=case in HELD).apply(
        ShapesAgent(), agent_name=case
    )
    append_to(applied.to_datastream(), path, f"append {case}")


def _outputs(env: StreamExecutionEnvironment, path: str) -> None:
    for case, (_, declared) in OUTPUTS.items():
        agents = AgentsExecutionEnvironment.get_execution_environment(env)
        agents.get_config().set("case", case)
        applied = agents.from_datastream(env.from_collection([1], Types.LONG()), lambda _: "one")
        stream = applied.apply(ConstantAgent(), agent_name=case).to_datastream(declared)
        told = stream.map(lambda value, case=case: {"case": case, "got": described(value)})
        append_to(told, path, f"append {case}")


def _sides(env: StreamExecutionEnvironment, path: str) -> None:
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    applied = agents.from_datastream(env.from_collection(list(range(6)), Types.LONG()), lambda number: number)
    applied.apply(SidesAgent(), side_outputs={"odd": Types.LONG()})
    append_to(applied.to_datastream(int).map(lambda number: {"case": "main", "got": number}), path, "append main")
    append_to(applied.side_output("odd").map(lambda number: {"case": "odd", "got": number}), path, "append odd")
    letters = applied.side_output("dead-letters").map(lambda letter: {"case": "dead letter", "got": letter})
    append_to(letters, path, "append letters")


def _undeclared(env: StreamExecutionEnvironment, path: str) -> None:
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    applied = agents.from_datastream(env.from_collection([1], Types.LONG()), lambda number: number)
    append_to(applied.apply(SidesAgent()).to_datastream(int), path, "append main")
