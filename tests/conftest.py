"""Marks tests by the folder they are in."""

from __future__ import annotations

from pathlib import Path

import pytest

FLINK_TESTS = Path(__file__).parent / "flink"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FLINK_TESTS in item.path.parents and not item.get_closest_marker("cluster"):
            item.add_marker("flink")
