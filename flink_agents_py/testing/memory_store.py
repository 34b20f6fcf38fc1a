"""An action state store in memory, which survives what a test does to the attempts that use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock

from flink_agents_py.stores.failures import fenced, not_open
from flink_agents_py.stores.records import ALL_SEQUENCES, Identity, effective, identity_of, prunable
from flink_agents_py.stores.store import FINISHED, StoredRecord


class MemoryStoreServer:
    """What several :class:`MemoryStore` share: records by job, key and identity, epochs, owners of keys."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.epochs: dict[str, int] = {}
        self.owners: dict[tuple[str, bytes], tuple[int, int]] = {}  # epoch, since when (ms)
        self.records: dict[str, dict[bytes, dict[Identity, tuple[StoredRecord, int]]]] = {}


class MemoryStore:
    """A handle on records in memory; ``open`` again (or open another handle of the server) for a newer attempt.

    Args:
        server: where the records are; one of its own if not given.
        clock: current time in ms; a virtual clock's ``now_ms`` fits.
    """

    def __init__(self, server: MemoryStoreServer | None = None, clock: Callable[[], int] | None = None) -> None:
        self.server = server or MemoryStoreServer()
        self._clock = clock or (lambda: 0)
        self._job: str | None = None
        self._epoch = 0

    @property
    def records(self) -> list[StoredRecord]:
        """All records of the job, for assertions."""
        with self.server.lock:
            jobs = self.server.records.get(self._job or "", {})
            return [record for records in jobs.values() for record, _ in records.values()]

    def open(self, job: str) -> None:
        with self.server.lock:
            self._job = job
            self._epoch = self.server.epochs[job] = self.server.epochs.get(job, 0) + 1

    def claim(self, key: bytes, *, from_sequence: int = ALL_SEQUENCES) -> list[StoredRecord]:
        with self.server.lock:
            self._own(self._opened("claim"), [key])
            found = self._of("claim").get(key, {}).values()
            return [record for record, _ in found if record.sequence >= from_sequence]

    def put(self, records: Sequence[StoredRecord]) -> None:
        now = self._clock()
        with self.server.lock:
            self._own(self._opened("put"), [record.key for record in records])
            for record in effective(records):
                identity = identity_of(record)
                entries = self._of("put").setdefault(record.key, {})
                entries[identity] = (record, now)
                if record.slot == FINISHED:
                    for other in [other for other in entries if other[:3] == identity[:3] and other.slot != FINISHED]:
                        del entries[other]

    def forget(self, key: bytes, sequence: int) -> None:
        with self.server.lock:
            self._own(self._opened("forget"), [key])
            entries = self._of("forget").get(key, {})
            for identity in [identity for identity in entries if identity.sequence == sequence]:
                del entries[identity]

    def prune(self, *, before_ms: int) -> int:
        dropped = 0
        with self.server.lock:
            job = self._opened("prune")
            kept = self._of("prune")
            for key, entries in list(kept.items()):
                for identity in prunable([(identity, ms) for identity, (_, ms) in entries.items()], before_ms):
                    del entries[identity]
                    dropped += 1
                if not entries:
                    del kept[key]
            for (owned_job, key), (_, since_ms) in list(self.server.owners.items()):
                if owned_job == job and since_ms < before_ms and key not in kept:
                    del self.server.owners[owned_job, key]
        return dropped

    def has_any(self) -> bool:
        with self.server.lock:
            return any(self._of("has_any").values())

    def close(self) -> None:
        self._job = None

    def _opened(self, operation: str) -> str:
        if self._job is None:
            raise not_open(operation)
        return self._job

    def _of(self, operation: str) -> dict[bytes, dict[Identity, tuple[StoredRecord, int]]]:
        return self.server.records.setdefault(self._opened(operation), {})

    def _own(self, job: str, keys: Sequence[bytes]) -> None:
        for key in keys:
            owner, _ = self.server.owners.get((job, key), (0, 0))
            if owner > self._epoch:
                raise fenced(key, self._epoch, owner)
        for key in keys:
            if self.server.owners.get((job, key), (0, 0))[0] < self._epoch:
                self.server.owners[job, key] = (self._epoch, self._clock())
