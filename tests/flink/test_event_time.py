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


def watermarks_of(written):
    return sorted({line["watermark"] for line in written if line["kind"] == "watermark"})


# In thread mode alone: PyFlink's process mode registers the timers of the bundle that a checkpoint flushes only after
# the checkpoint. Runs that were suspended in it come back without the timers that resume them.
THREAD = pytest.mark.parametrize("mode", ["thread"])


def test_a_crash_in_the_middle_changes_no_window_and_no_watermark(host, mode, tmp_path, spec):
    """An action fails once, with some 25 inputs unfinished; nothing is released early, and none of it is lost."""
    logs = {}
    for name, fail_at in (("undisturbed", -1), ("crashed", 45)):
        outputs = tmp_path / f"{name}.jsonl"
        job = host.start(
            "event_time",
            mode,
            {
                **spec,
                "outputs": str(outputs),
                "per_second": 40,
                "fail_at": fail_at,
                "marker": str(tmp_path / "failed"),
                "config": {"resume-timer-interval": 100},
            },
            parallelism=2,
            execution__checkpointing__interval="200 ms",
            execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
            restart_strategy__fixed_delay__attempts=3,
            restart_strategy__fixed_delay__delay="100 ms",
        )
        job.wait()
        logs[name] = watermarks_of(check_event_time(outputs, COUNT, KEYS))
    assert (tmp_path / "failed").exists()
    if mode == "thread":  # process mode learns of watermarks once a bundle, perhaps only of the last
        # Every watermark of the source is one of its timestamps, less a constant; on a busy machine some are skipped.
        assert len(logs["crashed"]) >= len(logs["undisturbed"]) / 2


def test_one_to_two_to_one_subtasks_through_savepoints(host, mode, tmp_path, outputs, spec):
    savepoint = ""
    for parallelism, wanted in ((1, 10), (2, 25), (1, None)):
        restore = {"execution__state_recovery__path": savepoint} if savepoint else {}
        job = host.start("event_time", mode, {**spec, "per_second": 15}, parallelism=parallelism, **restore)
        if wanted is None:
            job.wait()
        else:
            eventually(lambda wanted=wanted: len(seen(outputs)) >= wanted, what=f"{wanted} outputs")
            savepoint = job.stop(tmp_path / "savepoints")
    check_event_time(outputs, COUNT, KEYS)


def seen(outputs):
    return {line["number"] for line in lines(outputs) if line["kind"] == "output"}


def test_event_time_can_be_switched_on_with_a_savepoint_from_before(host, mode, tmp_path, outputs, spec):
    """The restored runs began before any synthetic key was there, and are waited for all the same."""
    spec |= {"per_second": 15, "seconds": 2.0}
    job = host.start("event_time", mode, {**spec, "event_time": False})
    eventually(lambda: len(seen(outputs)) >= 10)
    savepoint = job.stop(tmp_path / "savepoints")
    before = len(lines(outputs))
    host.start("event_time", mode, spec, execution__state_recovery__path=savepoint).wait()
    assert seen(outputs) == set(range(COUNT))
    written = lines(outputs)[before:]
    assert not late_records(written)
    assert windows_of(written)
    for line in written:
        if line["kind"] == "output":
            assert (line["watermark"] or 0) < line["timestamp"]
