"""A bounded job ends when all of its work has (S11)."""

from __future__ import annotations

import pytest

from tests.support.chain import check_calls, check_outputs
from tests.support.ledger import lines

COUNT, KEYS = 24, 8


@pytest.mark.parametrize(("parallelism", "checkpointing", "per_second"), [(1, False, 0), (2, True, 0), (2, False, 40)])
def test_slow_last_calls_are_waited_for(host, mode, parallelism, checkpointing, per_second, tmp_path, ledger, outputs):
    """The source ends right after its last record; all calls of it and of the inputs queued behind it come later."""
    options = {"execution__checkpointing__interval": "200 ms"} if checkpointing else {}
    host.run(
        "chain",
        mode,
        {
            "count": COUNT,
            "keys": KEYS,
            "per_second": per_second,
            "seconds": 0.2,
            "ledger": str(ledger),
            "outputs": str(outputs),
        },
        parallelism=parallelism,
        **options,
    )
    written = check_outputs(outputs, COUNT, KEYS)
    assert len(written) == COUNT
    assert not check_calls(ledger, COUNT).repeated()


def test_an_agent_without_input_ends(host, mode, tmp_path, ledger, outputs):
    # Two keys of which one subtask of three gets none.
    host.run("chain", mode, {"count": 2, "keys": 2, "ledger": str(ledger), "outputs": str(outputs)}, parallelism=3)
    assert len(lines(outputs)) == 2
