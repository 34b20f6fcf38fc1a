"""A source that is far ahead of slow calls: what does the backlog cost? ``python -m jobs.benchmarks.backlog --help``.

Prints a curve, one JSON object a line: ``seconds`` since the first input, ``accepted`` (inputs the agent's subtask has
taken in; Flink tells some seconds late), ``done``, ``in_flight`` (calls right now), ``rss_mb`` of the process the agent
runs in, and of the newest completed checkpoint ``checkpoint``, ``checkpoint_bytes`` and ``checkpoint_ms``. The last
line sums up.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import itertools
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.java_gateway import get_gateway

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from flink_agents_py.flink.installation import free_ports
from flink_agents_py.flink.rest import JobManagerClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAYLOAD = "x" * 1000
RECORD = Types.ROW([Types.STRING(), Types.LONG(), Types.STRING()])
OPERATOR = "agent BacklogAgent"

_SAMPLE_S = 0.25


class Gauge:
    """Counts calls inside the job and leaves a line now and then."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.in_flight_max = 0
        self._next = itertools.count(1).__next__
        self._sampled = 0.0

    async def call(self, number: int, samples: str, seconds: float) -> int:
        """The slow call. All of them share one event loop, so plain counters do."""
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        await asyncio.sleep(seconds)
        self.in_flight -= 1
        done = self._next()
        now = time.time()
        if now - self._sampled > _SAMPLE_S:
            self._sampled = now
            self._sample(samples, {"at": now, "done": done})
        return number

    def _sample(self, samples: str, sample: dict[str, Any]) -> None:
        sample |= {"in_flight": self.in_flight, "in_flight_max": self.in_flight_max, "rss_mb": _rss_mb()}
        with Path(samples).open("a", encoding="utf-8") as file:
            file.write(json.dumps(sample) + "\n")


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


_gauge = Gauge()


async def slow_call(number: int, samples: str, seconds: float) -> int:
    """What the agent calls for each input."""
    return await _gauge.call(number, samples, seconds)


class BacklogAgent(Agent):
    """One slow call for each input, and one for the number of inputs of the key in memory."""

    @action(InputEvent)
    @staticmethod
    async def call(event: InputEvent, ctx: RunnerContext) -> None:
        """Call, count, emit the number."""
        settings = ctx.config
        answer = await ctx.durable_execute_async(
            slow_call, event.input[1], settings.get("samples"), settings.get("call-seconds")
        )
        memory = ctx.short_term_memory
        memory.set("count", (memory.get("count") or 0) + 1)
        ctx.send_event(OutputEvent(answer))


@dataclass(frozen=True)
class Backlog:
    """The job: ``n`` inputs of 1 kB as fast as they can be read, over ``keys`` keys, each a call of ``call_s``."""

    n: int
    keys: int
    call_s: float
    max_in_flight: int
    samples: str

    def build(self, env: StreamExecutionEnvironment) -> None:
        """Put it on ``env``."""
        keys = self.keys
        agents = AgentsExecutionEnvironment.get_execution_environment(env)
        config = agents.get_config()
        config.set("max-in-flight", self.max_in_flight)
        config.set("samples", self.samples)
        config.set("call-seconds", self.call_s)
        numbers = env.from_source(NumberSequenceSource(0, self.n - 1), WatermarkStrategy.no_watermarks(), "numbers")
        records = numbers.map(lambda number: Row(str(number % keys), number, PAYLOAD), output_type=RECORD)
        keyed = agents.from_datastream(records, lambda record: record[0], key_type=Types.STRING())
        result = keyed.apply(BacklogAgent()).to_datastream(Types.LONG())
        sink = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
        result._j_data_stream.sinkTo(sink)  # noqa: SLF001 - PyFlink does not wrap this sink


def samples_of(path: str | Path) -> list[dict[str, Any]]:
    """What the gauge has left so far."""
    if not Path(path).exists():
        return []
    return [
        json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines(keepends=True) if "\n" in line
    ]


def point(client: JobManagerClient, job_id: str, samples: str | Path) -> dict[str, Any] | None:
    """Where the job is now; ``None`` before the first call has returned."""
    sampled = samples_of(samples)
    if not sampled:
        return None
    vertices = client.request("GET", f"/jobs/{job_id}")["vertices"]
    accepted = next(vertex["metrics"]["read-records"] for vertex in vertices if OPERATOR in vertex["name"])
    now = {"seconds": round(time.time() - sampled[0]["at"], 1), "accepted": accepted, **sampled[-1]}
    del now["at"]
    checkpoints = client.checkpoints(job_id)
    completed = checkpoints["latest"]["completed"]
    if completed:
        now |= {
            "checkpoint": completed["id"],
            "checkpoint_bytes": completed["state_size"],
            "checkpoint_ms": completed["end_to_end_duration"],
        }
    return now


def _curve(client: JobManagerClient, job: Any, samples: Path, every_s: float) -> Iterator[dict[str, Any]]:
    result = job._j_job_client.getJobExecutionResult()  # noqa: SLF001 - the wrapper can only wait
    job_id = str(job.get_job_id())
    while not result.isDone():
        time.sleep(every_s)
        try:
            now = point(client, job_id, samples)
        except Exception as error:  # noqa: BLE001 - the cluster goes with the job, at any moment
            print(f"no figures: {error}", file=sys.stderr)
            continue
        if now is not None:
            yield now
    result.get()  # raises if the job failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and print its curve."""
    parser = argparse.ArgumentParser(prog="python -m jobs.benchmarks.backlog", description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000, help="inputs (%(default)s)")
    parser.add_argument("--keys", type=int, default=10_000, help="(%(default)s)")
    parser.add_argument("--call-ms", type=float, default=150, help="duration of a call (%(default)s)")
    parser.add_argument("--max-in-flight", type=int, default=1000, help="(%(default)s)")
    parser.add_argument("--mode", choices=("thread", "process"), default="thread")
    parser.add_argument("--every", type=float, default=5, metavar="SECONDS", help="between two points (%(default)s)")
    parser.add_argument("--heap", default="512m", help="Java heap; an unbounded backlog would not fit (%(default)s)")
    options = parser.parse_args(arguments)

    os.environ["JVM_ARGS"] = f"-Xmx{options.heap} {os.environ.get('JVM_ARGS', '')}"
    # By its name, not as __main__: the workers import it.
    backlog = importlib.import_module("jobs.benchmarks.backlog")
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="flink-agents-backlog-") as folder:
        env = StreamExecutionEnvironment.get_execution_environment(
            backlog.configuration(options.mode, port, Path(folder, "checkpoints").as_uri())
        )
        samples = Path(folder, "samples.jsonl")
        job = backlog.Backlog(options.n, options.keys, options.call_ms / 1000, options.max_in_flight, str(samples))
        job.build(env)
        started = time.monotonic()
        client = env.execute_async("backlog")
        points = []
        for now in _curve(JobManagerClient(f"http://localhost:{port}"), client, samples, options.every):
            points.append(now)
            print(json.dumps(now), flush=True)
        first, *_, last = samples_of(samples)
    seconds = last["at"] - first["at"]
    summary = {
        "n": options.n,
        "wall_s": round(time.monotonic() - started, 1),
        "done_per_s": round((last["done"] - first["done"]) / seconds),
        "in_flight_max": last["in_flight_max"],
        "rss_mb_max": max((now["rss_mb"] for now in points), default=None),
        "checkpoints": max((now.get("checkpoint", 0) for now in points), default=0),
        "checkpoint_bytes_max": max((now.get("checkpoint_bytes", 0) for now in points), default=0),
        "checkpoint_ms_max": max((now.get("checkpoint_ms", 0) for now in points), default=0),
    }
    print(json.dumps(summary))
    return 0


def configuration(mode: str, rest_port: int, checkpoints: str) -> Any:
    """Flink's options for the job on a MiniCluster with a known REST port."""
    from pyflink.common import Configuration

    options = {
        "python.execution-mode": mode,
        "parallelism.default": "1",
        "rest.port": str(rest_port),
        "rest.bind-port": str(rest_port),
        "execution.checkpointing.interval": "1 s",
        "metrics.fetcher.update-interval": "1 s",  # or `accepted` lags by 10 s
        "execution.checkpointing.dir": checkpoints,
        "restart-strategy.type": "none",
    }
    config = Configuration()
    for key, value in options.items():
        config.set_string(key, value)
    return config


if __name__ == "__main__":
    sys.exit(main())
