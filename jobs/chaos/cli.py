"""The command line: start a cluster and the job, kill TaskManagers for a while, let the job finish, judge it."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.flink.standalone import StandaloneCluster
from jobs.action_stores import STORES, store_url
from jobs.chaos.check import Verdict, check
from jobs.chaos.records import read

TASKMANAGERS = 2
CHECKPOINT_MS = 1000


@dataclass(frozen=True)
class Spec:
    """What to do: for how many seconds to kill, every how many seconds about, at how many inputs a second."""

    seconds: float
    every: float
    rate: float
    keys: int
    store: str
    seed: int = 0
    call_seconds: float = 0.1

    @property
    def count(self) -> int:
        """Inputs: as many as the source gives while TaskManagers are killed, if it were never interrupted."""
        return max(1, round(self.seconds * self.rate))


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if everything was as promised, 1 if not; figures on stdout, the last line of it as JSON."""
    options = _parse(arguments)
    spec = Spec(options.seconds, options.every, options.rate, options.keys, options.store, options.seed)
    with tempfile.TemporaryDirectory(prefix="flink-agents-chaos-") as folder:
        verdict = run(spec, Path(options.home or folder).absolute())
    for line in verdict.lines():
        print(line)
    line = {"store": spec.store, "seconds": spec.seconds, "rate": spec.rate, **verdict.figures}
    print(json.dumps({**line, "violations": len(verdict.violations)}), flush=True)
    return 1 if verdict.violations else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="chaos", description="Kill TaskManagers under a running job, then check that nothing was lost or repeated."
    )
    parser.add_argument("--seconds", type=float, default=120, help="how long to kill (default 120)")
    parser.add_argument("--every", type=float, default=5, help="seconds between two kills, on average (default 5)")
    parser.add_argument("--rate", type=float, default=40, help="inputs a second (default 40)")
    parser.add_argument("--keys", type=int, default=50, help="number of keys (default 50)")
    parser.add_argument("--store", choices=STORES, default="sqlite", help="action state store (default sqlite)")
    parser.add_argument("--seed", type=int, default=0, help="of the times between kills")
    parser.add_argument("--home", help="folder for ledger, outputs, logs; kept (default: a temporary one, removed)")
    return parser.parse_args(arguments)


def run(spec: Spec, folder: Path) -> Verdict:
    """One run of the job under fire."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: folder / f"{name}.jsonl" for name in ("ledger", "outputs", "dead_letters")}
    with ExitStack() as stack:
        job_spec = folder / "job.json"
        job_spec.write_text(json.dumps(_job_spec(spec, files, store_url(spec.store, folder, stack))))
        cluster = stack.enter_context(StandaloneCluster(TASKMANAGERS, 2, home=folder / "cluster", config=_CLUSTER))
        job_id = cluster.submit(Path(__file__).with_name("job.py"), str(job_spec), parallelism=TASKMANAGERS)
        _say(f"job {job_id}: {spec.count:,} inputs at {spec.rate:g}/s, store {spec.store}, logs in {cluster.log_dir}")
        kills = _kill_for_a_while(spec, cluster, job_id, files["ledger"])
        _say(f"{kills} TaskManagers killed in {spec.seconds:g} s; the job finishes what is left")
        failure = _finish(cluster, job_id, spec)
        checkpoints = cluster.checkpoints(job_id)["counts"]
    verdict = check(
        spec.count,
        spec.keys,
        *(read(files[name]) for name in ("ledger", "outputs", "dead_letters")),
        store=spec.store != "none",
    )
    verdict.expect(not failure, f"the job did not finish: {failure}")
    verdict.expect(kills, "no TaskManager was killed: nothing is shown")
    verdict.figures = {
        "taskmanagers_killed": kills,
        "restores": checkpoints["restored"],
        "checkpoints_completed": checkpoints["completed"],
        **verdict.figures,
    }
    return verdict


_CLUSTER = {
    "heartbeat.timeout": 4000,
    "heartbeat.interval": 500,
    "taskmanager.load-balance.mode": "SLOTS",  # both at work, as long as there are two
    "taskmanager.memory.process.size": "1g",
    "jobmanager.memory.process.size": "1g",
}


def _job_spec(spec: Spec, files: dict[str, Path], url: str | None) -> dict[str, Any]:
    agent = {"job-identifier": "chaos", "action-state-store.backend": spec.store}
    if url is not None:
        agent["action-state-store.url"] = url
    return {
        "count": spec.count,
        "keys": spec.keys,
        "rate": spec.rate,
        "call_seconds": spec.call_seconds,
        **{name: str(path) for name, path in files.items()},
        "agent": agent,
        "flink": {
            "python.execution-mode": "thread",
            "execution.checkpointing.interval": f"{CHECKPOINT_MS} ms",
            "execution.checkpointing.unaligned.enabled": "true",
            "restart-strategy.type": "exponential-delay",
            "restart-strategy.exponential-delay.initial-backoff": "100 ms",
            "restart-strategy.exponential-delay.max-backoff": "1 s",
        },
    }


def _kill_for_a_while(spec: Spec, cluster: StandaloneCluster, job_id: str, ledger: Path) -> int:
    """Kill the TaskManager that made the latest calls, again and again; how many were killed.

    The next one dies only when the job is at work again: killing what is just starting shows nothing.
    """
    pause = random.Random(spec.seed)  # noqa: S311
    kills, position = 0, 0
    begun = 0.0
    while not begun or time.monotonic() < begun + spec.seconds:
        time.sleep(pause.uniform(0.4, 1.6) * spec.every if begun else 0.5)
        with ledger.open("rb") if ledger.exists() else tempfile.TemporaryFile() as file:
            file.seek(position)
            pids = [json.loads(line)["pid"] for line in file if line.endswith(b"\n")]
        alive = cluster.taskmanager_pids()
        victim = next((pid for pid in reversed(pids) if pid in alive), None)
        if victim is None:
            state = cluster.job_state(job_id)
            if state in {"FAILED", "FINISHED"}:
                break
            continue
        begun = begun or time.monotonic()
        cluster.kill_taskmanager(victim)
        position = ledger.stat().st_size
        kills += 1
        cluster.start_taskmanager()
    return kills


def _finish(cluster: StandaloneCluster, job_id: str, spec: Spec) -> str:
    """Wait for the job's end; why it did not come, or an empty text."""
    try:
        cluster.wait_for_state(job_id, "FINISHED", timeout=300 + 2 * spec.seconds)
    except EnvironmentSetupError as error:
        return str(error)
    return ""


def _say(text: str) -> None:
    print(f"chaos: {text}", file=sys.stderr, flush=True)
