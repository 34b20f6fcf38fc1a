"""A pytest plugin: counts the crash points that tests try, over all workers, and says so in the summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from flink_agents_py.testing import CrashReport, Scenario, crash_everywhere

_TOTAL = pytest.StashKey[CrashReport]()
_VIOLATIONS = pytest.StashKey[int]()
_OUTPUT = "crash points"


@pytest.fixture
def crash(request: pytest.FixtureRequest) -> Callable[..., CrashReport]:
    """``crash_everywhere``, with its points added to the sum in the summary."""
    config = request.config

    def counted(scenario: Scenario, **options: Any) -> CrashReport:
        try:
            report = crash_everywhere(scenario, **options)
        except AssertionError:
            _add(config, CrashReport(), 1)
            raise
        _add(config, report, 0)
        return report

    return counted


def _add(config: pytest.Config, report: CrashReport, violations: int) -> None:
    config.stash[_TOTAL] = config.stash.get(_TOTAL, CrashReport()) + report
    config.stash[_VIOLATIONS] = config.stash.get(_VIOLATIONS, 0) + violations


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker: tell the one that sums up."""
    config = session.config
    if _TOTAL in config.stash and hasattr(config, "workeroutput"):
        config.workeroutput[_OUTPUT] = [asdict(config.stash[_TOTAL]), config.stash[_VIOLATIONS]]


def pytest_testnodedown(node: Any) -> None:
    """A worker has ended (pytest-xdist)."""
    output = getattr(node, "workeroutput", {})  # a worker that crashed has none
    if _OUTPUT in output:
        report, violations = output[_OUTPUT]
        _add(node.config, CrashReport(**report), violations)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if _TOTAL in config.stash:
        total, violations = config.stash[_TOTAL], config.stash[_VIOLATIONS]
        terminalreporter.write_line(
            f"crash points tried: {total.points:,}, violations: {violations} "
            f"(calls answered from journals: {total.replayed_calls:,}, made again: {total.repeated_calls:,})"
        )
