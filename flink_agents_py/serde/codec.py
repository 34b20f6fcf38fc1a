"""encode / decode (text) and to_plain / from_plain (JSON-able structures)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from flink_agents_py.errors import DecodeError
from flink_agents_py.serde.direct import direct_text
from flink_agents_py.serde.reader import revive, revive_tree, revive_without_pickle
from flink_agents_py.serde.text import TAG_TEXT, dumps, is_unicode, plain_text, quote
from flink_agents_py.serde.writer import Writer

_decoder = json.JSONDecoder()
_typed_decoder = json.JSONDecoder(object_hook=revive)
_typed_decoder_without_pickle = json.JSONDecoder(object_hook=revive_without_pickle)
# What `JSONDecoder.decode` itself calls, between two regular expressions for blanks that our text does not have.
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]  # not in typeshed

_INT64 = 1 << 63

# Texts of values that need no second look; None where they do. A table costs one lookup, whatever the type.
_SHORTCUTS: dict[type, Callable[[Any], str | None]] = {
    str: lambda value: quote(value) if value.isascii() or is_unicode(value) else None,
    int: lambda value: repr(value) if -_INT64 <= value < _INT64 else None,
    float: lambda value: repr(value) if value - value == 0.0 else None,  # neither NaN nor infinite
    bool: {True: "true", False: "false"}.get,
    type(None): lambda _: "null",
    dict: plain_text,
    list: plain_text,
}


def encode(value: Any, *, allow_pickle: bool = True, nan: bool = True) -> str:
    """Compact JSON text from which :func:`decode` makes an equal value of equal type; it always has a UTF-8 form.

    Args:
        value: see the package's docstring for what is carried how.
        allow_pickle: whether pickle may be the last resort.
        nan: whether NaN and the infinities are values like any other.

    Raises:
        EncodeError: something inside has no encoding; the message names the path to it.
    """
    shortcut = _SHORTCUTS.get(type(value))
    text = None if shortcut is None else shortcut(value)
    if text is None:
        text = direct_text(value)
    return dumps(Writer(allow_pickle=allow_pickle, nan=nan).write(value)) if text is None else text


def decode(text: str, *, allow_pickle: bool = True) -> Any:
    """The value that :func:`encode` wrote.

    Args:
        text: from :func:`encode`.
        allow_pickle: pass ``False`` for text that anybody may have written: a pickle can run any code.

    Raises:
        DecodeError: the text is damaged, or a class it names is missing or has changed beyond its migrations.
    """
    try:
        if TAG_TEXT in text:
            return (_typed_decoder if allow_pickle else _typed_decoder_without_pickle).decode(text)
        value, end = _scan(text, 0)
        # Anything but our own compact text (blanks around it, a second value) goes the long way.
        return value if end == len(text) else _decoder.decode(text)
    except (ValueError, StopIteration, RecursionError) as error:
        raise DecodeError(
            f"a stored value is no JSON text: {type(error).__name__}: {error}",
            where=f"{text[:80]!r}",
            fix="check what wrote it; nothing but flink_agents_py.serde.encode may",
        ) from error


def to_plain(value: Any, *, allow_pickle: bool = True, nan: bool = True) -> Any:
    """As :func:`encode`, but a JSON-able structure; it shares no mutable part with ``value``."""
    return Writer(allow_pickle=allow_pickle, nan=nan).write(value)


def from_plain(plain: Any, *, allow_pickle: bool = True) -> Any:
    """As :func:`decode`, but from a structure; JSON without our tags comes back as it is (a copy)."""
    return revive_tree(plain, revive if allow_pickle else revive_without_pickle)
