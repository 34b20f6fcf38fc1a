from __future__ import annotations

import pytest

from flink_agents_py.testing.memory_store import MemoryStore, MemoryStoreServer
from tests.stores.conformance import StoreConformance


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def make(self):
        server = MemoryStoreServer()
        return lambda clock: MemoryStore(server, clock)
