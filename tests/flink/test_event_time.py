"""Watermarks wait for unfinished inputs, and for nothing else (S10)."""

from __future__ import annotations

import pytest

from tests.support.flink import eventually
from tests.support.ledger import lines
from tests.support.windows import (
    check_event_time,
    check_looks,
    due_windows,
    expected_windows,
    late_records,
    watermarks_of_the_source,
    windows_of,
)

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


def test_a_crash_in_the_middle_changes_no_window_and_no_watermark(host, mode, tmp_path, outputs, spec):
    """An action fails once, with some 25 inputs unfinished; nothing is released early, and none of it is lost.

    Nor is anything held for longer than it must be: windows fire while the stream goes on, before and after.
    """
    # The keys keep up with the source: what comes before the first watermark of an attempt holds all of them back, and
    # in a growing backlog it would do so for long. The source never ends, so that no end of input lets windows fire.
    many, keys = 600, 18
    host.start(
        "event_time",
        mode,
        {
            **spec,
            "restores": True,
            "count": many,
            "keys": keys,
            "forever": True,
            "per_second": 40,
            "fail_at": 45,
            "marker": str(tmp_path / "failed"),
            "config": {"resume-timer-interval": 100},
        },
        parallelism=2,
        execution__checkpointing__interval="200 ms",
        execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
        restart_strategy__fixed_delay__attempts=1,
        restart_strategy__fixed_delay__delay="100 ms",
    )
    due = due_windows(180, keys)
    eventually(lambda: windows_of(lines(outputs)).keys() >= due.keys(), what="windows of the first inputs have fired")
    host.ask("cancel")
    assert (tmp_path / "failed").exists()
    written = lines(outputs)
    expected = expected_windows(many, keys)
    assert windows_of(written) == {window: expected[window] for window in windows_of(written)}
    for kind in ("output", "third"):
        check_looks(written, kind, seen(outputs, kind))
    watermarks = {line["watermark"] for line in written if line["kind"] == "watermark"}
    assert watermarks
    assert watermarks <= watermarks_of_the_source(many), "a watermark that is none of the source's"


def seen(outputs, kind="output"):
    return {line["number"] for line in lines(outputs) if line["kind"] == kind}


def test_one_to_two_to_one_subtasks_through_savepoints(host, mode, tmp_path, outputs, spec):
    spec |= {"restores": True}
    restore = {}
    for parallelism, given in ((1, 20), (2, 40)):
        job = host.start("event_time", mode, {**spec, "per_checkpoint": 20}, parallelism=parallelism, **restore)
        eventually(lambda given=given: len(seen(outputs)) >= given - 10, what=f"{given - 10} outputs")
        restore = {"execution__state_recovery__path": job.stop(tmp_path / "savepoints")}
    host.run("event_time", mode, spec, **restore)
    check_event_time(outputs, COUNT, KEYS)


def test_event_time_can_be_switched_on_with_a_savepoint_from_before(host, mode, tmp_path, outputs, spec):
    """The restored runs began before any synthetic key was there, and are waited for all the same."""
    spec |= {"seconds": 1.0, "restores": True}
    job = host.start("event_time", mode, {**spec, "event_time": False, "per_checkpoint": 20})
    eventually(lambda: len(seen(outputs)) >= 10, what="10 outputs")
    savepoint = job.stop(tmp_path / "savepoints")
    before = len(lines(outputs))
    host.run("event_time", mode, spec, execution__state_recovery__path=savepoint)
    assert seen(outputs) == set(range(COUNT))
    written = lines(outputs)[before:]
    assert windows_of(written)
    for line in written:
        if line["kind"] == "output":
            assert (line["watermark"] or 0) < line["timestamp"]
