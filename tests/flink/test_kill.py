"""kill -9 with calls in flight: every input still ends in its output, and what was known is not asked again."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from flink_agents_py.flink.standalone import StandaloneCluster
from tests.support.chain import Gate, check_calls, check_outputs, everything_out, recorded_before, restored_checkpoint
from tests.support.flink import completed_after, eventually, say
from tests.support.ledger import Ledger, lines, repetitions

COUNT, KEYS = 150, 25
KNOWN = 40
"""Inputs that are over when the checkpoint begins that may be restored."""
HELD = 100
"""Inputs from here on are held until the job is up again: at least one a key is in flight when the process dies."""


def spec_of(gate, ledger, outputs):
    return {
        "count": COUNT,
        "keys": KEYS,
        "per_second": 50,
        "seconds": 0.1,
        "gates": [gate.spec],
        "forever": True,
        "ledger": str(ledger),
        "outputs": str(outputs),
    }


def victim(ledger):
    """The process to kill: one that has calls in flight."""

    def found():
        calls = Ledger(ledger)
        pids = [calls.starts[call][-1]["pid"] for call in calls.in_flight()]
        return len(pids) >= KEYS // 2 and max(set(pids), key=pids.count)

    return eventually(found, what="calls are in flight")


def check(restored, killed, ledger, outputs):
    """The invariants; says what was repeated."""
    written = check_outputs(outputs, COUNT, KEYS)
    calls = check_calls(ledger, COUNT)
    trigger, restore = restored
    recorded = recorded_before(calls, written, trigger)
    assert trigger < killed < restore, "the checkpoint before the kill was restored after it"
    assert len(recorded) >= KNOWN * 4
    calls.check_not_repeated(recorded, restore)
    pids = {start["pid"] for starts in calls.starts.values() for start in starts}
    say(
        f"killed one of {len(pids)} processes; {len(calls.repeated())} of {len(calls.starts)} calls made again, "
        f"{repetitions(written)} outputs; restored {(restore - killed) / 1000:.1f} s after"
    )


def test_a_killed_python_worker_of_process_mode(hosts, tmp_path, ledger, outputs):
    host, gate = hosts["workers"], Gate(tmp_path, HELD)
    job = host.start(
        "chain",
        "process",
        spec_of(gate, ledger, outputs),
        execution__checkpointing__interval="500 ms",
        execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
        restart_strategy__type="exponential-delay",
        restart_strategy__exponential_delay__initial_backoff="200 ms",
        restart_strategy__exponential_delay__max_backoff="2 s",
    )
    eventually(lambda: len(lines(outputs)) >= KNOWN, what=f"{KNOWN} outputs")
    job.wait_for_checkpoint()
    pid = victim(ledger)
    assert pid != host.pid, "the worker is the client itself"
    killed = time.time() * 1000
    os.kill(pid, signal.SIGKILL)
    checkpoints = eventually(job.restored, what="the job restarts")
    gate.open()
    eventually(lambda: everything_out(outputs, COUNT), what="all outputs")
    host.ask("cancel")
    check(restored_checkpoint(checkpoints), killed, ledger, outputs)


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_killed_taskmanager_of_thread_mode(tmp_path, ledger, outputs):
    gate = Gate(tmp_path, HELD)
    spec = {
        **spec_of(gate, ledger, outputs),
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
    # A dead one is noticed by its closed port; a slow one must not be taken for dead.
    config = {
        "heartbeat.timeout": 30_000,
        "heartbeat.interval": 500,
        "web.checkpoints.history": 1000,
        "web.refresh-interval": 100,
    }
    with StandaloneCluster(taskmanagers=3, home=tmp_path / "cluster", config=config) as cluster:
        job_id = cluster.submit(script, "chain", str(spec_file), parallelism=2)
        eventually(lambda: len(lines(outputs)) >= KNOWN, what=f"{KNOWN} outputs")
        known = time.time() * 1000
        eventually(lambda: completed_after(cluster.checkpoints(job_id), known), what="a checkpoint is complete")
        pid = victim(ledger)
        killed = time.time() * 1000
        cluster.kill_taskmanager(pid)
        eventually(lambda: cluster.checkpoints(job_id)["latest"]["restored"], what="the job restarts")
        gate.open()
        eventually(lambda: everything_out(outputs, COUNT), what="all outputs")
        # Slots of the dead TaskManager may have been handed out at first: the last restore counts.
        checkpoints = cluster.checkpoints(job_id)
        cluster.cancel(job_id)
    assert not (tmp_path / "cluster" / "cluster.json").exists()
    check(restored_checkpoint(checkpoints), killed, ledger, outputs)
