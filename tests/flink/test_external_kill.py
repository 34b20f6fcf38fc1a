"""kill -9 with external actions in flight: every call has its result, what was known to be done is not done again."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import defaultdict
from pathlib import Path

import pytest

from flink_agents_py.flink.standalone import StandaloneCluster
from tests.support.chain import restored_checkpoint
from tests.support.fault_server import FaultServer
from tests.support.flink import eventually, say
from tests.support.ledger import lines

COUNT = 120
RETRY = {"initial": 0.2, "jitter": 0.0}
RESTART = {
    "execution.checkpointing.interval": "500 ms",
    "restart-strategy.type": "exponential-delay",
    "restart-strategy.exponential-delay.initial-backoff": "200 ms",
    "restart-strategy.exponential-delay.max-backoff": "2 s",
}


def scripted(number, gate):
    """Some calls need a second attempt, which a kill may come before; some do not end before it."""
    if number % 20 == 1:
        return f"held:{gate},ok"
    return "500,ok:300" if number % 5 == 0 else "ok:400"


@pytest.fixture
def server(tmp_path):
    with FaultServer(tmp_path / "server.jsonl") as server:
        yield server


@pytest.fixture
def spec(server, tmp_path):
    gate = tmp_path / "gate"
    calls = [
        {
            "trace_id": f"trace {number}",
            "action": ("act", "careful")[number % 2],
            "params": {"script": scripted(number, gate), "number": number},
        }
        for number in range(COUNT)
    ]
    about = {"target": server.url, "retry": RETRY, "max_concurrent": 50, "timeouts": {"read": 600, "total": 600}}
    return {
        "calls": calls,
        "gate": str(gate),
        "per_second": 20,
        "actions": [{**about, "name": "act"}, {**about, "name": "careful", "handler": "careful"}],
        "results": str(tmp_path / "results.jsonl"),
        "dead_letters": str(tmp_path / "dead.jsonl"),
    }


def ready(server, results, checkpoints):
    """Whether there is a checkpoint with results in it, and with calls in flight that do not end before the kill."""
    taken = [entry["trigger_timestamp"] for entry in checkpoints["history"] if entry["status"] == "COMPLETED"]
    if not taken:
        return False
    ledger = server.ledger
    held = [key for key, starts in ledger.starts.items() if starts[-1]["step"] == "held" and not ledger.ends[key]]
    in_flight = [key for key in held if ledger.starts[key][0]["wall"] < max(taken)]
    return len([result for result in lines(results) if result["at"] < max(taken)]) > COUNT // 8 and in_flight


def check(server, results, restored, killed):
    trigger, restore = restored
    assert trigger < killed < restore, "the checkpoint before the kill was restored after it"
    ledger = server.ledger
    written = lines(results)
    by_trace = defaultdict(list)
    for result in written:
        by_trace[result["trace_id"]].append(result)
    assert by_trace.keys() == {f"trace {number}" for number in range(COUNT)}, "calls without a result"
    assert {result["code"] for result in written} == {"SUCCESS"}
    # One key for each call, however often it was made; and the other way round.
    assert len({result["idempotency_key"] for result in written}) == COUNT
    assert ledger.starts.keys() == {result["idempotency_key"] for result in written}
    # What had left the operator before the checkpoint was in it: its call is not made again.
    known = {result["idempotency_key"] for result in written if result["at"] < trigger}
    assert len(known) > COUNT // 8
    again = {key for key in known if any(start["wall"] > restore for start in ledger.starts[key])}
    assert not again, "calls that had succeeded before the checkpoint were made again"
    # Those that were in flight are asked after first where the handler can; nothing is done twice then.
    done_twice = {key for key, done in ledger.done.items() if len(done) > 1}
    assert ledger.asked, "no call was reconciled: nothing is shown"
    assert ledger.asked.keys() <= ledger.of("careful").keys()
    say(
        f"{len(done_twice)} of {COUNT} deeds asked for again after a kill, all with their keys; "
        f"{len(ledger.asked)} reconciled; {len(written) - COUNT} results repeated; "
        f"restored {(restore - killed) / 1000:.1f} s after"
    )
    assert done_twice.isdisjoint(ledger.asked), "a deed the server knew was done again"


@pytest.mark.flink
def test_a_killed_python_worker_of_process_mode(hosts, server, spec, tmp_path):
    host = hosts["workers"]
    dotted = {key.replace(".", "__").replace("-", "_"): value for key, value in RESTART.items()}
    checkpoints_at = (tmp_path / "checkpoints").as_uri()
    job = host.start("external", "process", spec, execution__checkpointing__dir=checkpoints_at, **dotted)
    eventually(lambda: ready(server, spec["results"], job.checkpoints(job.id)), what="calls are in flight")
    pid = lines(spec["results"])[-1]["pid"]
    assert pid != host.pid, "the worker is the client itself"
    killed = time.time() * 1000
    os.kill(pid, signal.SIGKILL)
    Path(spec["gate"]).touch()
    checkpoints = eventually(job.restored, what="the job restarts")
    job.wait()
    check(server, spec["results"], restored_checkpoint(checkpoints), killed)


@pytest.mark.cluster
@pytest.mark.timeout(240)
def test_a_killed_taskmanager_of_thread_mode(server, spec, tmp_path):
    spec_file = tmp_path / "spec.json"
    spec_file.write_text(json.dumps({**spec, "options": {"python.execution-mode": "thread", **RESTART}}))
    script = Path(__file__).parent / "programs" / "submit.py"
    config = {"heartbeat.timeout": 4000, "heartbeat.interval": 500, "web.checkpoints.history": 1000}

    with StandaloneCluster(taskmanagers=3, home=tmp_path / "cluster", config=config) as cluster:
        job_id = cluster.submit(script, "external", str(spec_file), parallelism=2)
        eventually(lambda: ready(server, spec["results"], cluster.checkpoints(job_id)), what="calls are in flight")
        killed = time.time() * 1000
        cluster.kill_taskmanager(lines(spec["results"])[-1]["pid"])
        Path(spec["gate"]).touch()
        eventually(lambda: cluster.checkpoints(job_id)["latest"]["restored"], what="the job restarts")
        cluster.wait_for_state(job_id, "FINISHED", timeout=120)
        # Slots of the dead TaskManager may have been handed out at first: the last restore counts.
        checkpoints = cluster.checkpoints(job_id)
    check(server, spec["results"], restored_checkpoint(checkpoints), killed)
