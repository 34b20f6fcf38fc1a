"""Checkpoints complete while calls hang and while inputs pile up."""

from __future__ import annotations

from tests.support.flink import eventually, say
from tests.support.ledger import Ledger, first_of_each, lines

HANGING, FLOWING = 100, 100


def hanging(calls):
    return sum(key.startswith("hanging") for _, key, _ in calls)


def test_hanging_calls_stop_neither_checkpoints_nor_other_keys(host, mode, tmp_path, ledger, outputs):
    gate = tmp_path / "gate"
    job = host.start(
        "hanging",
        mode,
        {
            "hanging": HANGING,
            "gate": str(gate),
            "flowing": FLOWING,
            "per_second": 100,
            "ledger": str(ledger),
            "outputs": str(outputs),
        },
        execution__checkpointing__interval="500 ms",
        execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
    )
    eventually(lambda: hanging(Ledger(ledger).starts) == HANGING, what=f"{HANGING} calls hang")
    job.wait_for_checkpoint()
    eventually(lambda: len(lines(outputs)) >= FLOWING, what="all outputs of other keys")
    job.wait_for_checkpoint()
    assert hanging(Ledger(ledger).ends) == 0
    completed = [entry for entry in job.checkpoints(job.id)["history"] if entry["status"] == "COMPLETED"]

    gate.touch()
    eventually(lambda: len(lines(outputs)) >= HANGING + FLOWING, what="all outputs")
    host.ask("cancel")
    assert len(first_of_each(lines(outputs))) == HANGING + FLOWING
    assert not Ledger(ledger).repeated()
    durations = [entry["end_to_end_duration"] for entry in completed]
    say(f"{mode}: {len(completed)} checkpoints of {min(durations)}-{max(durations)} ms, {HANGING} calls hung meanwhile")


MAX_IN_FLIGHT = 200
MAX_QUEUED = 1000
PAYLOAD = 1000


def test_a_backlog_grows_neither_state_nor_the_calls_in_flight(host, mode, tmp_path):
    """A source without end, far ahead of the calls."""
    samples = tmp_path / "samples.jsonl"
    # Large bundles make process mode quick enough for a backlog worth the name; nothing is restored here.
    quick = {"python__fn_execution__bundle__size": "1000", "execution__checkpointing__unaligned__enabled": "true"}
    job = host.start(
        "backlog",
        mode,
        {"n": 10_000_000, "keys": 2000, "call_s": 0.25, "max_in_flight": MAX_IN_FLIGHT, "samples": str(samples)},
        execution__checkpointing__interval="500 ms",
        execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
        **(quick if mode == "process" else {}),
    )

    def far_behind():
        last = (lines(samples) or [{"done": 0, "in_flight_max": 0}])[-1]
        return last["done"] > 2 * MAX_QUEUED and last["in_flight_max"] > MAX_IN_FLIGHT / 2

    eventually(far_behind, what="more inputs are done than may be queued, and many calls are in flight")
    for _ in range(2):
        job.wait_for_checkpoint()
    completed = [entry for entry in job.checkpoints(job.id)["history"] if entry["status"] == "COMPLETED"]
    host.ask("cancel")

    sizes = [entry["state_size"] for entry in completed]
    durations = [entry["end_to_end_duration"] for entry in completed]
    # Inputs of 1 kB wait in front of the operator. What is in state: those it has accepted, about twice over (input and
    # journal), the buffers of the network (unaligned checkpoints), and a few bytes a key.
    assert max(sizes) < 2 * PAYLOAD * (MAX_IN_FLIGHT + MAX_QUEUED) + 1_000_000
    last = lines(samples)[-1]
    assert last["in_flight_max"] <= MAX_IN_FLIGHT
    say(
        f"{mode}: {last['done']} inputs, {len(sizes)} checkpoints of {min(durations)}-{max(durations)} ms, "
        f"{min(sizes) // 1000}-{max(sizes) // 1000} kB; at most {last['in_flight_max']} in flight"
    )
