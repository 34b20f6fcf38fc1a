"""What the engine remembers of a key between callbacks, and how an unfinished run is written to and read from state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from flink_agents_py.errors import StateRecordError
from flink_agents_py.serde import decode, encode
from flink_agents_py.serde.text import dumps

if TYPE_CHECKING:
    from flink_agents_py.engine.run import Run

RECORD_VERSION = 2
_READABLE = (1, 2)
PENDING_VERSION = "1"


class KeyEntry:
    """A key with an unfinished run. It lives only as long as that; idle keys cost nothing but a cached number.

    ``head`` and ``tail`` delimit the arrival numbers of the inputs that wait in ``agent.pending``.
    """

    __slots__ = (
        "dirty",
        "drain_armed",
        "handle",
        "head",
        "listed",
        "persisted",
        "queued",
        "resume_at",
        "run",
        "stored_sequence",
        "tail",
        "token",
    )

    def __init__(self, token: Any, handle: Any, run: Run) -> None:
        self.token = token
        self.handle = handle
        self.run = run
        self.head = 0
        self.tail = 0
        self.persisted = False  # whether agent.run holds a record
        self.listed = False  # whether this attempt has put it into the registry
        self.dirty = False  # whether it is out of date
        self.queued = False  # whether the entry stands in the engine's list of entries to drive
        self.stored_sequence = -1  # what agent.seq holds
        self.resume_at = 0  # when the coarse resume timer fires, ms
        self.drain_armed = False  # whether the end-of-input timer is registered


class SequenceCache:
    """Last sequence numbers of recently used keys, so that a key's state is read once per attempt, not per input.

    Bounded; the oldest entries go first. State has the truth, the cache only saves reads. ``numbers`` is what is in it:
    a number that is there may be replaced directly.
    """

    __slots__ = ("_limit", "numbers")

    def __init__(self, limit: int) -> None:
        self.numbers: dict[Any, int] = {}
        self._limit = max(1, limit)

    def get(self, token: Any) -> int | None:
        return self.numbers.get(token)

    def put(self, token: Any, number: int) -> None:
        numbers = self.numbers
        if token not in numbers and len(numbers) >= self._limit:
            del numbers[next(iter(numbers))]
        numbers[token] = number


def token_of(key: Any) -> Any:
    """A hashable stand-in of a key that keeps apart what Flink does: 1, 1.0 and True, Decimal("1.0") and ("1.00").

    Not the canonical form, which would bring keys together that have state of their own in Flink.
    """
    kind = type(key)
    if kind is str or kind is int:
        return key
    return encode(key, allow_pickle=False).encode()


def key_bytes(key: Any) -> bytes:
    """A key as bytes that are the same in every process, and keep apart what :func:`token_of` does."""
    return encode(key, allow_pickle=False).encode()


# --- records --------------------------------------------------------------------------------------------------------


def encode_pending(value: Any, timestamp: int | None, watermark: int | None) -> str:
    """A waiting input as text."""
    return f"{PENDING_VERSION}[{_number(timestamp)},{_number(watermark)}]{encode(value)}"


def decode_pending(text: str) -> tuple[Any, int | None, int | None]:
    if not text.startswith(PENDING_VERSION):
        raise _newer("a waiting input", text[:1])
    end = text.index("]") + 1
    timestamp, watermark = json.loads(text[1:end])
    return decode(text[end:]), timestamp, watermark


def encode_run(run: Run, events: list[str], tasks: list[str], cause: str) -> str:
    """An unfinished run as text. ``events``, ``tasks`` and ``cause`` are JSON; each was encoded once, not per record.

    Args:
        cause: the event with the input; the number of a task if it is the one of that, ``null`` if nobody knows it.
    """
    return (
        f"[{RECORD_VERSION},{run.sequence},{_number(run.timestamp)},{_number(run.watermark)},"
        f"[{','.join(events)}],[{','.join(tasks)}],{dumps(run.dump_sensory())},"
        f'{_number(run.memory_ms)},"{run.input_digest}","{run.version.digest}",{cause}]'
    )


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


class RunRecord(NamedTuple):
    """An unfinished run as read from state; events and tasks are still encoded.

    ``memory_ms`` is the moment of a memory with a TTL, ``input_digest`` is for a store, ``plan`` the digest of the plan
    the run began with, ``cause`` the event with the input, or the number of the task that has it.
    """

    sequence: int
    timestamp: int | None
    watermark: int | None
    events: list[Any]
    tasks: list[Any]
    sensory: Mapping[str, str]
    memory_ms: int | None = None
    input_digest: str = ""
    plan: str = ""
    cause: Any = None


def decode_run(text: str) -> RunRecord:
    """Read what :func:`encode_run` wrote."""
    try:
        record = json.loads(text)
        version = record[0]
    except (ValueError, IndexError, TypeError) as error:
        raise StateRecordError(
            f"the record of a suspended run cannot be read: {error}",
            where="keyed state agent.run",
            fix="restore a savepoint written by this operator",
        ) from error
    if version not in _READABLE:
        raise _newer("a suspended run", version)
    return RunRecord(*record[1:])


def _newer(what: str, version: Any) -> StateRecordError:
    return StateRecordError(
        f"{what} was written in format {version!r}, which this version does not know",
        where="keyed state",
        fix="restore with the version of flink_agents_py that wrote the savepoint, or a newer one",
    )
