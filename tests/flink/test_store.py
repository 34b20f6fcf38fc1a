"""Failures at every named point, in both execution modes: with a store nothing recorded is done again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flink_agents_py.engine.failpoints import POINTS
from flink_agents_py.testing.failpoints import VARIABLE
from tests.support.chain import (
    Gate,
    check_calls,
    check_not_repeated_once_known,
    check_outputs,
    everything_out,
    recorded_before,
    restored_checkpoint,
    steps_made_again,
)
from tests.support.flink import MODES, FlinkHost, eventually, say
from tests.support.ledger import Ledger, lines, repetitions

COUNT, KEYS = 90, 15
KNOWN, HELD = 24, 60
"""Inputs that are over before the failure; those from HELD on are held until it is armed, so that it has to come."""
NEVER = 60 * 60_000
"""Time between checkpoints, ms, of a job that ends before the first."""


class Failpoints:
    """The points of a host, none of which is armed: each has its marker already."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.disarm()

    @property
    def environment(self) -> str:
        return ",".join(f"{point}=raise@1:{self._marker(point)}" for point in POINTS)

    def _marker(self, point: str) -> Path:
        return self._folder / point

    def disarm(self) -> None:
        for point in POINTS:
            self._marker(point).touch()

    def arm(self, point: str) -> None:
        """Let the job that runs fail when it comes there, once."""
        self._marker(point).unlink()

    def failed(self, point: str) -> bool:
        return self._marker(point).exists()


@pytest.fixture(scope="session")
def failpoints(tmp_path_factory) -> Failpoints:
    return Failpoints(tmp_path_factory.mktemp("failpoints"))


@pytest.fixture(scope="session")
def failing_hosts(failpoints, tmp_path_factory) -> Iterator[dict[str, FlinkHost]]:
    """A host for both modes would do; one each keeps what a job leaves behind in its process from the other's."""
    logs = tmp_path_factory.mktemp("failing-hosts")
    hosts = {name: FlinkHost(logs / name, **{VARIABLE: failpoints.environment}) for name in MODES}
    yield hosts
    for host in hosts.values():
        host.close()


@pytest.fixture
def run_to_failure(failing_hosts, mode, failpoints, tmp_path, ledger, outputs):
    """Run the chain with one failure at a point; outputs, calls, and the checkpoint it was restored from, if any."""

    def run(point, config, *, interval):
        host, gate, checkpoints = failing_hosts[mode], Gate(tmp_path, HELD), interval < NEVER
        host.ask("cancel")  # what a test that failed has left must not take the failure
        failpoints.disarm()
        spec = {"count": COUNT, "keys": KEYS, "per_second": 60, "seconds": 0.1, "gates": [gate.spec]}
        job = host.start(
            "chain",
            mode,
            # With checkpoints, the job is to be there still when it is asked which one was restored.
            {**spec, "ledger": str(ledger), "outputs": str(outputs), "config": config, "forever": checkpoints},
            execution__checkpointing__interval=f"{interval} ms",
            execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
            restart_strategy__fixed_delay__attempts=1,
            restart_strategy__fixed_delay__delay="200 ms",
        )
        if checkpoints:
            eventually(lambda: job.check_runs() and len(lines(outputs)) >= KNOWN, what=f"{KNOWN} outputs")
            job.wait_for_checkpoint()
        else:  # at the end of the input, process mode hands its outputs over when all are there
            eventually(lambda: job.check_runs() and inputs_over(ledger) >= KNOWN, what=f"{KNOWN} inputs are over")
        failpoints.arm(point)
        gate.open()
        eventually(lambda: failpoints.failed(point) or not job.check_runs(), what=f"the job fails at {point}")
        restored = None
        if checkpoints:
            restored = restored_checkpoint(eventually(job.restored, what="the job restarts"))
            eventually(lambda: everything_out(outputs, COUNT), what="all outputs")
            host.ask("cancel")
        else:
            job.wait()
        written = check_outputs(outputs, COUNT, KEYS)
        calls = check_calls(ledger, COUNT)
        assert max(map(len, calls.starts.values())) <= 2, "there were two attempts"
        again = f"{len(calls.repeated())} of {len(calls.starts)} calls made again, {repetitions(written)} outputs"
        say(f"{mode}, {point}, store {config.get('action-state-store.backend', 'none')}: {again}")
        return written, calls, restored

    return run


def inputs_over(ledger):
    return sum(name == "last" for name, _, _ in Ledger(ledger).ends)


@pytest.mark.parametrize("point", POINTS)
def test_with_a_store_a_call_whose_outcome_is_recorded_is_not_made_again(run_to_failure, tmp_path, point):
    store = {
        "action-state-store.backend": "sqlite",
        "action-state-store.url": str(tmp_path / "state.db"),
        "job-identifier": "chain",
    }
    # Checkpoints are far apart: it is the store that knows what was done since the last one, or ever.
    written, calls, _ = run_to_failure(point, store, interval=NEVER)
    check_not_repeated_once_known(calls, written)
    for key, steps in steps_made_again(calls).items():
        assert len(steps) == 1, f"{key} awaited one step of one input when the job failed, not {steps}"


@pytest.mark.parametrize("point", ["call-made", "before-emit"])
def test_without_a_store_calls_since_the_last_checkpoint_are_made_again_under_the_same_key(run_to_failure, point):
    written, calls, (trigger, restore) = run_to_failure(point, {}, interval=200)
    recorded = recorded_before(calls, written, trigger)
    assert len(recorded) >= KNOWN * 4
    calls.check_not_repeated(recorded, restore)
