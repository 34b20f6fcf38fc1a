"""A store that fails is asked again, as often as its options say."""

from __future__ import annotations

import pytest

from flink_agents_py.errors import FencedError, StoreError
from flink_agents_py.stores.retrying import RetryingStore
from flink_agents_py.stores.store import StoredRecord
from flink_agents_py.testing.faults import FaultPlan, FaultyStore
from flink_agents_py.testing.memory_store import MemoryStore, MemoryStoreServer

RECORD = StoredRecord(b"key", 1, b"e" * 16, "action", 0, '"value"')


@pytest.fixture
def server():
    return MemoryStoreServer()


def retrying(server, plan, sleep, *, max_attempts=3):
    faulty = FaultyStore(MemoryStore(server), plan)
    store = RetryingStore(faulty, max_attempts=max_attempts, interval_ms=250, sleep=sleep)
    return faulty, store


def test_an_operation_is_tried_again_after_the_interval_until_it_works(server):
    plan = FaultPlan()
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            plan.down = False

    faulty, store = retrying(server, plan, sleep)
    store.open("job")
    plan.down = True
    store.put([RECORD])
    assert faulty.calls == ["open", "put", "put", "put"]
    assert waits == [0.25, 0.25]
    assert store.claim(b"key") == [RECORD]


def test_when_the_attempts_are_used_up_the_error_is_the_stores(server):
    waits = []
    plan = FaultPlan()
    faulty, store = retrying(server, plan, waits.append)
    store.open("job")
    plan.down = True
    with pytest.raises(StoreError):
        store.put([RECORD])
    assert faulty.calls.count("put") == 3
    assert len(waits) == 2


def test_a_lost_acknowledgement_leaves_one_record(server):
    plan = FaultPlan()
    _, store = retrying(server, plan, lambda _: None)
    store.open("job")
    plan.lose_acknowledgements = 1
    store.put([RECORD])
    assert store.claim(b"key") == [RECORD]


def test_who_is_fenced_off_does_not_try_again(server):
    waits = []
    faulty, older = retrying(server, FaultPlan(), waits.append)
    older.open("job")
    _, newer = retrying(server, FaultPlan(), waits.append)
    newer.open("job")
    newer.claim(b"key")
    with pytest.raises(FencedError):
        older.put([RECORD])
    assert faulty.calls.count("put") == 1
    assert waits == []
