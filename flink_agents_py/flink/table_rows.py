"""Rows of tables as Python values, the same in both execution modes.

PyFlink hands raw Java objects to thread mode for dates and times, and refuses decimals and arrays of text in both
modes. So such columns leave the table as text, made in Java, and are read back here.
"""

from __future__ import annotations

import datetime as dt
import json
from base64 import b64decode
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pyflink.common import Row
from pyflink.table import DataTypes
from pyflink.table.expressions import col, json_string

from flink_agents_py.errors import PipelineError

Read = Callable[[Any], Any]
ROW_TIME = "__row_time"

_AS_IT_IS = frozenset(
    {
        "CHAR",
        "VARCHAR",
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "BINARY",
        "VARBINARY",
    }
)
_AS_TEXT: dict[str, Read] = {
    "DATE": dt.date.fromisoformat,
    "TIME_WITHOUT_TIME_ZONE": dt.time.fromisoformat,
    "DECIMAL": Decimal,
}
_TIMESTAMPS = frozenset({"TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"})
_NESTED = frozenset({"ROW", "STRUCTURED_TYPE", "ARRAY", "MAP"})
_MICROSECOND_DIGITS = 6


class RowReader:
    """Makes the row an agent gets of the one that left the table."""

    def __init__(self, names: list[str], reads: list[Read | None]) -> None:
        self.names = names
        self.reads = reads

    def __call__(self, row: Row) -> Row:
        values = row._values
        read = [
            value if read is None or value is None else read(value)
            for read, value in zip(self.reads, values, strict=False)  # the row time may follow the columns
        ]
        result = Row(*read)
        result.set_field_names(self.names)
        return result


def columns_of(table: Any) -> tuple[list[Any], RowReader]:
    """What to select from ``table``, and how to read what comes of it.

    Raises:
        PipelineError: a column has a type that Python cannot be given.
    """
    names, reads, selected = [], [], []
    row_times = []
    for column in table._j_table.getResolvedSchema().getColumns():
        name, logical = column.getName(), column.getDataType().getLogicalType()
        root = logical.getTypeRoot().name()
        read: Read | None = None
        expression = col(name)
        if root in _AS_TEXT:
            read, expression = _AS_TEXT[root], expression.cast(DataTypes.STRING())
        elif root in _TIMESTAMPS:
            read, expression = _timestamp_in_json, json_string(expression)
            if logical.toString().endswith("*ROWTIME*"):
                row_times.append(name)
        elif root in _NESTED and not _is_plain_map(logical):
            read, expression = _ReadJson(_reader_of(logical, name)), json_string(expression)
        elif root not in _AS_IT_IS and root not in _NESTED:
            raise _unreadable(name, logical)
        names.append(name)
        reads.append(read)
        selected.append(expression.alias(name))
    selected += [col(name).alias(f"{ROW_TIME}{index or ''}") for index, name in enumerate(row_times)]
    return selected, RowReader(names, reads)


def _is_plain_map(logical: Any) -> bool:
    """A map whose keys JSON cannot have; as it is, it works if its parts do."""
    if logical.getTypeRoot().name() != "MAP":
        return False
    key, value = (child.getTypeRoot().name() for child in logical.getChildren())
    return key not in {"CHAR", "VARCHAR"} and {key, value} <= _AS_IT_IS


def _unreadable(name: str, logical: Any) -> PipelineError:
    return PipelineError(
        f"column {name!r} of the table has the type {logical.asSummaryString()}, which cannot be given to an agent",
        where="from_table(...)",
        fix=f"select it as something else, e.g. CAST({name} AS STRING), or leave it out",
    )


# --- inside JSON ------------------------------------------------------------------------------------------------------


class _ReadJson:
    def __init__(self, read: Read) -> None:
        self._read = read

    def __call__(self, text: str) -> Any:
        return self._read(json.loads(text, parse_float=Decimal))


def _timestamp_in_json(text: str) -> dt.datetime:
    return _timestamp(text.strip('"'))


def _timestamp(text: str) -> dt.datetime:
    """ISO text with up to nine digits of a second; with a zone (UTC) for TIMESTAMP_LTZ, without for TIMESTAMP."""
    moment, utc = text.removesuffix("Z"), text.endswith("Z")
    whole, _, fraction = moment.partition(".")
    value = dt.datetime.fromisoformat(whole)
    if fraction:
        value = value.replace(microsecond=int(fraction[:_MICROSECOND_DIGITS].ljust(_MICROSECOND_DIGITS, "0")))
    return value.replace(tzinfo=dt.timezone.utc) if utc else value


def _reader_of(logical: Any, name: str) -> Read:
    root = logical.getTypeRoot().name()
    if root in {"FLOAT", "DOUBLE"}:
        return float
    if root == "DECIMAL":
        return _decimal
    if root in {"BINARY", "VARBINARY"}:
        return b64decode
    if root in _TIMESTAMPS:
        return _timestamp
    if root in _AS_IT_IS:
        return _same
    children = [_reader_of(child, name) for child in logical.getChildren()] if root in _NESTED else []
    if root == "ARRAY":
        return _ReadList(children[0])
    if root == "MAP" and logical.getChildren()[0].getTypeRoot().name() in {"CHAR", "VARCHAR"}:
        return _ReadMap(children[1])
    if root in {"ROW", "STRUCTURED_TYPE"}:
        return _ReadRow([str(field) for field in logical.getFieldNames()] if root == "ROW" else [], children)
    raise _unreadable(name, logical)


def _same(value: Any) -> Any:
    return value


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(value)


def _or_none(read: Read, value: Any) -> Any:
    return None if value is None else read(value)


class _ReadList:
    def __init__(self, read: Read) -> None:
        self._read = read

    def __call__(self, values: list[Any]) -> list[Any]:
        return [_or_none(self._read, value) for value in values]


class _ReadMap:
    def __init__(self, read: Read) -> None:
        self._read = read

    def __call__(self, values: dict[str, Any]) -> dict[str, Any]:
        return {key: _or_none(self._read, value) for key, value in values.items()}


class _ReadRow:
    def __init__(self, names: list[str], reads: list[Read]) -> None:
        self._names = names
        self._reads = reads

    def __call__(self, values: dict[str, Any]) -> Row:
        row = Row(
            *[_or_none(read, values.get(name)) for name, read in zip(self._names or values, self._reads, strict=True)]
        )
        row.set_field_names(self._names or list(values))
        return row
