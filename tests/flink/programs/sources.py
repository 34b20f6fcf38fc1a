"""The replayable sources of the programs: numbers as (key, number) rows."""

from __future__ import annotations

from typing import Any

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors import Source
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.java_gateway import get_gateway

ROW = Types.ROW([Types.STRING(), Types.LONG()])


def key_of_number(number: int, keys: int) -> str:
    return f"key {number % keys}"


def key_of(record: Any) -> str:
    return str(record[0])


def numbers(
    env: StreamExecutionEnvironment,
    count: int,
    keys: int,
    per_second: float = 0,
    *,
    per_checkpoint: int = 0,
    forever: bool = False,
) -> DataStream:
    """Numbers from 0, as fast as possible or at a rate; ``forever``: the stream does not end with the last of them.

    ``per_checkpoint``: so many, then none before a checkpoint; a job without checkpoints is stopped there for certain.

    Parallelism 1 whatever the job's, so that the inputs of a key are in order.
    """
    rates = _jvm().org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy
    if per_checkpoint:
        source = _generator([str(number) for number in range(count)], rates.perCheckpoint(per_checkpoint))
    elif per_second:
        source = _generator([str(number) for number in range(count)], rates.perSecond(float(per_second)))
    else:
        source = NumberSequenceSource(0, count - 1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(1).uid("numbers")
    rows = (
        stream.map(lambda number: Row(key_of_number(int(number), keys), int(number)), ROW)
        .set_parallelism(1)
        .uid("rows")
        .name("rows")
    )
    return rows.union(silence(env)) if forever else rows


def silence(env: StreamExecutionEnvironment, name: str = "silence") -> DataStream:
    """A source that is alive and says nothing: what it generates, one record a checkpoint, is dropped at once."""
    rates = _jvm().org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy
    silent = _generator(["nothing"] * 1000, rates.perCheckpoint(1))
    nothing = "nothing" if name == "silence" else f"nothing of {name}"
    return (
        env.from_source(silent, WatermarkStrategy.no_watermarks(), name)
        .set_parallelism(1)
        .uid(name)
        .flat_map(lambda _: (), ROW)
        .set_parallelism(1)
        .uid(nothing)
        .name(nothing)
    )


def _jvm() -> Any:
    return get_gateway().jvm


def _generator(texts: list[str], rate: Any) -> Source:
    """Texts, held back in Java.

    A Python map that sleeps would do in thread mode; in process mode a bundle of hundreds of records waits in front of
    it, and the barrier behind them.
    """
    jvm = _jvm()
    elements = jvm.java.util.ArrayList()
    for text in texts:
        elements.add(text)
    text_type = Types.STRING().get_java_type_info()
    config = jvm.org.apache.flink.api.common.ExecutionConfig()
    generate = jvm.org.apache.flink.connector.datagen.functions.FromElementsGeneratorFunction(
        text_type, config, elements
    )
    generator = jvm.org.apache.flink.connector.datagen.source.DataGeneratorSource
    return Source(generator(generate, len(texts), rate, text_type))
