"""Stop with a savepoint while calls are in flight, go on with another parallelism."""

from __future__ import annotations

import time

import pytest

from tests.support.chain import check_calls, check_outputs, recorded_before
from tests.support.flink import eventually, say
from tests.support.ledger import Ledger, lines, repetitions

COUNT, KEYS = 140, 20
MANY = 10


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_one_to_two_to_one_subtasks_through_savepoints(host, mode, backend, tmp_path, ledger, outputs):
    def start(parallelism, savepoint=""):
        restore = {"execution__state_recovery__path": savepoint} if savepoint else {}
        return host.start(
            "chain",
            mode,
            {
                "count": COUNT,
                "keys": KEYS,
                "per_second": 15,
                "seconds": 0.4,
                "ledger": str(ledger),
                "outputs": str(outputs),
            },
            parallelism=parallelism,
            state__backend__type=backend,
            execution__checkpointing__interval="500 ms",
            execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
            **restore,
        )

    stops = []  # (when the stop was asked for, when the savepoint was there), ms
    savepoint = ""
    for parallelism, wanted in ((1, 15), (2, 40)):
        job = start(parallelism, savepoint)
        eventually(lambda wanted=wanted: len(lines(outputs)) >= wanted and len(Ledger(ledger).in_flight()) >= MANY)
        asked = time.time() * 1000
        savepoint = job.stop(tmp_path / "savepoints")
        stops.append((asked, time.time() * 1000))
    start(1, savepoint).wait()

    written = check_outputs(outputs, COUNT, KEYS)
    calls = check_calls(ledger, COUNT)
    for asked, stopped in stops:
        recorded = recorded_before(calls, written, asked)
        assert recorded
        calls.check_not_repeated(recorded, stopped)
    say(
        f"{mode} {backend}: {len(calls.repeated())} of {len(calls.starts)} calls made again, "
        f"{repetitions(written)} outputs"
    )


def test_suspended_runs_go_on_without_new_input(host, mode, tmp_path, ledger, outputs):
    """The source is at its end when the job is stopped; all that is left are suspended runs and inputs behind them."""
    count, keys = 20, 10

    def start(parallelism, savepoint=""):
        restore = {"execution__state_recovery__path": savepoint} if savepoint else {}
        spec = {"count": count, "keys": keys, "seconds": 1.0, "ledger": str(ledger), "outputs": str(outputs)}
        return host.start("chain", mode, {**spec, "forever": True}, parallelism=parallelism, **restore)

    job = start(1)
    eventually(lambda: len(Ledger(ledger).starts) >= keys)
    savepoint = job.stop(tmp_path / "savepoints")
    assert not lines(outputs)

    job = start(2, savepoint)
    eventually(lambda: len(lines(outputs)) >= count)
    host.ask("cancel")
    check_outputs(outputs, count, keys)
    calls = check_calls(ledger, count)
    assert set(calls.repeated()) <= {("first", f"key {number}", number) for number in range(keys)}
