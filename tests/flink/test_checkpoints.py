"""Checkpoints complete while calls hang and while inputs pile up."""

from __future__ import annotations

import os

import pytest

from tests.support.flink import eventually, say
from tests.support.ledger import Ledger, first_of_each, lines

HANG_S = float(os.environ.get("FLINK_AGENTS_TEST_HANG_SECONDS", "8"))
HANGING = 100


@pytest.mark.timeout(60 + 3 * HANG_S)
def test_hanging_calls_stop_neither_checkpoints_nor_other_keys(host, mode, tmp_path, ledger, outputs):
    flowing = int(HANG_S * 25)
    job = host.start(
        "hanging",
        mode,
        {
            "hanging": HANGING,
            "hang_seconds": HANG_S,
            "flowing": flowing,
            "per_second": 50,
            "ledger": str(ledger),
            "outputs": str(outputs),
        },
        execution__checkpointing__interval="1 s",
        execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
    )
    eventually(lambda: len(Ledger(ledger).starts) >= HANGING)
    history = []

    def first_hanging_has_ended():
        history[:] = job.checkpoints(job.id)["history"]
        return any(key.startswith("hanging") for (_, key, _), ends in Ledger(ledger).ends.items() if ends)

    eventually(first_hanging_has_ended, timeout=60 + HANG_S)
    calls = Ledger(ledger)
    hang_from = max(calls.starts[call][0]["at"] for call in calls.starts if call[1].startswith("hanging"))
    hang_to = min(
        calls.ends[call][0]["at"] for call in calls.starts if call[1].startswith("hanging") if calls.ends[call]
    )
    completed = [
        entry["end_to_end_duration"]
        for entry in history
        if entry["status"] == "COMPLETED"
        and hang_from < entry["trigger_timestamp"]
        and entry["trigger_timestamp"] + entry["end_to_end_duration"] < hang_to
    ]
    meanwhile = [output for output in lines(outputs) if hang_from < output["at"] < hang_to]
    job.wait()

    assert hang_to - hang_from > 1000, "the machine was too slow for this test to show anything"
    assert completed, f"no checkpoint while {HANGING} calls hung for {HANG_S} s"
    assert meanwhile, "no output of another key while the calls hung"
    assert len(first_of_each(lines(outputs))) == HANGING + flowing
    assert not calls.repeated()
    say(
        f"{mode}: all {HANGING} hung for {(hang_to - hang_from) / 1000:.1f} s; {len(completed)} checkpoints of "
        f"{min(completed)}-{max(completed)} ms and {len(meanwhile)} outputs in that time"
    )


MAX_IN_FLIGHT = 200
MAX_QUEUED = 1000
PAYLOAD = 1000


@pytest.mark.parametrize(("mode", "count"), [("thread", 30_000), ("process", 5_000)], indirect=["mode"])
def test_a_backlog_grows_neither_state_nor_the_calls_in_flight(host, mode, count, tmp_path):
    samples = tmp_path / "samples.jsonl"
    # Large bundles make process mode quick enough for a backlog worth the name; nothing is restored here.
    quick = {"python__fn_execution__bundle__size": "1000", "execution__checkpointing__unaligned__enabled": "true"}
    job = host.start(
        "backlog",
        mode,
        {"n": count, "keys": 2000, "call_s": 0.02, "max_in_flight": MAX_IN_FLIGHT, "samples": str(samples)},
        execution__checkpointing__interval="500 ms",
        execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
        **(quick if mode == "process" else {}),
    )
    history: list[dict] = []

    def almost_done():
        history[:] = job.checkpoints(job.id)["history"]
        return (lines(samples) or [{"done": 0}])[-1]["done"] > 0.8 * count

    eventually(almost_done, timeout=90)
    job.wait()

    sizes = [entry["state_size"] for entry in history if entry["status"] == "COMPLETED"]
    durations = [entry["end_to_end_duration"] for entry in history if entry["status"] == "COMPLETED"]
    assert len(sizes) >= 2, "no checkpoints under backpressure"
    # Inputs of 1 kB wait in front of the operator. What is in state: those it has accepted, about twice over (input and
    # journal), the buffers of the network (unaligned checkpoints), and a few bytes a key.
    assert max(sizes) < 2 * PAYLOAD * (MAX_IN_FLIGHT + MAX_QUEUED) + 1_000_000 < count * PAYLOAD
    last = lines(samples)[-1]
    assert last["done"] > 0.9 * count
    assert MAX_IN_FLIGHT / 2 < last["in_flight_max"] <= MAX_IN_FLIGHT
    say(
        f"{mode}: {count} inputs, {len(sizes)} checkpoints of {min(durations)}-{max(durations)} ms, "
        f"{min(sizes) // 1000}-{max(sizes) // 1000} kB; at most {last['in_flight_max']} in flight"
    )
