"""JSON-able structure with tags -> the value it was."""

from __future__ import annotations

import base64
import importlib
from collections import OrderedDict
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from flink_agents_py.errors import DecodeError
from flink_agents_py.serde import pickles
from flink_agents_py.serde.classes import build_data, build_model, build_named, find_class
from flink_agents_py.serde.text import TAG

Document = dict[str, Any]


def revive(document: Document) -> Any:
    """The value of one JSON object whose parts are values already; itself if it carries no tag."""
    tag = document.get(TAG)
    if tag is None:
        return document
    read = _READERS.get(tag) if isinstance(tag, str) else None
    if read is None:
        raise DecodeError(
            f"a stored value has the unknown tag {tag!r}",
            fix=f"read it with the version that wrote it; JSON from elsewhere must not use the key {TAG!r}",
        )
    try:
        return read(document)
    except DecodeError:
        raise
    except Exception as error:  # damaged text, or whatever a constructor of the user's raises
        kind = f"{tag} {document['c']}" if isinstance(document.get("c"), str) else tag
        raise DecodeError(
            f"a stored value ({kind}) cannot be read: {type(error).__name__}: {error}",
            fix="check that the class still takes what was stored, and that the text is undamaged",
        ) from error


def revive_without_pickle(document: Document) -> Any:
    """As :func:`revive`, but refuses pickles: for text that anybody may have written."""
    if document.get(TAG) == "pickle" or (TAG in document and "b" in document):
        raise DecodeError(
            f"the text carries a pickled {document.get('c')}, which could run any code",
            fix="pass allow_pickle=True if you trust whoever wrote it",
        )
    return revive(document)


def revive_tree(plain: Any, hook: Callable[[Document], Any]) -> Any:
    """Apply ``hook`` to every object of a JSON-able structure, innermost first; the structure itself stays as it is."""
    kind = type(plain)
    if kind is dict:
        return hook({name: revive_tree(item, hook) for name, item in plain.items()})
    if kind is list:
        return [revive_tree(item, hook) for item in plain]
    return plain


def _zone(document: Document) -> ZoneInfo | None:
    key = document.get("z")
    return None if key is None else ZoneInfo(key)


def _clock(cls: Any) -> Callable[[Document], Any]:
    def read(document: Document) -> Any:
        text = document["v"]
        value = cls.fromisoformat(text)
        # CPython takes an offset of less than a second for none.
        if text[-16:-6] in ("+00:00:00.", "-00:00:00."):
            value = value.replace(tzinfo=timezone(timedelta(microseconds=int(text[-16] + text[-6:]))))
        zone, fold = _zone(document), document.get("f", 0)
        if zone is not None:
            return value.replace(tzinfo=zone, fold=fold)
        return value.replace(fold=fold) if fold else value

    return read


def _enum(document: Document) -> Any:
    cls = find_class(document, Enum)
    try:
        return cls[document["v"]]
    except KeyError:
        raise DecodeError(
            f"enum {document['c']} has no member {document['v']!r} any more",
            fix="keep the member, or an alias of that name with the value of the new one",
        ) from None


def _row(document: Document) -> Any:
    types = importlib.import_module("pyflink.common.types")
    row = types.Row(*document["v"])
    if "f" in document:
        row.set_field_names(document["f"])
    if "k" in document:
        row.set_row_kind(types.RowKind[document["k"]])
    return row


_READERS: dict[str, Callable[[Document], Any]] = {
    "str": lambda document: base64.b64decode(document["v"]).decode("utf-8", "surrogatepass"),
    "int": lambda document: int(document["v"], 16),
    "float": lambda document: float(document["v"]),
    "bytes": lambda document: base64.b64decode(document["v"]),
    "bytearray": lambda document: bytearray(base64.b64decode(document["v"])),
    "tuple": lambda document: tuple(document["v"]),
    "set": lambda document: set(document["v"]),
    "frozenset": lambda document: frozenset(document["v"]),
    "dict": lambda document: dict(document["v"]),
    "odict": lambda document: OrderedDict(document["v"]),
    "datetime": _clock(datetime),
    "time": _clock(time),
    "date": lambda document: date.fromisoformat(document["v"]),
    "timedelta": lambda document: timedelta(*document["v"]),
    "decimal": lambda document: Decimal(document["v"]),
    "uuid": lambda document: UUID(hex=document["v"]),
    "enum": _enum,
    "flag": lambda document: find_class(document, Flag)(document["v"]),
    "data": build_data,
    "named": build_named,
    "model": build_model,
    "row": _row,
    "pickle": lambda document: pickles.load(document["v"]),
}
