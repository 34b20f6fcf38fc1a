"""Failures at every named point, in both execution modes: with a store nothing recorded is done again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from flink_agents_py.engine.failpoints import POINTS
from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.testing.failpoints import VARIABLE
from tests.support.chain import (
    check_calls,
    check_not_repeated_once_known,
    check_outputs,
    recorded_before,
    restored_checkpoint,
)
from tests.support.flink import FlinkHost, eventually, say
from tests.support.ledger import repetitions

COUNT, KEYS = 90, 15
NEVER = 60_000
"""Time between checkpoints, ms, of a job that ends before the first."""
RESTART_DELAY_MS = 200
HITS = {"call-made": 25, "before-record": 120, "after-record": 120, "before-emit": 80}
"""So often a point is passed before the job fails at it; process mode passes them least often."""


class Failpoints:
    """The points of a host, none of which is armed: each has its marker already."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for point in POINTS:
            self.marker(point).touch()

    @property
    def environment(self) -> str:
        return ",".join(f"{point}=raise@{HITS[point]}:{self.marker(point)}" for point in POINTS)

    def marker(self, point: str) -> Path:
        return self._folder / point

    def arm(self, point: str) -> None:
        """Let the next job fail there, once."""
        self.marker(point).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def failpoints(tmp_path_factory) -> Failpoints:
    return Failpoints(tmp_path_factory.mktemp("failpoints"))


@pytest.fixture(scope="module", params=["thread", "process"])
def failing_host(request, failpoints, tmp_path_factory) -> Iterator[tuple[str, FlinkHost]]:
    """A host for both modes would do; one each keeps what a job leaves behind in its process from the other's."""
    host = FlinkHost(tmp_path_factory.mktemp("host") / "log", **{VARIABLE: failpoints.environment})
    yield request.param, host
    host.close()


@pytest.fixture
def run_to_failure(failing_host, failpoints, tmp_path, ledger, outputs):
    """Run the chain with one failure at a point; outputs, calls, and the checkpoint it was restored from, if known."""

    def run(point, config, *, interval):
        mode, host = failing_host
        failpoints.arm(point)
        spec = {"count": COUNT, "keys": KEYS, "per_second": 25, "seconds": 0.1}
        job = host.start(
            "chain",
            mode,
            {**spec, "ledger": str(ledger), "outputs": str(outputs), "config": config},
            execution__checkpointing__interval=f"{interval} ms",
            execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
            restart_strategy__fixed_delay__attempts=1,
            restart_strategy__fixed_delay__delay=f"{RESTART_DELAY_MS} ms",
        )
        eventually(failpoints.marker(point).exists, what="the job fails")
        restored = restored_from(job) if interval < NEVER else None
        job.wait()
        written = check_outputs(outputs, COUNT, KEYS)
        calls = check_calls(ledger, COUNT)
        again = f"{len(calls.repeated())} of {len(calls.starts)} calls made again, {repetitions(written)} outputs"
        say(f"{mode}, {point}, store {config.get('action-state-store.backend', 'none')}: {again}")
        return written, calls, restored

    return run


def restored_from(job):
    """When the checkpoint it was restored from was triggered, and when it was restored; None if it was not."""

    def restored():
        checkpoints = job.checkpoints(job.id)
        return checkpoints["latest"]["restored"] and checkpoints

    with suppress(EnvironmentSetupError):  # the JobManager goes with its job
        return restored_checkpoint(eventually(restored, what="the job restarts"))
    return None


@pytest.mark.parametrize("point", POINTS)
def test_with_a_store_a_call_whose_outcome_is_recorded_is_not_made_again(run_to_failure, failpoints, tmp_path, point):
    store = {
        "action-state-store.backend": "sqlite",
        "action-state-store.url": str(tmp_path / "state.db"),
        "job-identifier": "chain",
    }
    # Checkpoints are far apart: it is the store that knows what was done since the last one, or ever.
    written, calls, _ = run_to_failure(point, store, interval=NEVER)
    check_not_repeated_once_known(calls, written)
    # A call that was handed over before the failure may begin a moment after it, but not after the restart.
    restarted = failpoints.marker(point).stat().st_mtime * 1000 + RESTART_DELAY_MS
    before = [call for call, starts in calls.starts.items() if starts[0]["at"] < restarted]
    assert set(calls.repeated()) <= set(before)
    assert len(calls.repeated()) < len(before) / 2


@pytest.mark.parametrize("point", ["call-made", "before-emit"])
def test_without_a_store_calls_since_the_last_checkpoint_are_made_again_under_the_same_key(run_to_failure, point):
    written, calls, restored = run_to_failure(point, {}, interval=200)
    if restored is not None:
        trigger, restore = restored
        calls.check_not_repeated(recorded_before(calls, written, trigger), restore)
    assert len(calls.repeated()) < len(calls.starts) / 2
