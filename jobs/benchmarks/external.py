"""External actions against a target that is limited: are the limits kept, and used? ``./dev bench external --help``.

Prints one JSON object: what the target saw (``requests``, ``most_at_once``, ``most_within_a_second``, ``per_s``, and by
their senders' clock ``most_sent_within_a_second``, which does not count what a stalled target sees at once), the
limits (``max_concurrent``, ``rate_per_s``, and ``limit_per_s``: both together), ``used`` (the share of that), and
how the job fared: results by code, completed checkpoints and the longest of them in ms, while the calls were made.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

from flink_agents_py import AgentsExecutionEnvironment
from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.external import ActionCall, ActionRegistry, ActionRetry, ActionSession, ActionSpec
from flink_agents_py.flink.installation import free_ports
from flink_agents_py.flink.rest import JobManagerClient
from jobs.benchmarks.machine import BUSY, busy_share

ROOT = Path(__file__).resolve().parents[2]


async def work(call: ActionCall, session: ActionSession) -> Any:
    """The action: ask the target."""
    response = await session.http.post("/work", json=call.params, headers={"X-Sent": str(time.monotonic())})
    return response.result()


@dataclass(frozen=True)
class Limited:
    """The job: ``n`` calls of one action over ``keys`` trace ids, as fast as the limits of its spec let them go."""

    n: int
    keys: int
    url: str
    max_concurrent: int
    rate_per_s: float | None

    def spec(self) -> ActionSpec:
        """The action's spec; it is not retried, so that each call is one request."""
        return ActionSpec(
            name="work",
            target=self.url,
            max_concurrent=self.max_concurrent,
            rate_per_s=self.rate_per_s,
            divide_by_parallelism=True,
            retry=ActionRetry(max_attempts=1),
        )

    def build(self, env: StreamExecutionEnvironment) -> Any:
        """Put it on ``env``; the stream of results."""
        keys = self.keys
        agents = AgentsExecutionEnvironment.get_execution_environment(env)
        numbers = env.from_source(NumberSequenceSource(0, self.n - 1), WatermarkStrategy.no_watermarks(), "numbers")
        calls = numbers.map(
            lambda number: {"trace_id": f"trace {number % keys}", "action": "work", "params": {"number": number}},
            Types.PICKLED_BYTE_ARRAY(),
        )
        registry = ActionRegistry().register(self.spec(), work)
        keyed = agents.from_datastream(calls, lambda call: call["trace_id"], Types.STRING(), event_time=False)
        return keyed.execute_actions(registry).results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job, print what came of it."""
    parser = argparse.ArgumentParser(prog="bench external", description="Calls against a limited target.")
    parser.add_argument("--n", type=int, default=10_000, help="calls (%(default)s)")
    parser.add_argument("--keys", type=int, default=1000, help="trace ids (%(default)s)")
    parser.add_argument("--max-concurrent", type=int, default=50, help="(%(default)s)")
    parser.add_argument("--rate", type=float, default=500, metavar="PER_S", help="0: no limit (%(default)s)")
    parser.add_argument("--answer-ms", type=float, default=20, help="how long the target takes (%(default)s)")
    parser.add_argument("--parallelism", type=int, default=1, help="limits are those of all subtasks together")
    parser.add_argument("--mode", choices=("thread", "process"), default="thread")
    options = parser.parse_args(arguments)
    busy = busy_share()
    if busy is not None and busy >= BUSY:
        print(f"bench: {busy:.0%} of the machine was in use before: do not trust the rate", file=sys.stderr)
    # By its name, not as __main__: the workers import it.
    figures = importlib.import_module("jobs.benchmarks.external").measure(options)
    print(json.dumps({**figures, "busy_before": busy}))
    return 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the job once."""
    (port,) = free_ports(1)
    rate = options.rate or None
    with target(options.answer_ms) as url, tempfile.TemporaryDirectory(prefix="flink-agents-external-") as folder:
        env = StreamExecutionEnvironment.get_execution_environment(
            configuration(options.mode, options.parallelism, port, Path(folder, "checkpoints").as_uri())
        )
        results = Limited(options.n, options.keys, url, options.max_concurrent, rate).build(env)
        codes: Counter[str] = Counter()
        checkpoints: dict[str, Any] = {}
        started = asked = time.monotonic()
        client = JobManagerClient(f"http://localhost:{port}")
        with results.execute_and_collect("external") as collected:
            for result in collected:
                codes[result["code"]] += 1
                if time.monotonic() - asked > 1:
                    asked = time.monotonic()
                    checkpoints = checkpoints_of(client) or checkpoints
        wall = time.monotonic() - started
        seen = json.loads(urllib.request.urlopen(f"{url}/figures").read())  # noqa: S310 - our own, on loopback
    limit = options.max_concurrent / (options.answer_ms / 1000) if options.answer_ms else float("inf")
    limit = min(limit, rate or limit)
    return {
        "n": options.n,
        "mode": options.mode,
        "parallelism": options.parallelism,
        "answer_ms": options.answer_ms,
        "max_concurrent": options.max_concurrent,
        "rate_per_s": rate,
        "limit_per_s": round(limit, 1),
        **seen,
        "used": round(seen["per_s"] / limit, 3),
        "codes": dict(codes),
        **checkpoints,
        "wall_s": round(wall, 1),
    }


def checkpoints_of(client: JobManagerClient) -> dict[str, Any]:
    """Completed checkpoints of the one job there, why one failed, and the longest; nothing if the job has ended."""
    try:
        (job,) = client.request("GET", "/jobs")["jobs"]
        answer = client.checkpoints(job["id"])
    except (EnvironmentSetupError, ValueError):
        return {}
    failed = answer["latest"]["failed"]  # Flink's count of them has those that were due before all subtasks ran
    return {
        "checkpoints": answer["counts"]["completed"],
        "checkpoint_failure": failed["failure_message"] if failed else None,
        "checkpoint_ms_max": answer["summary"]["end_to_end_duration"]["max"],
    }


@contextmanager
def target(answer_ms: float) -> Iterator[str]:
    """The target, in a process of its own; its URL."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "jobs.benchmarks.external_server", str(answer_ms)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.communicate()


def configuration(mode: str, parallelism: int, rest_port: int, checkpoints: str) -> Configuration:
    """Flink's options for the job on a MiniCluster with a known REST port."""
    options = {
        "python.execution-mode": mode,
        "parallelism.default": str(parallelism),
        "rest.port": str(rest_port),
        "rest.bind-port": str(rest_port),
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.dir": checkpoints,
        "restart-strategy.type": "none",
    }
    config = Configuration()
    for key, value in options.items():
        config.set_string(key, value)
    return config


if __name__ == "__main__":
    sys.exit(main())
