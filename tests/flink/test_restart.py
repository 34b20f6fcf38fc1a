"""A job that fails in the middle goes on from its checkpoint, without being told anything twice that it knew."""

from __future__ import annotations

import pytest

from tests.support.chain import Gate, check_calls, check_outputs, everything_out, recorded_before, restored_checkpoint
from tests.support.flink import FlinkHost, eventually, say
from tests.support.ledger import lines, repetitions

COUNT, KEYS = 120, 12
KNOWN, FAILS, HELD = 48, 80, 100
"""Inputs over when the checkpoint begins that may be restored; the one that fails; first one held until after that."""


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_failed_job_restores_and_repeats_only_what_was_in_flight(host, mode, parallelism, tmp_path, ledger, outputs):
    marker, before, after = tmp_path / "failed", Gate(tmp_path, KNOWN), Gate(tmp_path, HELD)
    job = host.start(
        "chain",
        mode,
        {
            "count": COUNT,
            "keys": KEYS,
            "per_second": 60,
            "seconds": 0.1,
            "gates": [before.spec, after.spec],
            "forever": True,
            "ledger": str(ledger),
            "outputs": str(outputs),
            "fail_at": FAILS,
            "marker": str(marker),
        },
        parallelism=parallelism,
        execution__checkpointing__interval="300 ms",
        execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
        restart_strategy__fixed_delay__attempts=1,
        restart_strategy__fixed_delay__delay="200 ms",
    )
    eventually(lambda: len(lines(outputs)) >= KNOWN, what=f"{KNOWN} outputs")
    job.wait_for_checkpoint()
    before.open()
    trigger, restore = restored_checkpoint(eventually(job.restored, what="the job restarts"))
    after.open()
    eventually(lambda: everything_out(outputs, COUNT), what="all outputs")
    host.ask("cancel")

    assert marker.exists()
    written = check_outputs(outputs, COUNT, KEYS)
    calls = check_calls(ledger, COUNT)
    recorded = recorded_before(calls, written, trigger)
    assert len(recorded) >= KNOWN * 4
    calls.check_not_repeated(recorded, restore)
    assert max(map(len, calls.starts.values())) <= 2, "there were two attempts"
    again = f"{len(calls.repeated())} of {len(calls.starts)} calls made again, {repetitions(written)} outputs"
    say(f"{mode}, parallelism {parallelism}: {again}")


@pytest.fixture
def run_attempts(mode, tmp_path, ledger):
    """Run the job that shows its threads and fails once while blocking calls are in flight; its outputs.

    In a process of its own: what cancelled jobs of other tests have left goes with the garbage, at some time.
    """
    host = FlinkHost(tmp_path / "host.log")

    def run(name, *, restarts, fail_at):
        outputs = tmp_path / f"{name}.jsonl"
        spec = {"ledger": str(ledger), "outputs": str(outputs), "marker": str(tmp_path / name), "fail_at": fail_at}
        job = host.start(
            "attempts",
            mode,
            spec,
            execution__checkpointing__interval="200 ms",
            restart_strategy__fixed_delay__attempts=restarts,
            restart_strategy__fixed_delay__delay="500 ms",
        )
        failure = job.failure()
        assert bool(failure) == (fail_at >= 0 and not restarts), failure
        return lines(outputs)

    yield run
    host.close()


def test_threads_of_an_earlier_attempt_are_gone(run_attempts, tmp_path):
    last = run_attempts("restarted", restarts=1, fail_at=10)[-1]
    (failed,) = lines(tmp_path / "restarted.threads")
    assert failed["pid"] == last["pid"], "not the same process: nothing is shown"
    assert last["about"]["threads"] == [
        *(f"flink-agents-py-call-{index}" for index in range(4)),
        "flink-agents-py-loop",
    ]


def test_threads_of_a_job_that_failed_for_good_are_gone(run_attempts, tmp_path):
    run_attempts("failed", restarts=0, fail_at=10)
    (failed,) = lines(tmp_path / "failed.threads")
    first = run_attempts("next", restarts=0, fail_at=-1)[0]
    assert failed["pid"] == first["pid"], "not the same process: nothing is shown"
    assert len(failed["threads"]) == 1 + 4
    # The next job finds none but the loop it has just started itself.
    assert first["about"]["before"] == ["flink-agents-py-loop"]
