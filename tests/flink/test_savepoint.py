"""Stop with a savepoint while calls are in flight, go on with another parallelism."""

from __future__ import annotations

import time

from tests.support.chain import CALLS, Gate, check_calls, check_outputs, recorded_before
from tests.support.flink import eventually, say
from tests.support.ledger import Ledger, lines, repetitions

COUNT, KEYS = 140, 20
STOPS = [(1, 30), (2, 60)]
"""Parallelism, and how many inputs are over when the job is stopped; those from 20 later on are held until then."""


def held(keys):
    """Of the first input of each key, the call that its gate holds."""
    return {(CALLS[number % len(CALLS)], f"key {number}", number) for number in range(keys)}


def test_one_to_two_to_one_subtasks_through_savepoints(host, mode, tmp_path, ledger, outputs):
    """On RocksDB; the tests beside this one, and those of event time, have their state on Java's heap."""

    gates = [Gate(tmp_path, over + 20) for _, over in STOPS]

    def start(parallelism, savepoint="", *, forever=True):
        restore = {
            "execution__state_recovery__path": savepoint,
            "execution__state_recovery__ignore_unclaimed_state": not forever,  # of the source that keeps it alive
        }
        return host.start(
            "chain",
            mode,
            {
                "count": COUNT,
                "keys": KEYS,
                "per_second": 40,
                "seconds": 0.2,
                "gates": [gate.spec for gate in gates],
                "forever": forever,
                "ledger": str(ledger),
                "outputs": str(outputs),
            },
            parallelism=parallelism,
            state__backend__type="rocksdb",
            execution__checkpointing__interval="500 ms",
            execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
            **(restore if savepoint else {}),
        )

    stops = []  # (when the stop was asked for, when the savepoint was there), ms
    savepoint = ""
    for (parallelism, over), gate in zip(STOPS, gates, strict=True):
        job = start(parallelism, savepoint)
        eventually(
            lambda over=over: len(lines(outputs)) >= over and len(Ledger(ledger).in_flight()) >= KEYS // 2,
            what=f"{over} outputs, and calls are in flight",
        )
        asked = time.time() * 1000
        savepoint = job.stop(tmp_path / "savepoints")
        stops.append((asked, time.time() * 1000))
        gate.open()
    start(1, savepoint, forever=False).wait()

    written = check_outputs(outputs, COUNT, KEYS)
    calls = check_calls(ledger, COUNT)
    for (asked, stopped), (_, over) in zip(stops, STOPS, strict=True):
        recorded = recorded_before(calls, written, asked)
        assert len(recorded) >= over * 4
        calls.check_not_repeated(recorded, stopped)
    say(f"{mode}: {len(calls.repeated())} of {len(calls.starts)} calls made again, {repetitions(written)} outputs")


def test_suspended_runs_go_on_without_new_input(host, mode, tmp_path, ledger, outputs):
    """The source is at its end when the job is stopped; all that is left are suspended runs and inputs behind them."""
    count, keys = 20, 10
    gate = Gate(tmp_path, 0)

    def start(parallelism, savepoint=""):
        restore = {"execution__state_recovery__path": savepoint} if savepoint else {}
        spec = {"count": count, "keys": keys, "gates": [gate.spec], "ledger": str(ledger), "outputs": str(outputs)}
        return host.start("chain", mode, {**spec, "forever": True}, parallelism=parallelism, **restore)

    job = start(1)
    eventually(lambda: held(keys) <= set(Ledger(ledger).in_flight()), what="each key has a call in flight")
    savepoint = job.stop(tmp_path / "savepoints")
    assert not lines(outputs)

    gate.open()
    start(2, savepoint)
    eventually(lambda: len(lines(outputs)) >= count, what="all outputs")
    host.ask("cancel")
    check_outputs(outputs, count, keys)
    calls = check_calls(ledger, count)
    assert held(keys) <= set(calls.repeated())
    assert {number for _, _, number in calls.repeated()} == set(range(keys)), "something else than what was in flight"
    assert max(map(len, calls.starts.values())) == 2
