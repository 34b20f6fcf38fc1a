"""kill -9 with calls in flight: every input still ends in its output, and what was known is not asked again."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from flink_agents_py.flink.standalone import StandaloneCluster
from tests.support.chain import check_calls, check_outputs, recorded_before, restored_checkpoint
from tests.support.flink import eventually, say
from tests.support.ledger import Ledger, lines, repetitions

COUNT, KEYS = 150, 25
SPEC = {"count": COUNT, "keys": KEYS, "per_second": 20, "seconds": 0.3}
IN_FLIGHT = 10


def victim(ledger, outputs):
    """The process to kill: one that has emitted something and has calls in flight."""

    def found():
        calls = Ledger(ledger)
        pids = [calls.starts[call][-1]["pid"] for call in calls.in_flight()]
        return len(lines(outputs)) > COUNT // 5 and len(pids) >= IN_FLIGHT and max(set(pids), key=pids.count)

    return eventually(found, what="calls are in flight")


def check(restored, killed, ledger, outputs):
    """The invariants; says what was repeated."""
    written = check_outputs(outputs, COUNT, KEYS)
    calls = check_calls(ledger, COUNT)
    trigger, restore = restored
    recorded = recorded_before(calls, written, trigger)
    assert trigger < killed < restore, "the checkpoint before the kill was restored after it"
    assert len(recorded) > COUNT // 2
    calls.check_not_repeated(recorded, restore)
    pids = {start["pid"] for starts in calls.starts.values() for start in starts}
    say(
        f"killed one of {len(pids)} processes; {len(calls.repeated())} of {len(calls.starts)} calls made again, "
        f"{repetitions(written)} outputs; restored {(restore - killed) / 1000:.1f} s after"
    )


def restored(cluster, job_id):
    checkpoints = cluster.checkpoints(job_id)
    return checkpoints["latest"]["restored"] and restored_checkpoint(checkpoints)


def test_a_killed_python_worker_of_process_mode(hosts, tmp_path, ledger, outputs):
    host = hosts["workers"]
    job = host.start(
        "chain",
        "process",
        {**SPEC, "ledger": str(ledger), "outputs": str(outputs)},
        execution__checkpointing__interval="500 ms",
        execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
        restart_strategy__type="exponential-delay",
        restart_strategy__exponential_delay__initial_backoff="200 ms",
        restart_strategy__exponential_delay__max_backoff="2 s",
    )
    pid = victim(ledger, outputs)
    assert pid != host.pid, "the worker is the client itself"
    killed = time.time() * 1000
    os.kill(pid, signal.SIGKILL)
    checkpoints = eventually(job.restored, what="the job restarts")
    job.wait()
    check(restored_checkpoint(checkpoints), killed, ledger, outputs)


@pytest.mark.cluster
@pytest.mark.timeout(240)
def test_a_killed_taskmanager_of_thread_mode(tmp_path, ledger, outputs):
    spec = {
        **SPEC,
        "ledger": str(ledger),
        "outputs": str(outputs),
        "options": {
            "python.execution-mode": "thread",
            "execution.checkpointing.interval": "500 ms",
            "restart-strategy.type": "exponential-delay",
            "restart-strategy.exponential-delay.initial-backoff": "200 ms",
            "restart-strategy.exponential-delay.max-backoff": "2 s",
        },
    }
    spec_file = tmp_path / "spec.json"
    spec_file.write_text(json.dumps(spec))
    script = Path(__file__).parent / "programs" / "submit.py"
    config = {"heartbeat.timeout": 4000, "heartbeat.interval": 500, "web.checkpoints.history": 1000}
    with StandaloneCluster(taskmanagers=3, home=tmp_path / "cluster", config=config) as cluster:
        job_id = cluster.submit(script, "chain", str(spec_file), parallelism=2)
        pid = victim(ledger, outputs)
        killed = time.time() * 1000
        cluster.kill_taskmanager(pid)
        checkpoints = eventually(lambda: restored(cluster, job_id), what="the job restarts")
        cluster.wait_for_state(job_id, "FINISHED", timeout=120)
        # Slots of the dead TaskManager may have been handed out at first: the last restore counts.
        checkpoints = restored(cluster, job_id)
    check(checkpoints, killed, ledger, outputs)
