"""Action state in a compacted topic of Kafka.

The topic is the store: its log orders claims and writes, and a reader that has read to its own message knows all that
came before. A key always goes to the same partition, so a claim reads one partition (incrementally, from the beginning
on first use). An epoch is the offset of a message that :meth:`KafkaStore.open` writes, so Kafka hands them out.

What it promises: a put is one Kafka transaction, acknowledged by all in-sync replicas (``min.insync.replicas`` is for
the topic's owner to set). A record counts if no claim by a newer epoch stands before it in the log; a put reads back to
its own records and reports ``FencedError`` if they do not count. What it does not: should a claim and a put of a fenced
attempt with several keys cross within the milliseconds of the put, the records of its other keys stay; and what a
fenced attempt puts or forgets in those milliseconds can, once Kafka has compacted the log, make a record of equal
identity go that it had written before.

A writer that dies in a put keeps its partitions from being read on, for two seconds: then who wants to read undoes its
transaction (a live one that was slower than that has to put again). The number of partitions must not be changed. Give
each job, or each small group of jobs, a topic of its own: a claim reads past the records of all jobs in it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from flink_agents_py.stores.failures import Credentials, failed, fenced, not_open
from flink_agents_py.stores.kafka_client import KafkaTopic
from flink_agents_py.stores.kafka_index import KafkaIndex
from flink_agents_py.stores.kafka_log import (
    Message,
    epoch_message,
    owner_message,
    prefix_of,
    read,
    record_message,
    tombstone,
)
from flink_agents_py.stores.records import ALL_SEQUENCES, effective, identity_of, keys_of, record_from
from flink_agents_py.stores.store import StoredRecord

_TOMBSTONES_AT_ONCE = 1000


class KafkaStore:
    """An :class:`~flink_agents_py.stores.store.ActionStateStore` in a topic.

    Args:
        url: ``kafka://host:port,host:port?...`` without credentials; parameters are librdkafka's.
        credentials: who to be (SASL).
        topic: its name; it is made if missing.
        timeout_ms: longest wait for an answer, and for the transaction of a writer that died.
        partitions: of the topic, if it is made here.
        replication: of the topic, if it is made here; the broker's default if not given.
        clock: current time in ms.
    """

    def __init__(
        self,
        url: str,
        *,
        credentials: Credentials = Credentials(),  # noqa: B008 - immutable
        topic: str = "flink_agents_py",
        timeout_ms: int = 10_000,
        partitions: int = 16,
        replication: int | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._topic = KafkaTopic(
            url,
            topic,
            credentials=credentials,
            timeout_ms=timeout_ms,
            partitions=partitions,
            replication=replication,
        )
        self._credentials = credentials
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self._lock = Lock()
        self._index: KafkaIndex | None = None
        self._prefix = b""
        self._epoch = 0

    def open(self, job: str) -> None:
        with self._lock, self._reported("open"):
            self._close_index()
            self._topic.connect()
            self._prefix = prefix_of(job)
            (self._epoch,) = self._topic.write([epoch_message(self._prefix)])
            self._index = KafkaIndex()

    def claim(self, key: bytes, *, from_sequence: int = ALL_SEQUENCES) -> list[StoredRecord]:
        partition = self._partition(key)
        with self._used("claim") as index:
            if index.claimed_by(key, self._epoch):
                # The claim stays where it is in the log: written again it would stand behind writes it has refused.
                self._take_in(index, self._topic.read_to_end([partition]))
            else:
                claim = owner_message(partition, self._prefix, key, self._epoch, self._clock())
                self._write(index, [claim])
            self._check(index, [key])
            found = [record_from(key, identity, value) for identity, value in index.of_key(key, from_sequence)]
        return effective(found)

    def put(self, records: Sequence[StoredRecord]) -> None:
        kept = effective(records)
        if not kept:
            return
        keys = keys_of(kept)
        partitions = {key: self._partition(key) for key in keys}
        now = self._clock()
        with self._used("put") as index:
            # A claim that is already there is found before anything is written, one that comes meanwhile after.
            self._take_in(index, self._topic.read_to_end(sorted(set(partitions.values()))))
            self._check(index, keys)
            offsets = self._write(
                index,
                [record_message(partitions[record.key], self._prefix, record, self._epoch, now) for record in kept],
            )
            for record, offset in zip(kept, offsets, strict=True):
                if not index.counts(record.key, identity_of(record), self._epoch, offset):
                    raise fenced(record.key, self._epoch, index.owner(record.key))

    def forget(self, key: bytes, sequence: int) -> None:
        partition = self._partition(key)
        with self._used("forget") as index:
            self._take_in(index, self._topic.read_to_end([partition]))
            self._check(index, [key])
            self._write(
                index,
                [
                    tombstone(partition, self._prefix, key, epoch, identity, by=self._epoch)
                    for identity, epoch in index.all_at(key, sequence)
                ],
            )
            self._check(index, [key])

    def prune(self, *, before_ms: int) -> int:
        with self._used("prune") as index:
            self._take_in(index, self._topic.read_to_end(range(self._topic.partitions)))
            gone = index.prunable(before_ms)
        messages = [tombstone(self._partition(key), self._prefix, key, epoch, which) for key, epoch, which, _ in gone]
        self._write_in_parts(messages)
        with self._used("prune") as index:
            owners = index.obsolete_owners(before_ms)
        self._write_in_parts(
            [owner_message(self._partition(key), self._prefix, key, epoch, None) for key, epoch in owners]
        )
        return sum(record.counted for record in gone)

    def _write_in_parts(self, messages: list[Message]) -> None:
        for start in range(0, len(messages), _TOMBSTONES_AT_ONCE):
            with self._used("prune") as index:  # others get their turn in between
                self._write(index, messages[start : start + _TOMBSTONES_AT_ONCE])

    def has_any(self) -> bool:
        with self._used("has_any") as index:
            for partition in range(self._topic.partitions):
                self._take_in(index, self._topic.read_to_end([partition]))
                if index.has_any():
                    return True
        return False

    def close(self) -> None:
        with self._lock:
            self._close_index()
            self._topic.close()

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    def _partition(self, key: bytes) -> int:
        # Not the client's partitioner: this one must stay the same whatever client there is.
        return zlib.crc32(self._prefix + key) % max(self._topic.partitions, 1)

    def _write(self, index: KafkaIndex, messages: Sequence[Message]) -> list[int]:
        """Write in one transaction, and take in all that is in the log up to there; the offsets."""
        if not messages:
            return []
        offsets = self._topic.write(messages)
        last: dict[int, int] = {}
        for message, offset in zip(messages, offsets, strict=True):
            last[message.partition] = max(offset, last.get(message.partition, -1))
        self._take_in(index, self._topic.read_past(last))
        return offsets

    def _take_in(self, index: KafkaIndex, messages: Iterable[Any]) -> None:
        for message in messages:
            entry = read(message, self._prefix)
            if entry is not None:
                index.apply(entry, message.offset())

    def _check(self, index: KafkaIndex, keys: Iterable[bytes]) -> None:
        for key in keys:
            owner = index.owner(key)
            if owner > self._epoch:
                raise fenced(key, self._epoch, owner)

    @contextmanager
    def _used(self, operation: str) -> Iterator[KafkaIndex]:
        with self._lock:
            if self._index is None:
                raise not_open(operation)
            with self._reported(operation):
                yield self._index

    @contextmanager
    def _reported(self, operation: str) -> Iterator[None]:
        try:
            yield
        except self._topic.kafka.KafkaException as error:
            self._topic.reset()
            raise failed(operation, error, "Kafka", self._credentials) from None
