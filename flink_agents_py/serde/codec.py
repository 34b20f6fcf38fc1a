"""encode / decode (text) and to_plain / from_plain (JSON-able structures)."""

from __future__ import annotations

import json
from typing import Any

from flink_agents_py.errors import DecodeError
from flink_agents_py.serde.reader import revive, revive_tree, revive_trusted_only
from flink_agents_py.serde.text import TAG_TEXT, dumps, is_plain, is_unicode, quote
from flink_agents_py.serde.writer import Writer

_plain_decoder = json.JSONDecoder()
_scan = _plain_decoder.scan_once
_decoder = json.JSONDecoder(object_hook=revive)
_decoder_without_pickle = json.JSONDecoder(object_hook=revive_trusted_only)


def encode(value: Any, *, allow_pickle: bool = True, nan: bool = True) -> str:
    """Compact JSON text from which :func:`decode` makes an equal value of equal type; it always has a UTF-8 form.

    Args:
        value: see the package's docstring for what is carried how.
        allow_pickle: whether pickle may be the last resort.
        nan: whether NaN and the infinities are values like any other.

    Raises:
        EncodeError: something inside has no encoding; the message names the path to it.
    """
    kind = type(value)
    if kind is str:
        if value.isascii():
            return quote(value)
    elif kind is int:
        if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
            return repr(value)
    elif kind is float:
        if value - value == 0.0:  # neither NaN nor infinite
            return repr(value)
    elif value is None:
        return "null"
    elif kind is bool:
        return "true" if value else "false"
    elif (kind is dict or kind is list) and is_plain(value):
        try:
            text = dumps(value)
        except ValueError:  # NaN, infinity, an enormous integer
            pass
        else:
            if text.isascii() or is_unicode(text):
                return text
    return dumps(Writer(allow_pickle, nan).write(value))


def decode(text: str, *, allow_pickle: bool = True) -> Any:
    """The value that :func:`encode` wrote.

    Raises:
        DecodeError: the text is damaged, or a class it names is missing or has changed beyond its migrations.
    """
    try:
        if TAG_TEXT in text:
            return (_decoder if allow_pickle else _decoder_without_pickle).decode(text)
        value, end = _scan(text, 0)
        # Anything but our own compact text (blanks around it, a second value) goes the long way.
        return value if end == len(text) else _plain_decoder.decode(text)
    except (ValueError, StopIteration, RecursionError) as error:
        raise DecodeError(
            f"a stored value is no JSON text: {error or type(error).__name__}",
            where=f"{text[:80]!r}",
            fix="check what wrote it; nothing but flink_agents_py.serde.encode may",
        ) from error


def to_plain(value: Any, *, allow_pickle: bool = True, nan: bool = True) -> Any:
    """As :func:`encode`, but a JSON-able structure; it shares no mutable part with ``value``."""
    return Writer(allow_pickle, nan).write(value)


def from_plain(plain: Any, *, allow_pickle: bool = True) -> Any:
    """The value that :func:`to_plain` wrote; JSON without our tags comes back as it is (copied)."""
    return revive_tree(plain, revive if allow_pickle else revive_trusted_only)
