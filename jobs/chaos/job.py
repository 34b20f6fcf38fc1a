"""The chaos job as a script for ``flink run``: ``job.py SPEC_FILE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Row, Types, WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors import Source
from pyflink.java_gateway import get_gateway

from flink_agents_py import AgentsExecutionEnvironment
from flink_agents_py.resources.base import ResourceDescriptor
from jobs.chaos.agent import CONNECTION, ChaosAgent, Service
from jobs.chaos.records import append


def numbers(env: StreamExecutionEnvironment, count: int, keys: int, per_second: float) -> DataStream:
    """``(key, number)`` for the numbers from 0, at a rate; replayed from the last checkpoint after a failure."""
    jvm = get_gateway().jvm
    texts = jvm.java.util.ArrayList()
    for number in range(count):
        texts.add(str(number))
    text = Types.STRING().get_java_type_info()
    config = jvm.org.apache.flink.api.common.ExecutionConfig()
    generate = jvm.org.apache.flink.connector.datagen.functions.FromElementsGeneratorFunction(text, config, texts)
    rate = jvm.org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy.perSecond(float(per_second))
    source = Source(jvm.org.apache.flink.connector.datagen.source.DataGeneratorSource(generate, count, rate, text))
    # Parallelism 1, so that the inputs of a key are in order.
    return (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .set_parallelism(1)
        .map(lambda number: Row(f"key {int(number) % keys}", int(number)), Types.ROW([Types.STRING(), Types.LONG()]))
        .set_parallelism(1)
    )


def append_to(stream: DataStream, path: str) -> None:
    """Add the stream's records to a file; a restart repeats those since the last checkpoint."""

    def write(record: dict[str, Any]) -> bool:
        append(path, **record)
        return True

    written = stream.map(write, output_type=Types.BOOLEAN())
    sink = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    written._j_data_stream.sinkTo(sink)  # noqa: SLF001 - PyFlink does not wrap this sink


def main() -> None:
    """Submit the job."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    configuration = Configuration()
    for key, value in spec["flink"].items():
        configuration.set_string(key, str(value))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    for key, value in spec["agent"].items():
        agents.get_config().set(key, value)
    service = ResourceDescriptor(Service, ledger=spec["ledger"], seconds=spec["call_seconds"])
    agent = ChaosAgent()
    agent.add_resource("service", CONNECTION, service)
    stream = numbers(env, spec["count"], spec["keys"], spec["rate"])
    built = agents.from_datastream(stream, lambda record: str(record[0]), event_time=False).apply(agent)
    append_to(built.to_datastream(), spec["outputs"])
    append_to(built.side_output("dead-letters"), spec["dead_letters"])
    env.execute("chaos")


if __name__ == "__main__":
    main()
