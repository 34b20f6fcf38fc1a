"""The agent whose savepoints are kept: suspended runs, waiting inputs, journals, and memory with every type of value.

Each of the first keys gets the inputs 0 to 3: the first one fills the memory and finishes, the second one suspends in
the middle, the others wait behind it. The last key gets 0 alone and rests.
"""

from __future__ import annotations

import asyncio
import enum
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import BaseModel
from pyflink.common import Row, Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment

from flink_agents_py import (
    Agent,
    AgentsExecutionEnvironment,
    Event,
    InputEvent,
    MemoryObject,
    MemoryRef,
    OutputEvent,
    RunnerContext,
    action,
)
from flink_agents_py.serde import encode
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import ROW, numbers
from tests.support.ledger import append

KEYS = 3
SUSPENDED = KEYS - 1
KINDS: dict[str, tuple[Any, Any]] = {
    "text": (Types.STRING(), lambda record: record[0]),
    "number": (Types.LONG(), lambda record: int(record[0].removeprefix("key "))),
    "pickled": (Types.PICKLED_BYTE_ARRAY(), lambda record: ("key", record[0])),
}
"""Key types, and keys of them."""


class Colour(enum.Enum):
    """An enum."""

    RED = "r"


@dataclass
class Point:
    """A dataclass."""

    x: int
    y: Any


@dataclass
class Retired:
    """A dataclass that will not be there any more."""

    name: str


class Place(NamedTuple):
    """A named tuple."""

    lat: float
    lon: float


class Reading(BaseModel):
    """A pydantic model."""

    sensor: str
    points: list[Any]


class Noted(Event):
    """From the action that begins to the one that suspends."""

    point: Any


VALUES: dict[str, Any] = {
    "plain.none": None,
    "plain.true": True,
    "plain.int": -(2**70),
    "plain.float": 0.1,
    "plain.text": "naïve 日本 🜁 \x00",
    "plain.list": [1, [2.0, None], {"a": "b"}],
    "plain.dict": {"$t": "no tag", "nested": {"": []}},
    "typed.bytes": b"\x00\xff",
    "typed.tuple": (1, ("x",)),
    "typed.set": {1, 2},
    "typed.frozenset": frozenset({"a"}),
    "typed.int_keys": {1: "a", (2, 3): "b"},
    "typed.datetime": datetime(2026, 11, 30, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=2))),
    "typed.naive": datetime(2026, 11, 30, 12, fold=1),  # noqa: DTZ001 - one without a zone is the point
    "typed.date": date(2026, 11, 30),
    "typed.time": time(23, 59, 59, 999999),
    "typed.timedelta": timedelta(days=-1, microseconds=1),
    "typed.decimal": Decimal("1.10"),
    "typed.uuid": UUID(int=7),
    "typed.enum": Colour.RED,
    "classes.dataclass": Point(1, Point(2, b"x")),
    "classes.named_tuple": Place(51.05, 3.72),
    "classes.pydantic": Reading(sensor="a", points=[Point(1, 2)]),
    "classes.ref": MemoryRef("plain.int"),
    "classes.row": Row(name="x", number=1),
    "classes.retired": Retired("x"),
    r"names.with\.dot.and\\backslash": "escaped",
    "names.日本": "x",
    "large": "x" * 5_000,
}


def ask(ledger: str, question: str, *, hangs: bool, idempotency_key: str) -> Any:
    """A durable call: one line in the ledger; "broken" raises."""
    append(ledger, question=question, idempotency_key=idempotency_key)
    if question == "broken":
        raise ValueError("no answer", 42)
    return f"answer to {question}"


async def ask_slowly(ledger: str, question: str, *, hangs: bool, idempotency_key: str) -> Any:
    """The same, or for ever."""
    result = ask(ledger, question, hangs=hangs, idempotency_key=idempotency_key)
    if hangs:
        await asyncio.Event().wait()
    return result


class KeepsakeAgent(Agent):
    """See the module."""

    @action(InputEvent)
    @staticmethod
    def begin(event: InputEvent, ctx: RunnerContext) -> None:
        memory = ctx.short_term_memory
        number = event.input[1]
        if number == 0:
            for path, value in VALUES.items():
                memory.set(path, value)
            memory.new_object("empty")
            memory.set("gone.with.all", 1)
            memory.delete("gone")
        elif number == 1:
            memory.set("since.suspended", 1)
            ctx.sensory_memory.set("thoughts.point", Point(3, "of this run"))
            ctx.send_event(Noted(point=Point(4, (5,))))
            ctx.send_event(Event(type="later", attributes={"raw": b"\x01"}))
        report(ctx, f"input {number}", memory=describe(memory) if number != 1 else None)

    @action(Noted)
    @staticmethod
    async def suspend(event: Noted, ctx: RunnerContext) -> None:
        calls = {
            function: functools.partial(function, ctx.config.get("ledger"), hangs=ctx.config.get("hangs"))
            for function in (ask, ask_slowly)
        }
        answers = [await ctx.durable_execute_async(calls[ask], f"first of {ctx.key}", name="ask")]
        try:
            await ctx.durable_execute_async(calls[ask], "broken", name="ask")
        except ValueError as error:
            answers.append(repr(error))
        answers.append(await ctx.durable_execute_async(calls[ask_slowly], f"second of {ctx.key}", name="ask_slowly"))
        ctx.short_term_memory.set("after.suspension", answers)
        report(
            ctx,
            "noted",
            answers=answers,
            point=encode(event.point),
            thought=encode(ctx.sensory_memory.get("thoughts.point")),
        )

    @action("later")
    @staticmethod
    def later(event: Event, ctx: RunnerContext) -> None:
        report(ctx, "later", raw=encode(event.get_attr("raw")), id=str(event.id))


class RetiredAgent(KeepsakeAgent):
    """Reads a value whose class is not there any more."""

    @action(InputEvent)
    @staticmethod
    def begin(event: InputEvent, ctx: RunnerContext) -> None:
        hidden = globals().pop("Retired")
        try:
            ctx.short_term_memory.get("classes.retired")
        finally:
            globals()["Retired"] = hidden


def describe(memory: MemoryObject) -> dict[str, str]:
    """All there is, as text that tells types apart."""
    described = {}
    for name, value in memory.get_fields().items():
        if isinstance(value, MemoryObject):
            below = describe(value)
            described.update({f"{name}/{path}": text for path, text in below.items()} if below else {f"{name}/": ""})
        else:
            described[name] = encode(value)
    return described


def report(ctx: RunnerContext, what: str, **content: Any) -> None:
    """An output."""
    ctx.send_event(OutputEvent({"key": encode(ctx.key), "sequence": ctx.sequence, "what": what, **content}))


def first_inputs(record: Row) -> Iterator[Row]:
    """0 to 3 for the keys that will be suspended; 0 for the other, after all of those."""
    number = record[1] // KEYS
    if record[0] != f"key {SUSPENDED}":
        yield Row(record[0], number)
    elif number == 3:
        yield Row(record[0], 0)


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: ledger, outputs; keys (what kind), first (or the inputs after the restore), config, agent, hangs."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    config = agents.get_config()
    config.set("ledger", spec["ledger"])
    config.set("hangs", spec.get("hangs", spec["first"]))
    for key, value in spec.get("config", {}).items():
        config.set(key, value)
    key_type, key_of = KINDS[spec["keys"]]
    agent = {"keepsake": KeepsakeAgent, "retired": RetiredAgent}[spec.get("agent", "keepsake")]()
    built = agents.from_datastream(_inputs(env, first=spec["first"]), key_of, key_type, event_time=False)
    append_to(built.apply(agent, agent_name="keepsake").to_datastream(), spec["outputs"])


def _inputs(env: StreamExecutionEnvironment, *, first: bool) -> DataStream:
    if first:
        return numbers(env, KEYS * 4, KEYS, forever=True).flat_map(first_inputs, ROW).set_parallelism(1)
    # Another source, which does not go on where the savepoint's one had come to.
    return env.from_collection([Row(f"key {number}", 4) for number in range(KEYS)], ROW)
