"""What several files of this folder ask for."""

from __future__ import annotations

import pytest

from tests.support.recorded import bodies
from tests.support.stores import StoreOfJob


@pytest.fixture
def store() -> StoreOfJob:
    """An empty store, and no body of an action counted yet."""
    bodies.clear()
    return StoreOfJob()
