"""Marks tests by the folder they are in, and shares them out among two processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.sharing import Sharing, place_of

FLINK_TESTS = Path(__file__).parent / "flink"
WORKERS = 2

pytest_plugins = ["tests.support.crash_points"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FLINK_TESTS in item.path.parents and not item.get_closest_marker("cluster"):
            item.add_marker("flink")
    items.sort(key=lambda item: place_of(item.nodeid))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """What ``-n auto`` in pyproject.toml means: two workers, but none for files that were named."""
    named = any(Path(argument.partition("::")[0]).is_file() for argument in config.args)
    return 0 if named else WORKERS


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    return Sharing(config, log)
