"""Checkpoints complete while calls hang and while inputs pile up."""

from __future__ import annotations

import os

import pytest

from tests.support.flink import eventually
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
    hang_to = min(calls.ends[call][0]["at"] for call in calls.starts if call[1].startswith("hanging") if calls.ends[call])
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
    print(
        f"{mode}: all {HANGING} hung for {(hang_to - hang_from) / 1000:.1f} s; {len(completed)} checkpoints of "
        f"{min(completed)}-{max(completed)} ms and {len(meanwhile)} outputs in that time"
    )
