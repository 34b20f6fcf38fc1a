"""Watermarks wait for unfinished inputs, and for nothing else (S10)."""

from __future__ import annotations

import pytest

from tests.support.flink import eventually
from tests.support.ledger import lines
from tests.support.windows import check_event_time, due_windows, late_records, windows_of

COUNT, KEYS = 60, 6


@pytest.fixture
def spec(outputs):
    return {"count": COUNT, "keys": KEYS, "per_second": 60, "seconds": 0.5, "outputs": str(outputs)}


@pytest.mark.parametrize(
    ("parallelism", "variant"),
    [(1, {}), (2, {"packed": True}), (4, {"keys": 1, "seconds": 0.1}), (4, {"idle": True})],
    ids=["one subtask", "packed outputs", "one hot key", "an idle source"],
)
def test_windows_behind_a_slow_agent_fire_while_the_stream_runs(host, mode, outputs, spec, parallelism, variant):
    """The source says nothing more after the last input, and does not end either."""
    spec |= {"forever": True, **variant}
    host.start("event_time", mode, spec, parallelism=parallelism)
    due = due_windows(COUNT, spec["keys"])
    assert len(due) >= 5
    eventually(lambda: windows_of(lines(outputs)).keys() >= due.keys(), what="all windows that are due have fired")
    host.ask("cancel")
    written = lines(outputs)
    assert windows_of(written) == due
    assert not late_records(written)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_all_windows_of_a_bounded_input_are_complete(host, mode, outputs, spec, parallelism):
    spec |= {"packed": parallelism == 1}
    host.run("event_time", mode, spec, parallelism=parallelism)
    check_event_time(outputs, COUNT, KEYS)
