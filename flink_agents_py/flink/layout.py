"""How outputs leave the operator: as they are, or with event time and the held watermark beside them.

A Python operator cannot hold a watermark; Flink forwards it around the operator. So outputs travel as rows with three
more columns, and a table step in Java assigns timestamps and watermarks anew (``reassign``). Rows of simple columns
travel flattened and need no Python behind that step; everything else travels as bytes and is unpacked after it.
"""

from __future__ import annotations

import pickle
from typing import Any

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.common.typeinfo import RowTypeInfo, TypeInformation
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.table import DataTypes, Schema, StreamTableEnvironment
from pyflink.table.expressions import col, lit

from flink_agents_py.errors import OutputTypeError, PipelineError
from flink_agents_py.flink.output_types import OutputFit

EVENT_TIME, HELD, MARKER = "__event_time", "__held_watermark", "__marker"
_VALUE = "__value"
_ROW_TIME = "__row_time"  # what Flink's metadata calls `rowtime`; outputs may have a column of that name
_FLAT = (
    Types.STRING(),
    Types.LONG(),
    Types.INT(),
    Types.DOUBLE(),
    Types.FLOAT(),
    Types.BOOLEAN(),
)
_LEAST_TIMESTAMP = -(2**62)
_FIRST_MS, _LAST_MS = -62_167_219_200_000, 253_402_300_799_999  # what SQL can hold: the years 0 to 9999


class PlainLayout:
    """Values as they are, for pipelines without event time.

    Args:
        declared: the type the user declared for the outputs.
        where: where it was declared, for messages.
    """

    def __init__(self, declared: TypeInformation, where: str) -> None:
        self.declared = declared
        self.row_type = declared
        self.where = where
        # Only packed rows show their names to what comes next: Java knows columns by their place.
        self.fit = OutputFit(declared, where, names=type(self) is not PlainLayout).fit

    def __getstate__(self) -> dict[str, Any]:
        # Once used, types hold on to Java objects; the operator needs neither.
        return {name: value for name, value in self.__dict__.items() if name not in ("declared", "row_type")}

    def row(self, value: Any, timestamp: int | None, held: int) -> Any:  # noqa: ARG002 - what the other layout needs
        """One output.

        Raises:
            OutputTypeError: it is not of the declared type.
        """
        return self.fit(value)

    def marker(self, held: int) -> Any:
        raise PipelineError(
            f"a watermark ({held}) was to be reported by an operator without event time",
            where=self.where,
            fix="report this as a bug of flink_agents_py; event_time=True avoids it",
        )


class HeldLayout(PlainLayout):
    """Values with event time and held watermark."""

    def __init__(self, declared: TypeInformation, where: str) -> None:
        super().__init__(declared, where)
        self.columns = list(declared.get_field_names()) if _is_flat(declared) else []
        types = list(declared.get_field_types()) if self.columns else [Types.PRIMITIVE_ARRAY(Types.BYTE())]
        self.row_type = Types.ROW_NAMED(
            [*(self.columns or [_VALUE]), EVENT_TIME, HELD, MARKER],
            [*types, Types.LONG(), Types.LONG(), Types.BOOLEAN()],
        )
        self._nothing = [None] * len(types) if self.columns else [b""]

    def row(self, value: Any, timestamp: int | None, held: int) -> Row:
        # Inputs without timestamps carry Flink's least one; a row time must not be null, and nobody reads this one.
        event_time = timestamp if timestamp is not None and timestamp > _LEAST_TIMESTAMP else 0
        if not _FIRST_MS <= event_time <= _LAST_MS:
            raise OutputTypeError(
                f"the input that caused this output has the timestamp {event_time}, outside the years 0 to 9999",
                where="event time",
                fix="timestamps are milliseconds since 1970: divide those in microseconds or nanoseconds",
            )
        fitted = self.fit(value)
        if self.columns:
            return Row(*fitted._values, event_time, held, False)
        return Row(pickle.dumps(fitted), event_time, held, False)

    def marker(self, held: int) -> Row:
        """A row that only reports progress; the table step drops it."""
        return Row(*self._nothing, 0, min(held, _LAST_MS), True)

    def reassign(self, t_env: StreamTableEnvironment, stream: DataStream, uid: str) -> DataStream:
        """The outputs of ``stream`` with their own timestamps, and watermarks as they were held.

        Args:
            t_env: one made by :func:`step_environment`.
            uid: what the uids of the steps begin with.
        """
        # An idle source upstream is none here: the operator may still have an input of it in work. So its word stops
        # here, and whoever holds the watermark back is never passed over.
        plain = without_watermark(stream, f"{uid}:watermark")
        columns = self.columns or [_VALUE]
        schema = (
            Schema.new_builder()
            .column_by_expression(_ROW_TIME, f"TO_TIMESTAMP_LTZ({EVENT_TIME}, 3)")
            .watermark(_ROW_TIME, f"TO_TIMESTAMP_LTZ({HELD}, 3)")
            .build()
        )
        table = t_env.from_data_stream(plain, schema)
        table = table.filter(col(MARKER) == lit(False)).select(*[col(column) for column in (*columns, _ROW_TIME)])
        back = Schema.new_builder()
        for column, data_type in zip(columns, _column_types(table), strict=False):
            back = back.column(column, data_type)
        back = back.column_by_metadata(_ROW_TIME, DataTypes.TIMESTAMP_LTZ(3), "rowtime")
        held = t_env.to_changelog_stream(table, back.build())
        name_steps(held, plain, uid)
        if not self.columns:
            return held.map(_unpack, output_type=self.declared).name("unpack").uid(f"{uid}:unpack")
        # The table's own type of the same rows is one that PyFlink's windows cannot keep in state in thread mode.
        held._j_data_stream.getTransformation().setOutputType(self.declared.get_java_type_info())
        return held


def name_steps(last: DataStream, first: DataStream, uid: str) -> None:
    """Give every step between the two a uid.

    They have no state, but the uids Flink makes up depend on the parallelism and on the rest of the job, and it refuses
    a savepoint in which one of them seems to have finished while its neighbours have not.
    """
    step, until = last._j_data_stream.getTransformation(), first._j_data_stream.getTransformation().getId()
    number = 0
    while step.getId() != until:
        if step.getUid() is None:
            step.setUid(f"{uid}:step {number}")
        number += 1
        step = step.getInputs().get(0)


def without_watermark(stream: DataStream, uid: str) -> DataStream:
    """The stream without the watermarks, and the word of idle sources, that Flink has forwarded around the operator."""
    return stream.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()).uid(uid)


def step_environment(env: StreamExecutionEnvironment) -> StreamTableEnvironment:
    """A table environment for :meth:`HeldLayout.reassign` alone; the user's may have options that break it.

    With an idle timeout a subtask that holds the watermark back would be passed over; with a parallelism of its own the
    step would mix the watermarks of several subtasks.
    """
    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.exec.source.idle-timeout", "0 ms")
    t_env.get_config().set("table.exec.resource.default-parallelism", "-1")
    return t_env


def _unpack(row: Row) -> Any:
    return pickle.loads(row[0])  # noqa: S301 - packed by the operator just before


def _is_flat(declared: TypeInformation) -> bool:
    return isinstance(declared, RowTypeInfo) and all(field in _FLAT for field in declared.get_field_types())


def _column_types(table: Any) -> list[Any]:
    if hasattr(table, "get_resolved_schema"):
        return list(table.get_resolved_schema().get_column_data_types())
    return list(table.get_schema().get_field_data_types())  # Flink 1.20
