"""What trigger conditions cost: an echo alone, and beside a hundred actions that no record triggers.

``./dev bench cel`` measures the engine in this process, by its CPU time, so that other things on the machine matter
little; ``--flink`` measures jobs. The sides, one after another in each of the runs:

* ``echo``: one action, triggered by the type of inputs;
* ``types``: the same beside 100 actions that other types trigger, so without expressions;
* ``other_type``: beside 100 conditions that say of which other type their events are;
* ``conditions``: beside 100 conditions that are evaluated for each record.

Prints one JSON object: microseconds a record (medians), ratios to ``echo``, and what one condition costs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from pyflink.common import Row

from flink_agents_py import AgentPlan
from flink_agents_py.local.runner import LocalRunner
from jobs.benchmarks.cel_agents import CEL_AGENTS, CONDITIONS
from jobs.benchmarks.run import RunSpec, measure

KEYS = 1000


def engine_us(side: str, n: int) -> float:
    """CPU time of the engine alone, microseconds a record."""
    records = [(str(number % KEYS), Row(str(number % KEYS), number), None) for number in range(n)]
    with LocalRunner(AgentPlan.from_agent(CEL_AGENTS[side]())) as runner:
        began = time.process_time()
        outputs = sum(1 for _ in runner.run(records))
        seconds = time.process_time() - began
        failed = runner.engine.stats.condition_failures
    if outputs != n or failed:
        raise RuntimeError(f"{outputs} of {n} records came out, {failed} conditions failed")
    return seconds * 1e6 / n


def flink_us(side: str, n: int) -> float:
    """Time of a job on a MiniCluster, in thread mode, microseconds a record."""
    workload = side if side == "echo" else f"cel-{side}"
    figures = measure(RunSpec(workload=workload, engine="agent", mode="thread", n=n, keys=KEYS, parallelism=1))
    return float(figures["seconds"]) * 1e6 / float(figures["records"])


def compare(n: int, runs: int, side_us: Callable[[str, int], float]) -> dict[str, object]:
    """Measure all sides in turn."""
    seen: dict[str, list[float]] = {side: [] for side in CEL_AGENTS}
    for number in range(1, runs + 1):
        for side, figures in seen.items():
            figures.append(side_us(side, n))
            print(f"cel {side} {number}/{runs}: {figures[-1]:.2f} us a record", file=sys.stderr)
    medians = {side: statistics.median(figures) for side, figures in seen.items()}
    return {
        "workload": "cel",
        "n": n,
        "conditions": CONDITIONS,
        "us_per_record": {side: round(median, 2) for side, median in medians.items()},
        "ratio_to_echo": {side: round(median / medians["echo"], 2) for side, median in medians.items()},
        "us_per_condition": round((medians["conditions"] - medians["types"]) / CONDITIONS, 3),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench cel", description="What trigger conditions cost.", allow_abbrev=False)
    parser.add_argument("--n", type=int, default=20_000, help="records a run (%(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side; medians are reported (%(default)s)")
    parser.add_argument("--flink", action="store_true", help="measure jobs on a MiniCluster, not the engine alone")
    options = parser.parse_args(arguments)
    side_us = flink_us if options.flink else engine_us
    print(json.dumps(compare(options.n, options.runs, side_us)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
