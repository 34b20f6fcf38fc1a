"""Counts the crash points that the tests of this folder try and says so in the summary; an action state store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flink_agents_py.testing import CrashReport, Scenario, crash_everywhere
from tests.support.recorded import bodies
from tests.support.stores import StoreOfJob

_TOTAL = pytest.StashKey[CrashReport]()
_VIOLATIONS = pytest.StashKey[int]()


@pytest.fixture
def crash(request: pytest.FixtureRequest) -> Callable[..., CrashReport]:
    """``crash_everywhere``, with its points added to the sum in the summary."""
    stash = request.config.stash

    def counted(scenario: Scenario, **options: Any) -> CrashReport:
        try:
            report = crash_everywhere(scenario, **options)
        except AssertionError:
            stash[_VIOLATIONS] = stash.get(_VIOLATIONS, 0) + 1
            raise
        stash[_TOTAL] = stash.get(_TOTAL, CrashReport()) + report
        return report

    return counted


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    total = config.stash.get(_TOTAL, None)
    violations = config.stash.get(_VIOLATIONS, 0)
    if total is not None or violations:
        total = total or CrashReport()
        terminalreporter.write_line(
            f"crash points tried: {total.points:,}, violations: {violations} "
            f"(calls answered from journals: {total.replayed_calls:,}, made again: {total.repeated_calls:,})"
        )


@pytest.fixture
def store() -> StoreOfJob:
    """An empty store, and no body of an action counted yet."""
    bodies.clear()
    return StoreOfJob()
