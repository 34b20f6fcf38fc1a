"""Filters on the metadata of documents, read into a small tree that each vector store writes in its own language.

``{"shop": "a", "stars": {"$gte": 3, "$lt": 5}}`` means both; ``{"$or": [{...}, {...}]}`` either, ``{"$and": [...]}``
all. Operators: ``$eq``, ``$ne``, ``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$in``. Values compare within their kind:
numbers with numbers, texts with texts (by code points), never across. ``None`` is a field that is not there, or null;
``$ne`` holds for those too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from flink_agents_py.errors import FilterError

Operator = Literal["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]
Scalar = str | int | float | bool | None

PARTITION = "~partition"
"""A field of metadata that vector stores keep an index of: equality on it is fast, however many documents there are."""

_COMPARISONS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


@dataclass(frozen=True)
class Compare:
    """A field against a value."""

    field: str
    operator: Operator
    value: Scalar


@dataclass(frozen=True)
class AllOf:
    """All of these hold; nothing given: always."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class AnyOf:
    """One of these holds; nothing given: never."""

    conditions: tuple[Condition, ...]


Condition = Compare | AllOf | AnyOf


def parse_filter(filters: Mapping[str, Any] | None) -> Condition | None:
    """The tree; ``None`` for no filter.

    Raises:
        FilterError: it is malformed; the message names the place.
    """
    return None if not filters else _object(filters, "filter")


def _object(filters: Any, where: str) -> Condition:
    if not isinstance(filters, Mapping):
        raise _malformed(f"{filters!r} is no object", where)
    conditions: list[Condition] = []
    for name, value in filters.items():
        if name in ("$and", "$or"):
            if not isinstance(value, (list, tuple)):
                raise _malformed(f"{name} takes a list", where)
            parts = tuple(_object(part, f"{where}.{name}[{index}]") for index, part in enumerate(value))
            conditions.append(AllOf(parts) if name == "$and" else AnyOf(parts))
        else:
            conditions.append(_field(name, value, f"{where}.{name}"))
    return conditions[0] if len(conditions) == 1 else AllOf(tuple(conditions))


def _field(name: Any, value: Any, where: str) -> Condition:
    if not isinstance(name, str) or not name or name.startswith("$") or '"' in name or "\\" in name:
        raise _malformed(f"{name!r} is no name of a field", where)
    if not isinstance(value, Mapping):
        return Compare(name, "$eq", _scalar(value, where))
    conditions = tuple(_operator(name, operator, operand, where) for operator, operand in value.items())
    return conditions[0] if len(conditions) == 1 else AllOf(conditions)


def _operator(name: str, operator: Any, operand: Any, where: str) -> Condition:
    if operator == "$in":
        if not isinstance(operand, (list, tuple)):
            raise _malformed("$in takes a list", where)
        return AnyOf(tuple(Compare(name, "$eq", _scalar(value, where)) for value in operand))
    if operator not in _COMPARISONS:
        raise _malformed(f"there is no operator {operator!r}", where)
    value = _scalar(operand, where)
    if operator not in ("$eq", "$ne") and (value is None or isinstance(value, bool)):
        raise _malformed(f"{operator} compares numbers or texts, not {value!r}", where)
    return Compare(name, operator, value)


def _scalar(value: Any, where: str) -> Scalar:
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise _malformed(f"{value!r} is no text, number, bool or None", where)


def _malformed(what: str, where: str) -> FilterError:
    fix = 'write {"field": value}, {"field": {"$gte": 1, "$lt": 5}}, {"$and": [...]} or {"$or": [...]}'
    return FilterError(what, where=where, fix=fix)
