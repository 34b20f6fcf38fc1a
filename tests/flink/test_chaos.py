"""A short ``./dev chaos``: TaskManagers killed under a job with a store in a file."""

from __future__ import annotations

import pytest

from jobs.chaos.cli import Spec, run
from tests.support.flink import say


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_killed_taskmanagers_lose_nothing_and_repeat_only_calls_in_flight(tmp_path):
    verdict = run(Spec(seconds=12, every=3, rate=25, keys=20, store="sqlite"), tmp_path)
    say("\n".join(verdict.lines()))
    assert verdict.violations == []
    assert verdict.figures["taskmanagers_killed"] >= 1
    assert verdict.figures["outputs"] + verdict.figures["dead_letters"] == 300
