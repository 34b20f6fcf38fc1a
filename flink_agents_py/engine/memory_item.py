"""Memory items: what one path holds, as text in state and in the cache of a run.

In state an item is text whose first letter is its format: ``v`` and the value (:mod:`flink_agents_py.serde`), or ``o``
and the JSON list of child segments of an object, oldest first. Where the agent has a TTL, ``t`` and the time of the
last access in ms, 13 digits, stand before that. In the cache it is, told apart by exact type:

* an immutable scalar: the value itself, encoded when it is flushed;
* a tuple of one text: any other value, encoded, so that nobody can change it by changing what it was made from;
* a dictionary: an object, its keys are the child segments;
* ``ABSENT``: there is nothing, and nothing has to be asked again.
"""

from __future__ import annotations

import json
from typing import Any, Final

from flink_agents_py.errors import DecodeError, EncodeError, StateRecordError
from flink_agents_py.memory import MemoryObject
from flink_agents_py.serde import decode, encode

Item = Any


class _Absent:
    __slots__ = ()


ABSENT: Final = _Absent()
SCALARS: Final = frozenset({int, str, float, bool, bytes, type(None)})
VALUES: Final = SCALARS | {tuple}
"""Types of the items that are values."""
_ALWAYS_ENCODABLE = SCALARS - {float}


def from_value(path: str, value: Any) -> Item:
    """The item of a value that is set at ``path``.

    Raises:
        EncodeError: it cannot be stored.
    """
    kind = type(value)
    if kind in _ALWAYS_ENCODABLE or (kind is float and value - value == 0.0):  # neither NaN nor infinite
        return value
    if isinstance(value, MemoryObject):
        raise EncodeError(
            "a MemoryObject is a view of memory, not a value",
            where=f"memory path {path!r}",
            fix=f"create the object with new_object({path!r}) and set its fields, or store a MemoryRef",
        )
    try:
        return ("v" + encode(value, allow_pickle=False, nan=False),)
    except EncodeError as error:
        where = f"memory path {path!r}, inside the value {error.where}"
        raise EncodeError(error.what, where=where, fix=error.fix) from error


def to_value(path: str, item: tuple[str]) -> Any:
    """Decode anew.

    Raises:
        DecodeError: its class is missing, or has changed beyond its migrations.
    """
    try:
        return decode(item[0][1:], allow_pickle=False)
    except DecodeError as error:
        where = f"memory path {path!r}" + (f", {error.where}" if error.where else "")
        raise DecodeError(error.what, where=where, fix=error.fix) from error


def from_text(path: str, text: str) -> Item:
    """The item that :func:`to_text` wrote; values are not decoded yet.

    Raises:
        StateRecordError: a later version wrote it.
    """
    if text[:1] == "v":
        return (text,)
    if text[:1] == "o":
        return dict.fromkeys(json.loads(text[1:]))
    if text[:1] == "t":  # TTL was on when it was written, and is off now
        return from_text(path, split_time(text)[1])
    raise StateRecordError(
        f"a memory item has the unknown format {text[:1]!r}",
        where=f"memory path {path!r}",
        fix="run the program version that wrote it, or a newer one",
    )


def with_time(time_ms: int, text: str) -> str:
    """The text of an item with the time of its last access."""
    return f"t{time_ms:013d}{text}"


def split_time(stored: str) -> tuple[int | None, str]:
    """Time and text of an item; it has no time if TTL was off when it was written."""
    return (int(stored[1:14]), stored[14:]) if stored[:1] == "t" else (None, stored)


def to_text(item: Item) -> str:
    """The item as it is kept in state; not for ``ABSENT``."""
    kind = type(item)
    if kind is tuple:
        text: str = item[0]
        return text
    if kind is dict:
        return "o" + json.dumps(list(item), ensure_ascii=False, separators=(",", ":"))
    return "v" + encode(item, allow_pickle=False, nan=False)
