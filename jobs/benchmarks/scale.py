"""CPU-bound work on one and on two TaskManagers of one slot each: ``./dev bench scale --help``.

Each is a real cluster of several processes (``flink_agents_py.flink.standalone``), as in thread mode all subtasks of a
TaskManager share one interpreter. The rate is that of the agent's operator between 20 and 90 % of the records, as the
JobManager's REST interface tells it. One JSON object a line on stdout, the ratio last.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.flink.standalone import StandaloneCluster
from jobs.benchmarks.machine import BUSY, busy_share
from jobs.benchmarks.run import RunSpec
from jobs.benchmarks.workloads import WORKLOADS

FROM, TO = 0.2, 0.9
_SAMPLE_S = 0.1
_CONFIG = {"metrics.fetcher.update-interval": 200, "taskmanager.memory.process.size": "1728m"}
_MAIN = Path(__file__).with_name("run.py")


def rate_between(samples: Sequence[tuple[float, int]], n: int) -> float:
    """Records a second between :data:`FROM` and :data:`TO` of ``n``, from samples of (seconds, records so far).

    Raises:
        ValueError: there are too few samples in between.
    """
    inside = [sample for sample in samples if FROM * n <= sample[1] <= TO * n]
    if len(inside) < 3 or inside[0][1] == inside[-1][1]:  # noqa: PLR2004 - two are one interval
        raise ValueError(f"only {len(inside)} samples between {FROM:.0%} and {TO:.0%}: measure more records (--n)")
    (started, first), (ended, last) = inside[0], inside[-1]
    return (last - first) / (ended - started)


def measure(spec: RunSpec, taskmanagers: int) -> float:
    """Records a second of one job on a fresh cluster."""
    with StandaloneCluster(taskmanagers, 1, config=_CONFIG, pythonpath=[_MAIN.parents[2]]) as cluster:
        job = cluster.submit(_MAIN, json.dumps(asdict(spec)))
        samples: list[tuple[float, int]] = []
        while True:
            told = cluster.request("GET", f"/jobs/{job}")
            # A changed number was read just now; one that stays was read before.
            count = sum(int(vertex["metrics"]["read-records"]) for vertex in told["vertices"] if _is_agent(vertex))
            if not samples or count != samples[-1][1]:
                samples.append((time.perf_counter(), count))
            if told["state"] == "FINISHED":
                return rate_between(samples, spec.n)
            if told["state"] in {"FAILED", "CANCELED"}:
                raise EnvironmentSetupError(f"the job is {told['state']}:\n{''.join(cluster.job_failures(job))[:4000]}")
            time.sleep(_SAMPLE_S)


def _is_agent(vertex: dict[str, Any]) -> bool:
    return str(vertex["name"]).startswith("agent ")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print; 0 if it could be done."""
    parser = argparse.ArgumentParser(prog="bench scale", description="One TaskManager and two, one slot each.")
    parser.add_argument("workload", nargs="?", default="chain3", choices=sorted(WORKLOADS), help="(%(default)s)")
    parser.add_argument("--n", type=int, default=400_000, help="records a run (%(default)s)")
    parser.add_argument("--mode", choices=("thread", "process"), default="thread")
    parser.add_argument("--runs", type=int, default=1, help="of each; medians are reported (%(default)s)")
    options = parser.parse_args(arguments)
    keys = WORKLOADS[options.workload].keys
    rates: dict[int, list[float]] = {1: [], 2: []}
    for run in range(1, options.runs + 1):
        for taskmanagers, measured in rates.items():
            busy = busy_share()
            spec = RunSpec(options.workload, "agent", options.mode, options.n, keys, taskmanagers)
            try:
                measured.append(measure(spec, taskmanagers))
            except (EnvironmentSetupError, ValueError) as error:
                print(f"bench: {error}", file=sys.stderr)
                return 1
            if busy is not None and busy > BUSY:
                print(f"bench: the machine was {busy:.0%} busy before this run", file=sys.stderr)
            _print(run=run, taskmanagers=taskmanagers, records_per_s=round(measured[-1]), busy_before=busy)
    one, two = (statistics.median(measured) for measured in rates.values())
    _print(
        workload=options.workload,
        mode=options.mode,
        cores=os.cpu_count(),
        records_per_s={"1 TaskManager": round(one), "2 TaskManagers": round(two)},
        ratio=round(two / one, 2),
    )
    return 0


def _print(**line: Any) -> None:
    print(json.dumps(line), flush=True)
