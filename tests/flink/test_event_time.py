"""Watermarks wait for unfinished inputs, and for nothing else (S10)."""

from __future__ import annotations

import pytest

from tests.support.flink import eventually
from tests.support.ledger import lines
from tests.support.windows import check_event_time, windows_of

COUNT, KEYS = 60, 6


@pytest.fixture
def spec(outputs):
    return {"count": COUNT, "keys": KEYS, "per_second": 40, "seconds": 1.0, "outputs": str(outputs)}


@pytest.mark.parametrize(
    ("parallelism", "variant"),
    [(1, {}), (2, {"packed": True}), (4, {"keys": 1}), (4, {"idle": True, "forever": True})],
    ids=["one subtask", "packed outputs", "one hot key", "an idle source"],
)
def test_windows_behind_a_slow_agent_are_complete_and_fire_while_the_stream_runs(
    host, mode, outputs, spec, parallelism, variant
):
    spec |= variant
    job = host.start("event_time", mode, spec, parallelism=parallelism)
    seen = eventually(lambda: len(lines(outputs)) and len(windows_of(lines(outputs))) >= 4, what="windows fire")
    assert seen
    early = lines(outputs)
    if spec.get("forever"):
        eventually(lambda: len({line.get("number") for line in lines(outputs) if line["kind"] == "output"}) == COUNT)
        host.ask("cancel")
        # The last windows wait for a watermark that never comes.
        written = lines(outputs)
        assert not [line for line in written if line["kind"] == "late"]
        return
    job.wait()
    check_event_time(outputs, spec["count"], spec["keys"])
    assert len({line["number"] for line in early if line["kind"] == "output"}) < COUNT
