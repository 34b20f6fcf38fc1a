"""JSON text of plain values: the C encoder and scanner behind :mod:`json`, built once instead of on every call."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable, Iterable
from typing import Any

TAG = "$t"
"""The key that marks an encoded value. A dictionary of the user's that contains it is written as a tagged one."""

TAG_TEXT = '"$t":'
"""How a tag looks in compact JSON text: a text without it needs no second look."""

MAX_DEPTH = 128
"""Containers in containers. A fixed bound fails the same way everywhere; the interpreter's stack limit would not, and
what could just be written might be read where less stack is left."""

LEAVES: frozenset[type] = frozenset({str, int, float, bool, type(None)})
_STR_ONLY = frozenset({str})

quote: Callable[[str], str] = json.encoder.encode_basestring


def has_plain_keys(value: dict[Any, Any]) -> bool:
    """Whether the dictionary can be a JSON object as it is."""
    return _STR_ONLY.issuperset(map(type, value)) and TAG not in value


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether the exact types in a ``dict`` or ``list`` are JSON's own.

    Numbers JSON has no text for are left to the encoder, which refuses them with ``ValueError``.
    """
    if depth > MAX_DEPTH:
        return False
    if type(value) is dict:
        # `issuperset(map(type, ...))` runs without a Python frame per item: this is most of the speed of `encode`.
        if not has_plain_keys(value):
            return False
        value = value.values()
    if LEAVES.issuperset(map(type, value)):
        return True
    for item in value:
        kind = type(item)
        if kind not in LEAVES and not ((kind is dict or kind is list) and is_plain(item, depth + 1)):
            return False
    return True


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not plain")


def _dumper(sort_keys: bool) -> Callable[[Any], str]:
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without the C accelerator
        return json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, sort_keys=sort_keys, separators=(",", ":"), check_circular=False
        ).encode
    # markers=None: no cycle check, `is_plain` and the writer bound the depth.
    chunks: Callable[[Any, int], Iterable[str]] = make(None, _refuse, quote, None, ":", ",", sort_keys, False, False)
    join = "".join
    return lambda value: join(chunks(value, 0))


dumps = _dumper(sort_keys=False)
"""Compact JSON text of a plain value; ``ValueError`` for NaN, infinities and integers of thousands of digits."""

dumps_sorted = _dumper(sort_keys=True)


def is_unicode(text: str) -> bool:
    """Whether ``text`` has a UTF-8 form (no lone surrogates)."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_text(value: Any, dump: Callable[[Any], str] = dumps) -> str | None:
    """JSON text of a ``dict`` or ``list`` that JSON and UTF-8 can carry as it is, else ``None``."""
    if not is_plain(value):
        return None
    try:
        text = dump(value)
    except ValueError:  # NaN, infinity, an enormous integer
        return None
    return text if text.isascii() or is_unicode(text) else None
