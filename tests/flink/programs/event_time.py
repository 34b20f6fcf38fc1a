"""Pipelines with event time: a source with watermarks, a slow agent, windows behind it, and a look at what arrives.

Every input is ``(key, number)`` with the timestamp ``number * STEP_MS``; every output takes its number to a window.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

from pyflink.common import Duration, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.window import TumblingEventTimeWindows

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from tests.flink.programs.chain import fail_once
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import numbers, silence
from tests.flink.programs.table_windows import table_windows

STEP_MS = 100
WINDOW_MS = 1000
START_MS = 1_700_000_000_000


async def think(number: int, seconds: float) -> float:
    """A call that takes a while: the same for a number every time, different from number to number."""
    import asyncio

    await asyncio.sleep(seconds * random.Random(number).random())
    return time.time() * 1000


class SlowAgent(Agent):
    """One call; its output leaves from a timer, long after the input's watermark has come."""

    @action(InputEvent)
    @staticmethod
    async def answer(event: InputEvent, ctx: RunnerContext) -> None:
        key, number = event.input[0], event.input[1]
        if number == ctx.config.get("fail-at"):
            fail_once(ctx.config.get("marker"))
        at = await ctx.durable_execute_async(think, number, ctx.config.get("seconds"))
        ctx.send_event(OutputEvent(Row(key=key, number=number, rowtime=at)))
        if number % 3 == 0:
            ctx.side_output("thirds", number)


class Ages(TimestampAssigner):
    """The timestamp of an input; they are a little out of order."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return timestamp_of(value[1])


def timestamp_of(number: int) -> int:
    return START_MS + (number ^ 1) * STEP_MS


class Sum(ProcessWindowFunction):
    """Numbers of a window, and when it fired."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[dict[str, Any]]:
        values = sorted(element[1] for element in elements)
        yield {"kind": "window", "key": key, "start": context.window().start, "numbers": values}


class Look(KeyedProcessFunction):
    """What a record brings with it: its timestamp, and the watermark it comes behind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def process_element(self, value: Any, ctx: Any) -> Iterator[dict[str, Any]]:
        number = value if isinstance(value, int) else value[1]
        watermark = ctx.timer_service().current_watermark()
        yield {"kind": self._kind, "number": number, "timestamp": ctx.timestamp(), "watermark": watermark}


class Watermarks(KeyedProcessFunction):
    """Every watermark that comes by: a timer waits behind the present one, always."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[dict[str, Any]]:
        service = ctx.timer_service()
        service.register_event_time_timer(max(service.current_watermark() or 0, 0) + 1)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[dict[str, Any]]:
        watermark = ctx.timer_service().current_watermark()
        if watermark < 2**62:
            ctx.timer_service().register_event_time_timer(watermark + 1)
            yield {"kind": "watermark", "watermark": watermark}


def source(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> DataStream:
    """Rows with timestamps and watermarks; ``idle``: beside a source that never says a word, and is marked idle."""
    ordered = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2 * STEP_MS))
    strategy = ordered.with_timestamp_assigner(Ages())
    rows = numbers(
        env,
        spec["count"],
        spec["keys"],
        spec["per_second"],
        per_checkpoint=spec.get("per_checkpoint", 0),
        forever=spec.get("forever", False),
    )
    stream = rows.assign_timestamps_and_watermarks(strategy).set_parallelism(1).uid("timestamps")
    if spec.get("idle"):
        silent = strategy.with_idleness(Duration.of_millis(300))
        stream = stream.union(silence(env, "idle").assign_timestamps_and_watermarks(silent).set_parallelism(1))
    return stream


def output_type(*, packed: bool) -> Any:
    """Made anew for each use: once Java has seen it, a type cannot be pickled any more."""
    if packed:
        return Types.PICKLED_BYTE_ARRAY()
    return Types.ROW_NAMED(["key", "number", "rowtime"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])


def look_at(stream: DataStream, kind: str) -> DataStream:
    return (
        stream.key_by(lambda _: "all", key_type=Types.STRING())
        .process(Look(kind), Types.PICKLED_BYTE_ARRAY())
        .uid(f"look {kind}")
    )


def windows(env: StreamExecutionEnvironment, stream: DataStream, spec: dict[str, Any]) -> DataStream:
    """What windows there are of a second each, and the records that come too late for one of PyFlink's."""
    if spec.get("restores"):
        return table_windows(env, stream)
    late = OutputTag("late", output_type(packed=spec.get("packed", False)))
    fired = (
        stream.key_by(lambda row: row[0], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .side_output_late_data(late)
        .process(Sum(), Types.PICKLED_BYTE_ARRAY())
        .uid("windows")
    )
    told = fired.get_side_output(late).map(lambda row: {"kind": "late", "number": row[1]}, Types.PICKLED_BYTE_ARRAY())
    return fired.union(told)


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: count, keys, per_second, seconds, outputs; how the source goes on (per_checkpoint, idle, forever);
    packed; fail_at, marker; restores (the job is one that is restored); config.
    """
    env.get_config().set_auto_watermark_interval(20)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    config = agents.get_config()
    config.set("seconds", spec["seconds"])
    config.set("fail-at", spec.get("fail_at", -1))
    config.set("marker", spec.get("marker", ""))
    for key, value in spec.get("config", {}).items():
        config.set(key, value)
    event_time = spec.get("event_time", True)
    built = agents.from_datastream(source(env, spec), lambda row: row[0], Types.STRING(), event_time=event_time)
    built.apply(SlowAgent(), side_outputs={"thirds": Types.LONG()})
    if not event_time:  # windows would refuse records without timestamps
        append_to(look_at(built.to_datastream(output_type(packed=True)), "output"), spec["outputs"], "append looks")
        return
    stream = built.to_datastream(output_type(packed=spec.get("packed", False)))
    append_to(windows(env, stream, spec), spec["outputs"], "append windows")
    append_to(look_at(stream, "output"), spec["outputs"], "append looks")
    append_to(look_at(built.side_output("thirds"), "third"), spec["outputs"], "append thirds")
    watermarks = stream.key_by(lambda _: "all", key_type=Types.STRING()).process(
        Watermarks(), Types.PICKLED_BYTE_ARRAY()
    )
    append_to(watermarks.uid("watermarks"), spec["outputs"], "append watermarks")
