"""How outputs leave the operator: as they are, or with event time and the held watermark beside them.

A Python operator cannot hold a watermark; Flink forwards it around the operator. So outputs travel as rows with three
more columns, and a table step in Java assigns timestamps and watermarks anew (``reassign``). Rows of simple columns
travel flattened and need no Python behind that step; everything else travels as bytes and is unpacked after it.
"""

from __future__ import annotations

import pickle
from typing import Any

from pyflink.common import Row, Types
from pyflink.common.typeinfo import RowTypeInfo, TypeInformation
from pyflink.datastream import DataStream
from pyflink.table import DataTypes, Schema, StreamTableEnvironment
from pyflink.table.expressions import col, lit

from flink_agents_py.errors import OutputTypeError

EVENT_TIME, HELD, MARKER = "__event_time", "__held_watermark", "__marker"
_VALUE = "__value"
_FLAT = (
    Types.STRING(),
    Types.LONG(),
    Types.INT(),
    Types.DOUBLE(),
    Types.FLOAT(),
    Types.BOOLEAN(),
)
_LEAST_TIMESTAMP = -(2**62)


class Layout:
    """What the two layouts share.

    Args:
        declared: the type the user declared for the outputs.
    """

    def __init__(self, declared: TypeInformation, row_type: TypeInformation) -> None:
        self.declared = declared
        self.row_type = row_type

    def __getstate__(self) -> dict[str, Any]:
        # Once used, types hold on to Java objects; the operator needs neither.
        return {name: value for name, value in self.__dict__.items() if name not in ("declared", "row_type")}


class PlainLayout(Layout):
    """Values as they are, for pipelines without event time."""

    def __init__(self, declared: TypeInformation) -> None:
        super().__init__(declared, declared)


class HeldLayout(Layout):
    """Values with event time and held watermark."""

    def __init__(self, declared: TypeInformation) -> None:
        self.columns = list(declared.get_field_names()) if _is_flat(declared) else []
        types = list(declared.get_field_types()) if self.columns else [Types.PRIMITIVE_ARRAY(Types.BYTE())]
        row_type = Types.ROW_NAMED(
            [*(self.columns or [_VALUE]), EVENT_TIME, HELD, MARKER],
            [*types, Types.LONG(), Types.LONG(), Types.BOOLEAN()],
        )
        super().__init__(declared, row_type)
        self._nothing = [None] * len(types) if self.columns else [b""]

    def row(self, value: Any, timestamp: int | None, held: int) -> Row:
        """One output.

        Raises:
            OutputTypeError: a row was declared, and ``value`` is none of that width.
        """
        # Inputs without timestamps carry Flink's least one; a row time must not be null, and nobody reads this one.
        event_time = timestamp if timestamp is not None and timestamp > _LEAST_TIMESTAMP else 0
        if not self.columns:
            return Row(pickle.dumps(value), event_time, held, False)
        fields = value._values if isinstance(value, Row) else value
        if not isinstance(fields, (list, tuple)) or len(fields) != len(self.columns):
            raise OutputTypeError(
                f"the output {value!r} is no row of the columns {', '.join(self.columns)}",
                where="OutputEvent(output=...)",
                fix="send Row(...) with one value per column, or change the output type of to_datastream(...)",
            )
        return Row(*fields, event_time, held, False)

    def marker(self, held: int) -> Row:
        """A row that only reports progress; the table step drops it."""
        return Row(*self._nothing, 0, held, True)

    def reassign(self, t_env: StreamTableEnvironment, stream: DataStream) -> DataStream:
        """The outputs of ``stream`` with their own timestamps, and watermarks as they were held."""
        columns = self.columns or [_VALUE]
        schema = (
            Schema.new_builder()
            .column_by_expression("rowtime", f"TO_TIMESTAMP_LTZ({EVENT_TIME}, 3)")
            .watermark("rowtime", f"TO_TIMESTAMP_LTZ({HELD}, 3)")
            .build()
        )
        table = t_env.from_data_stream(stream, schema)
        table = table.filter(col(MARKER) == lit(False)).select(*[col(name) for name in (*columns, "rowtime")])
        back = Schema.new_builder()
        for name, data_type in zip(columns, _column_types(table), strict=False):
            back = back.column(name, data_type)
        back = back.column_by_metadata("rowtime", DataTypes.TIMESTAMP_LTZ(3))
        held = t_env.to_changelog_stream(table, back.build())
        return held if self.columns else held.map(_unpack, output_type=self.declared)


def _unpack(row: Row) -> Any:
    return pickle.loads(row[0])  # noqa: S301 - packed by the operator just before


def _is_flat(declared: TypeInformation) -> bool:
    return isinstance(declared, RowTypeInfo) and all(field in _FLAT for field in declared.get_field_types())


def _column_types(table: Any) -> list[Any]:
    if hasattr(table, "get_resolved_schema"):
        return list(table.get_resolved_schema().get_column_data_types())
    return list(table.get_schema().get_field_data_types())  # Flink 1.20
