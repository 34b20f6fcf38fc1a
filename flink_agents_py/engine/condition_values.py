"""Values of events as the evaluator of conditions takes them: the parts that conditions read, and nothing else.

Models, dataclasses, rows and named tuples are maps of their fields; other sequences are lists; numbers that do not fit
64 bits, and decimals, are doubles; dates are the timestamps of their midnight (UTC).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import numbers
from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from flink_agents_py.serde.classes import kind_of

Path = tuple[str | int, ...]

Tree = dict[str | int, Any] | None
"""What to take of a value: parts by name or index, ``None`` for all of it."""

Problems = dict[Path, str]
"""What could not be converted, by path, and why."""

_AS_THEY_ARE = frozenset({str, bool, float, bytes, type(None), dt.datetime, dt.timedelta})
_INT64 = 2**63


def tree_of(paths: Iterable[Path]) -> Tree:
    """All paths as one tree; what a path names wholly has no parts in it."""
    root: dict[str | int, Any] = {}
    for path in paths:
        if not path:
            return None
        node = root
        for name in path[:-1]:
            below = node.setdefault(name, {})
            if below is None:
                break
            node = below
        else:
            node[path[-1]] = None
    return root


def part_of(fields: Mapping[Any, Any], tree: Tree, problems: Problems, path: Path = ()) -> dict[str | int, Any]:
    """The parts of a map that ``tree`` names, converted. What cannot be is left out and noted in ``problems``."""
    part: dict[str | int, Any] = {}
    for name in fields if tree is None else tree:
        if name not in fields:
            continue
        value = fields[name]
        below = None if tree is None else tree[name]
        inner = None if below is None else _parts_of(value, below)
        if inner is not None:
            part[name] = part_of(inner, below, problems, (*path, name))
            continue
        try:
            part[name] = converted(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            place = (*path, name)
            problems[place] = str(error)
    return part


def _parts_of(value: Any, wanted: Mapping[str | int, Any]) -> Mapping[Any, Any] | None:
    """The fields of a value, and those of its items that are wanted: as keys of a map they are found as in a list."""
    fields = fields_of(value)
    indices = [index for index in wanted if type(index) is int]
    if not indices or isinstance(value, Mapping) or not _is_sequence(value):
        return fields
    return {**(fields or {}), **{index: value[index] for index in indices if index < len(value)}}


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or _kind(type(value)) == "row"


def _kind(cls: Any) -> str:
    return kind_of(cls)


def fields_of(value: Any) -> Mapping[Any, Any] | None:
    """The fields of a value that has names for them, ``None`` if it has none."""
    if isinstance(value, Mapping):
        return value
    kind = _kind(type(value))
    if kind == "model":
        return {name: getattr(value, name) for name in type(value).model_fields} | (value.__pydantic_extra__ or {})
    if kind == "data":
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if kind == "named":
        return dict(value._asdict())
    if kind == "row" and getattr(value, "_fields", None):
        return dict(value.as_dict())
    return None


def converted(value: Any) -> Any:
    """The value for the evaluator.

    Raises:
        TypeError: there is no such value.
        OverflowError: a number is too large for a double.
    """
    cls = type(value)
    if cls in _AS_THEY_ARE:
        return value
    if cls is int:
        return value if -_INT64 <= value < _INT64 else float(value)
    if cls is list or cls is tuple:
        return [converted(item) for item in value]
    if isinstance(value, Enum):
        return converted(value.value)
    fields = fields_of(value)
    if fields is not None:
        return {name if isinstance(name, (str, int)) else str(name): converted(item) for name, item in fields.items()}
    if isinstance(value, (list, tuple, set, frozenset)) or _kind(cls) == "row":
        return [converted(item) for item in value]
    if isinstance(value, (str, UUID, dt.time)):
        return str(value)
    if isinstance(value, (dt.datetime, dt.timedelta)):
        return value
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.timezone.utc)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, numbers.Integral):  # NumPy's among them
        return converted(int(value))
    if isinstance(value, (numbers.Real, Decimal)):
        return float(value)
    raise TypeError(f"conditions cannot read a {cls.__module__}.{cls.__qualname__}")
