"""What all stores do with records in the same way: identity as bytes, what supersedes what, what may be pruned."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flink_agents_py.stores.store import FINISHED, StoredRecord

_HEAD = struct.Struct(">QiH")
_SIGN = 1 << 63
ALL_SEQUENCES = -(2**63)
"""The lowest sequence number there can be."""


class Identity(NamedTuple):
    """A record's identity within its key."""

    sequence: int
    event: bytes
    action: bytes
    slot: int


def identity_of(record: StoredRecord) -> Identity:
    """The identity of ``record`` within its key."""
    return Identity(record.sequence, record.event, to_bytes(record.action), record.slot)


def to_bytes(text: str) -> bytes:
    """Text as bytes: NUL and lone surrogates, which databases refuse in their text types, included."""
    return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    """What :func:`to_bytes` was given."""
    return bytes(data).decode("utf-8", "surrogatepass")


def pack(identity: Identity) -> bytes:
    """Unambiguous bytes of an identity: fixed-size numbers, the event's length, the event, the action.

    They begin with the 8 bytes of :func:`ordered`.
    """
    return _HEAD.pack(identity.sequence + _SIGN, identity.slot, len(identity.event)) + identity.event + identity.action


def ordered(sequence: int) -> bytes:
    """A sequence number as bytes that compare as it does."""
    return (sequence + _SIGN).to_bytes(8, "big")


def unpack(data: bytes) -> Identity:
    """What :func:`pack` was given."""
    sequence, slot, length = _HEAD.unpack_from(data)
    event_end = _HEAD.size + length
    return Identity(sequence - _SIGN, data[_HEAD.size : event_end], data[event_end:], slot)


def record_from(key: bytes, identity: Identity, value: bytes) -> StoredRecord:
    """The record a store has found."""
    return StoredRecord(
        bytes(key),
        identity.sequence,
        bytes(identity.event),
        to_text(identity.action),
        identity.slot,
        to_text(value),
    )


def effective(records: Sequence[StoredRecord]) -> list[StoredRecord]:
    """``records`` without those that a later one of equal identity replaces, and calls of actions finished by them."""
    newest = {(record.key, record.sequence, record.event, record.action, record.slot): record for record in records}
    finished = {identity[:4] for identity in newest if identity[4] == FINISHED}
    return [record for identity, record in newest.items() if record.slot == FINISHED or identity[:4] not in finished]


def keys_of(records: Iterable[StoredRecord]) -> list[bytes]:
    """The keys written to, each once, in an order that is the same for all writers (so that locks do not cross)."""
    return sorted({record.key for record in records})


def prunable(written: Iterable[tuple[Identity, int]], before_ms: int) -> list[Identity]:
    """What ``ActionStateStore.prune`` drops of one key.

    Args:
        written: all identities of the key, each with when it was written, in ms.
        before_ms: the cutoff.
    """
    rows = list(written)
    if not rows:
        return []
    last = max(identity.sequence for identity, _ in rows)
    finished = {identity[:3] for identity, _ in rows if identity.slot == FINISHED}
    open_calls = any(identity.sequence == last and identity[:3] not in finished for identity, _ in rows)
    last_is_over = (
        not open_calls
        and any(sequence == last for sequence, _, _ in finished)
        and all(written_ms < before_ms for _, written_ms in rows)
    )
    return [
        identity
        for identity, written_ms in rows
        if (written_ms < before_ms and (identity.sequence < last or last_is_over))
        or (identity.slot != FINISHED and identity[:3] in finished)
    ]
