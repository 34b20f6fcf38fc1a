"""Action state stores in memory for the attempts of one simulated job."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flink_agents_py.stores.store import ActionStateStore, StoredRecord
from flink_agents_py.testing.faults import FaultPlan, FaultyStore
from flink_agents_py.testing.memory_store import MemoryStore, MemoryStoreServer


def in_memory() -> Callable[[str], ActionStateStore]:
    """A fresh, empty store: what opens it, once per attempt."""
    return StoreOfJob().open


class StoreOfJob:
    """One store behind all attempts of a job; each opens a handle of its own. ``plan`` makes all of them fail."""

    def __init__(self) -> None:
        self.server = MemoryStoreServer()
        self.plan = FaultPlan()
        self.handles: list[RecordingStore] = []

    def open(self, job: str) -> ActionStateStore:
        """A handle for the next attempt."""
        handle = RecordingStore(MemoryStore(self.server), self.plan)
        handle.open(job)
        self.handles.append(handle)
        return handle

    @property
    def records(self) -> list[StoredRecord]:
        """All that is stored, of all jobs."""
        return [
            record for job in self.server.records.values() for entries in job.values() for record, _ in entries.values()
        ]

    def of(self, action: str) -> list[int]:
        """Slots stored of an action, over all keys and inputs."""
        return sorted(record.slot for record in self.records if record.action == action)


class RecordingStore(FaultyStore):
    """Keeps what was put, in order."""

    def __init__(self, store: ActionStateStore, plan: FaultPlan) -> None:
        super().__init__(store, plan)
        self.put_records: list[StoredRecord] = []

    def put(self, records: Sequence[StoredRecord]) -> None:
        """Note the records once they are written."""
        super().put(records)
        self.put_records += records
