"""The job around the operator, the same for every engine: numbers -> rows -> key -> operator -> discarding sink."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyflink.common import Configuration, Row, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.java_gateway import get_gateway

from jobs.benchmarks.chat import IN_FLIGHT
from jobs.benchmarks.workloads import POOL_THREADS, WORKLOADS

if TYPE_CHECKING:
    from pyflink.datastream import DataStream, KeyedProcessFunction

    from jobs.benchmarks.run import RunSpec

ROOT = Path(__file__).resolve().parents[2]


def record_type() -> Any:
    """Type of the records before and after the operator: (key, number)."""
    return Types.ROW([Types.STRING(), Types.LONG()])


def execute(spec: RunSpec) -> None:
    """Run one job to its end; the figures are written by the gauge inside it."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration(spec.mode))
    env.set_parallelism(spec.parallelism)
    keys = spec.keys
    source = env.from_source(NumberSequenceSource(0, spec.n - 1), WatermarkStrategy.no_watermarks(), "numbers").map(
        lambda number: Row(str(number % keys), number), output_type=record_type()
    )
    if spec.event_time is not None:
        source = source.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(NumberAsTime())
        )
    if spec.engine == "agent":
        result = _with_agent(env, source, spec)
    elif spec.engine == "async":
        result = _with_async_data_stream(source)
    else:
        keyed = source.key_by(_key_of, key_type=Types.STRING())
        result = keyed.process(_raw_function(spec), output_type=record_type())
    sink = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    result._j_data_stream.sinkTo(sink)  # noqa: SLF001 - PyFlink does not wrap this sink
    env.execute(f"benchmark {spec.workload} {spec.engine}")


def configuration(mode: str) -> Configuration:
    """What all engines run with, spelled out so that no engine gets a default the other does not have."""
    options = {
        "python.execution-mode": mode,
        # Flink would take `python` from PATH, which need not be this interpreter (facts 1 and 2).
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.pythonpath": os.pathsep.join([sysconfig.get_paths()["purelib"], str(ROOT)]),
        "python.fn-execution.bundle.size": "1000",
        "python.fn-execution.bundle.time": "10",
        "execution.buffer-timeout.interval": "10 ms",
        "state.backend.type": "hashmap",
    }
    conf = Configuration()
    for key, value in options.items():
        conf.set_string(key, value)
    return conf


class NumberAsTime(TimestampAssigner):  # type: ignore[misc]
    """The record's number as its event time in ms."""

    def extract_timestamp(self, value: Row, record_timestamp: int) -> int:  # noqa: ARG002, D102 - Flink's signature
        number: int = value[1]
        return number


def _key_of(record: Row) -> str:
    key: str = record[0]
    return key


def _raw_function(spec: RunSpec) -> KeyedProcessFunction:
    from jobs.benchmarks import raw, raw_io

    if spec.workload == "chat":
        from jobs.benchmarks import raw_chat

        return (raw_chat.BareChatPump if spec.engine == "bare" else raw_chat.SdkChatPump)(spec.mode, pooled=False)
    program = WORKLOADS[spec.workload].raw
    if program == "echo":
        return raw.Echo()
    if program == "counter":
        return raw.Counter()
    if program == "memory10":
        return raw.Memory10()
    return raw_io.Pump(spec.mode, pooled=program == "io_sync_pool")


def _with_agent(env: StreamExecutionEnvironment, source: DataStream, spec: RunSpec) -> DataStream:
    from flink_agents_py import AgentsExecutionEnvironment

    agents_env = AgentsExecutionEnvironment.get_execution_environment(env)
    if spec.workload == "chat":
        agents_env.get_config().set("max-in-flight", IN_FLIGHT)
    if spec.workload == "io_sync_pool":
        agents_env.get_config().set("num-async-threads", POOL_THREADS)
    if spec.store != "none":
        config = agents_env.get_config()
        config.set("action-state-store.backend", spec.store)
        config.set("action-state-store.url", spec.store_url)
        # Each run is a job of its own: what an earlier one has recorded would be taken for done.
        config.set("job-identifier", f"benchmark-{uuid4()}")
    if spec.event_log != "OFF":
        folder = tempfile.mkdtemp(prefix="flink-agents-bench-log-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        agents_env.get_config().set("event-log.level", spec.event_log)
        agents_env.get_config().set("event-log.directory", folder)
    builder = agents_env.from_datastream(source, _key_of, key_type=Types.STRING(), event_time=spec.event_time == "hold")
    result: DataStream = builder.apply(_agent(spec.workload)()).to_datastream(record_type())
    return result


def _agent(workload: str) -> Any:
    if workload == "chat":
        from jobs.benchmarks.chat_agent import ChatAgent

        return ChatAgent
    if workload.startswith("cel-"):
        from jobs.benchmarks.cel_agents import CEL_AGENTS

        return CEL_AGENTS[workload.removeprefix("cel-")]
    from jobs.benchmarks.agents import AGENTS

    return AGENTS[workload]


def _with_async_data_stream(source: DataStream) -> DataStream:
    from jobs.benchmarks.async_io import with_async_calls

    return with_async_calls(source, record_type())
