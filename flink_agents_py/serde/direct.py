"""JSON text of pydantic models, enums and rows, written at once: what events and messages are made of.

The same text that :mod:`flink_agents_py.serde.writer` and the JSON encoder make together, without the structure between
them. Whatever else is inside is left to those two, and so are all errors.
"""

from __future__ import annotations

from enum import Enum, Flag
from functools import lru_cache
from typing import Any

from flink_agents_py.serde.classes import fields_of, kind_of, reference_of, version_of
from flink_agents_py.serde.text import TAG, is_unicode, quote

_INT64 = 1 << 63
_DEEPEST = 32  # far from the writer's own limit, which counts a little otherwise
_ROW = '{"$t":"row","v":'


class _OtherError(Exception):
    """Something for the writer."""


def direct_text(value: Any, *, ordered: bool = False) -> str | None:
    """The text of ``value``; ``None`` where the writer has to do it.

    Args:
        ordered: the canonical form: sorted by name, and without the note of which fields were given.
    """
    try:
        text = _text(value, ordered, 0)
    except _OtherError:
        return None
    return text if is_unicode(text) else None


def _text(value: Any, ordered: bool, depth: int) -> str:
    cls: type = type(value)
    if cls is str:
        return quote(value)
    if value is None:
        return "null"
    if cls is bool:
        return "true" if value else "false"
    if cls is int:
        if -_INT64 <= value < _INT64:
            return repr(value)
        raise _OtherError
    if cls is float:
        if value - value == 0.0:  # neither NaN nor infinite
            return repr(value)
        raise _OtherError
    if depth > _DEEPEST:
        raise _OtherError
    if cls is dict:
        return _object(value, ordered, depth) if value else "{}"
    if cls is list:
        return f"[{','.join([_text(item, ordered, depth + 1) for item in value])}]" if value else "[]"
    head = _head(cls)
    if head is None:
        raise _OtherError
    if head is _ROW:
        return _row(value, ordered, depth)
    if issubclass(cls, Enum):
        return f"{head}{quote(value._name_)}}}"
    return _model(value, cls, head, ordered, depth)


def _object(fields: dict[Any, Any], ordered: bool, depth: int) -> str:
    parts = []
    for name, item in sorted(fields.items(), key=_name) if ordered else fields.items():
        if type(name) is not str or name == TAG:
            raise _OtherError
        text = quote(item) if type(item) is str else _text(item, ordered, depth + 1)
        parts.append(f"{quote(name)}:{text}")
    return f"{{{','.join(parts)}}}"


def _name(pair: tuple[Any, Any]) -> str:
    name = pair[0]
    if type(name) is str:
        return name
    raise _OtherError


def _model(value: Any, cls: type, head: str, ordered: bool, depth: int) -> str:
    fields, given = value.__dict__, value.__pydantic_fields_set__
    if (
        value.__pydantic_extra__ is not None
        or value.__pydantic_private__ is not None
        or fields.keys() != fields_of(cls)
        or version_of(cls)
    ):
        raise _OtherError
    text = _object(fields, ordered, depth) if fields else "{}"
    if ordered or len(given) == len(fields):
        return f"{head}{text}}}"
    return f'{head}{text},"s":[{",".join(map(quote, sorted(given)))}]}}'


def _row(value: Any, ordered: bool, depth: int) -> str:
    if ordered or value.get_row_kind().name != "INSERT":
        raise _OtherError
    text = f"{_ROW}[{','.join([_text(item, ordered, depth + 1) for item in value])}]"
    return f'{text},"f":{_text(list(value._fields), ordered, depth)}}}' if hasattr(value, "_fields") else f"{text}}}"


@lru_cache(maxsize=4096)
def _head(cls: type) -> str | None:
    """What the text of an instance begins with; ``None`` for classes that are not written here."""
    kind = kind_of(cls)
    if kind == "row":
        return _ROW
    named = kind == "model" or (kind == "enum" and not issubclass(cls, Flag))
    reference = reference_of(cls) if named else None
    return None if reference is None else f'{{"{TAG}":"{kind}","c":{quote(reference["c"])},"v":'
