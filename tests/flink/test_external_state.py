"""Keyed state of external actions on Flink: what is remembered survives savepoints and rescaling."""

from __future__ import annotations

import pytest

from tests.support.flink import eventually
from tests.support.ledger import lines

KEYS = 6


@pytest.mark.flink
@pytest.mark.timeout(300)  # three jobs, on a machine that does other things too
def test_deeds_are_remembered_over_savepoints_and_rescaling_and_older_savepoints_restore(
    host, mode, tmp_path, ledger, outputs
):
    """In thread mode the first savepoint is of the agent without external actions; each job reads the inputs anew."""

    def run(doing, wanted, savepoint="", parallelism=1):
        restore = {"execution__state_recovery__path": savepoint} if savepoint else {}
        spec = {"keys": KEYS, "round": wanted, "doing": doing, "ledger": str(ledger), "outputs": str(outputs)}
        audit = str(tmp_path / "audit")
        # The source of the round before has no successor.
        lenient = {"execution__state_recovery__ignore_unclaimed_state": True}
        job = host.start("deeds", mode, {**spec, "audit": audit}, parallelism=parallelism, **lenient, **restore)
        eventually(lambda: len(lines(outputs)) >= wanted)
        return job.stop(tmp_path / "savepoints")

    older = ""
    if mode == "thread":  # where it costs less
        older = run(doing=False, wanted=KEYS)
        assert not ledger.exists()
    already = len(lines(outputs))
    first = run(doing=True, wanted=already + KEYS, savepoint=older)
    run(doing=True, wanted=already + 2 * KEYS, savepoint=first, parallelism=2)
    said = [line for line in lines(outputs) if line["mode"]]
    earlier = already // KEYS
    assert sorted(line["sequence"] for line in said) == [earlier + 1] * KEYS + [earlier + 2] * KEYS
    assert all(line["code"] == "SUCCESS" and line["value"] == {"pong": line["key"]} for line in said)
    assert [line["deduplicated"] for line in said] == [False] * KEYS + [True] * KEYS
    assert len(lines(ledger)) == KEYS
    assert len(lines(tmp_path / "audit")) == 2 * KEYS
