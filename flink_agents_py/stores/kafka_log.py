"""Messages of the Kafka store: what is written to the topic, and how it is read back.

The key of a message says all that identifies it, so that compaction keeps the newest of each. The writer's epoch is
part of it: an attempt that was given up can never push out what its successor wrote.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Literal

from flink_agents_py.stores.records import Identity, identity_of, pack, to_bytes, unpack
from flink_agents_py.stores.store import StoredRecord

_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">q")

Kind = Literal[b"E", b"O", b"R"]
EPOCH: Kind = b"E"
"""An attempt has begun; the offset of the message is its epoch."""
OWNER: Kind = b"O"
"""An epoch has claimed a key."""
RECORD: Kind = b"R"


@dataclass(frozen=True, slots=True)
class Message:
    """One message to be written; without a value it is a tombstone."""

    partition: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One message that was read. ``identity`` is there for records, ``value`` is not for tombstones."""

    kind: bytes
    key: bytes
    epoch: int
    identity: Identity | None
    written_ms: int
    value: bytes | None
    by: int | None
    """Epoch that wrote a tombstone in its own name; those of pruning are nobody's."""


def prefix_of(job: str) -> bytes:
    """What follows the kind in the keys of all messages of a job."""
    name = to_bytes(job)
    return _LENGTH.pack(len(name)) + name


def epoch_message(prefix: bytes) -> Message:
    """The message whose offset is the epoch; all of a topic are in its first partition, so offsets only grow."""
    return Message(0, EPOCH + prefix, b"begun")


def owner_message(partition: int, prefix: bytes, key: bytes, epoch: int, now_ms: int | None) -> Message:
    """A claim; without a time its tombstone."""
    value = None if now_ms is None else _NUMBER.pack(now_ms)
    return Message(partition, _key(OWNER, prefix, key, epoch), value)


def record_message(partition: int, prefix: bytes, record: StoredRecord, epoch: int, now_ms: int) -> Message:
    """A record."""
    key = _key(RECORD, prefix, record.key, epoch) + pack(identity_of(record))
    return Message(partition, key, _NUMBER.pack(now_ms) + to_bytes(record.value))


def tombstone(
    partition: int, prefix: bytes, key: bytes, epoch: int, identity: Identity, by: int | None = None
) -> Message:
    """The end of a record that ``epoch`` wrote."""
    headers = () if by is None else (("by", _NUMBER.pack(by)),)
    return Message(partition, _key(RECORD, prefix, key, epoch) + pack(identity), None, headers)


def _key(kind: bytes, prefix: bytes, key: bytes, epoch: int) -> bytes:
    return kind + prefix + _LENGTH.pack(len(key)) + key + _NUMBER.pack(epoch)


def read(message: Any, prefix: bytes) -> Entry | None:
    """The entry in a message of confluent-kafka; ``None`` if it is another job's, or of no interest."""
    name = message.key() or b""
    kind, rest = name[:1], name[1:]
    if kind == EPOCH or not rest.startswith(prefix):
        return None
    start = len(prefix) + _LENGTH.size
    (length,) = _LENGTH.unpack_from(rest, len(prefix))
    key, rest = rest[start : start + length], rest[start + length :]
    (epoch,) = _NUMBER.unpack_from(rest)
    identity = unpack(rest[_NUMBER.size :]) if kind == RECORD else None
    value = message.value()
    if value is None:
        by = dict(message.headers() or ()).get("by")
        return Entry(kind, key, epoch, identity, 0, None, None if by is None else _NUMBER.unpack(by)[0])
    return Entry(kind, key, epoch, identity, _NUMBER.unpack_from(value)[0], value[_NUMBER.size :], None)
