"""Items of long-term memory as documents of a vector store: what is in the metadata beside the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from flink_agents_py.long_term.items import MemorySetItem, tokens_of
from flink_agents_py.long_term.scope import Binding, digest
from flink_agents_py.resources.filters import PARTITION
from flink_agents_py.resources.vector_stores import Document
from flink_agents_py.serde import decode, encode

VERSION = "~version"  # changes with the item, not with its last access
TASK, ORDINAL = "~task", "~ordinal"  # of the call that added it
CREATED, UPDATED, ACCESSED = "~created", "~updated", "~accessed"  # ms
FROM, TO = "~from", "~to"  # ms
ORDER = "~order"  # what is older is less
TOKENS = "~tokens"
STANDS_FOR = "~summarizes"
STRUCTURED = "~structured"
COVERED = "~covered"

_MOST_COVERED = 1000
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""What a datetime can say."""


def document_of(
    to: Binding, value: Any, metadata: dict[str, Any], *, id: str, version: str, now_ms: int, order: int
) -> Document:
    """A new item."""
    text, structured = _text(value)
    known = to.time_ms is not None and _FIRST_MS <= to.time_ms <= _LAST_MS
    time = to.time_ms if known else now_ms
    own: dict[str, Any] = {
        PARTITION: to.partition,
        VERSION: version,
        CREATED: now_ms,
        UPDATED: now_ms,
        ACCESSED: now_ms,
        FROM: time,
        TO: time,
        ORDER: order,
        TOKENS: tokens_of(text),
        STANDS_FOR: 0,
    }
    if structured:
        own[STRUCTURED] = True
    return Document(id=id, content=text, metadata={**metadata, **own})


def updated(document: Document, value: Any, metadata: dict[str, Any] | None, version: str, now_ms: int) -> Document:
    """The next version of an item."""
    text, structured = _text(value)
    before = document.metadata
    own = {name: field for name, field in before.items() if name.startswith("~") and name != STRUCTURED}
    own |= {VERSION: version, UPDATED: now_ms, ACCESSED: now_ms, TOKENS: tokens_of(text)}
    if structured:
        own[STRUCTURED] = True
    return Document(
        id=document.id, content=text, metadata={**(_users(before) if metadata is None else metadata), **own}
    )


def summary_of(documents: Sequence[Document], of: Binding, value: Any, now_ms: int) -> Document:
    """The item that takes the place of others; made again of the same ones, it is the same."""
    text, structured = _text(value)
    known = [document.metadata for document in documents]
    first = _users(known[0])
    common = {name: field for name, field in first.items() if all(one.get(name) == field for one in known)}
    versions = "\n".join(sorted(f"{document.id} {document.metadata[VERSION]}" for document in documents))
    id = digest(of.partition.encode(), b"summary", versions.encode())
    own: dict[str, Any] = {
        PARTITION: of.partition,
        VERSION: id,
        CREATED: now_ms,
        UPDATED: now_ms,
        ACCESSED: max(one[ACCESSED] for one in known),
        FROM: min(one[FROM] for one in known),
        TO: max(one[TO] for one in known),
        ORDER: max(one[ORDER] for one in known),
        TOKENS: tokens_of(text),
        STANDS_FOR: sum(one[STANDS_FOR] or 1 for one in known),
    }
    if structured:
        own[STRUCTURED] = True
    return Document(id=id, content=text, metadata={**common, **own})


def covered_id(partition: str) -> str:
    """The id of the record of what summaries of a set have replaced."""
    return digest(partition.encode(), b"covered")


def covered_by(record: Document | None) -> list[str]:
    """Ids of items that were replaced by a summary, the newest last."""
    return [] if record is None else str(record.metadata[COVERED]).split()


def covered_record(of: Binding, before: Document | None, documents: Sequence[Document], version: str) -> Document:
    """The record after ``documents`` were replaced too.

    An item that is added again after that, because a job went back to an older checkpoint, is known by it. Older ids
    are forgotten: a job does not go back that far.
    """
    ids = [*covered_by(before), *(str(document.id) for document in documents)]
    return Document(
        id=covered_id(of.partition),
        content="covered",
        # In a partition of its own: no search of the set may find it.
        metadata={PARTITION: f"{of.partition}+", VERSION: version, COVERED: " ".join(ids[-_MOST_COVERED:])},
    )


def item_of(document: Document, set_name: str) -> MemorySetItem:
    """The item in a document."""
    fields = document.metadata
    return MemorySetItem(
        memory_set_name=set_name,
        id=str(document.id),
        value=decode(document.content) if fields.get(STRUCTURED) else document.content,
        created_at=_time(fields[CREATED]),
        updated_at=_time(fields[UPDATED]),
        last_accessed_at=_time(fields[ACCESSED]),
        covers_from=_time(fields[FROM]),
        covers_to=_time(fields[TO]),
        additional_metadata=_users(fields) or None,
        summarizes=fields[STANDS_FOR],
        score=document.score,
    )


def _text(value: Any) -> tuple[str, bool]:
    """What is embedded of a value, and whether that is an encoding of it."""
    return (value, False) if isinstance(value, str) else (encode(value), True)


def _users(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if not name.startswith("~")}


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, timezone.utc)
