"""Agents that agents call, on Flink and over a restart, in both modes."""

from __future__ import annotations

from tests.support.ledger import lines

COUNT, KEYS = 60, 4


def test_a_called_agent_has_its_own_memory_and_loses_none_of_it_in_a_restart(host, mode, tmp_path, ledger, outputs):
    marker = tmp_path / "failed"
    host.run(
        "called_agents",
        mode,
        {
            "count": COUNT,
            "keys": KEYS,
            "per_second": 30,
            "ledger": str(ledger),
            "outputs": str(outputs),
            "fail_at": 40,
            "marker": str(marker),
        },
        execution__checkpointing__interval="200 ms",
        execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
        restart_strategy__fixed_delay__attempts=1,
        restart_strategy__fixed_delay__delay="100 ms",
    )
    assert marker.exists()
    written = lines(outputs)
    assert {line["number"] for line in written} == set(range(COUNT))
    for line in written:
        count = line["number"] // KEYS + 1
        assert (line["outer"], line["inner"]) == (count, count)
    made = {(call["number"], call["idempotency_key"]) for call in lines(ledger) if call["phase"] == "start"}
    assert len(made) == COUNT, "each call has one key of its own, however often it was made"
    assert len({key for _, key in made}) == COUNT
