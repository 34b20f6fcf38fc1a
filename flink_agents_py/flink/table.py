"""Between tables and the streams agents run on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyflink.common import Types
from pyflink.common.typeinfo import RowTypeInfo, TypeInformation
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes, Schema, Table
from pyflink.util.exceptions import JavaException

from flink_agents_py.errors import PipelineError
from flink_agents_py.flink.table_rows import RowReader, columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyflink.datastream import DataStream
    from pyflink.table import StreamTableEnvironment

_TYPE_OF_ROOT = {
    "CHAR": Types.STRING,
    "VARCHAR": Types.STRING,
    "BOOLEAN": Types.BOOLEAN,
    "TINYINT": Types.BYTE,
    "SMALLINT": Types.SHORT,
    "INTEGER": Types.INT,
    "BIGINT": Types.LONG,
    "FLOAT": Types.FLOAT,
    "DOUBLE": Types.DOUBLE,
    "DECIMAL": Types.BIG_DEC,
    "DATE": Types.SQL_DATE,
    "TIME_WITHOUT_TIME_ZONE": Types.SQL_TIME,
    "TIMESTAMP_WITHOUT_TIME_ZONE": Types.SQL_TIMESTAMP,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": Types.INSTANT,
}
_FAILURES = (Py4JJavaError, JavaException)  # PyFlink turns some of the former into the latter
_KEY_TYPES = (Types.STRING(), Types.LONG(), Types.INT())


# --- in ---------------------------------------------------------------------------------------------------------------


def stream_of_table(t_env: StreamTableEnvironment, table: Table) -> tuple[DataStream, RowReader]:
    """The rows of ``table`` and how to read them; its row time is their timestamp, and its watermark flows on.

    Raises:
        PipelineError: rows of the table can be changed after they have come, or the table cannot be translated.
    """
    if not isinstance(table, Table):
        raise PipelineError(
            f"from_table takes a Table, got {type(table).__name__}",
            where="from_table(...)",
            fix="t_env.sql_query(...) or t_env.from_path(...); a DataStream goes to from_datastream(...)",
        )
    selected, reader = columns_of(table)
    try:
        return t_env.to_data_stream(table.select(*selected)), reader
    except _FAILURES as error:
        text = str(error)
        if "consuming" in text and "changes" in text:
            raise PipelineError(
                "the table is updated after the fact (an aggregation, a deduplication, an outer join or a changelog "
                "source): an agent cannot take back what it has done for a row",
                where="from_table(...)",
                fix="give it rows that stay: aggregate in windows (GROUP BY window_start, window_end), or turn the "
                "changes into rows of their own with to_changelog_stream(...) and use from_datastream(...)",
            ) from error
        raise PipelineError(
            f"the table cannot be turned into a stream: {_first_line(text)}",
            where="from_table(...)",
            fix="see the cause; a table may have one row time column at most",
        ) from error


def key_of_row(reader: RowReader, key_selector: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A key selector on rows as they left the table."""
    return lambda row: key_selector(reader(row))


def column_key(reader: RowReader, key: str | Sequence[str]) -> Callable[[Any], Any]:
    """A key selector for the name of a column, or for several, on rows as they left the table."""
    names = [key] if isinstance(key, str) else list(key)
    for name in names:
        if name not in reader.names:
            raise PipelineError(
                f"the table has no column {name!r} (it has: {', '.join(reader.names)})",
                where="from_table(..., key_selector)",
                fix="give the name of a column, several names, or a function of the row",
            )
    fields = [(reader.names.index(name), reader.reads[reader.names.index(name)]) for name in names]
    if isinstance(key, str):
        return lambda row: _field(row, *fields[0])
    return lambda row: tuple([_field(row, *field) for field in fields])


def _field(row: Any, position: int, read: Any) -> Any:
    value = row[position]
    return value if read is None or value is None else read(value)


def column_key_type(table: Table, key: Any) -> TypeInformation | None:
    """Flink's own type for a key that is the name of a column, if it is one of those keys may have."""
    if not isinstance(key, str):
        return None
    column = table._j_table.getResolvedSchema().getColumn(key)
    root = column.get().getDataType().getLogicalType().getTypeRoot().name() if column.isPresent() else ""
    declared = _TYPE_OF_ROOT.get(root)
    return declared() if declared is not None and declared() in _KEY_TYPES else None


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


# --- out --------------------------------------------------------------------------------------------------------------


def type_of_schema(schema: Any) -> TypeInformation:
    """Row type of the physical columns of a schema.

    Raises:
        PipelineError: a column has a type that has none in the DataStream API, or only a name.
    """
    names, types = [], []
    for column in schema._j_schema.getColumns():
        if column.getClass().getSimpleName() != "UnresolvedPhysicalColumn":
            continue
        data_type = column.getDataType()
        root = (
            data_type.getLogicalType().getTypeRoot().toString()
            if hasattr(data_type, "getLogicalType") and _is_data_type(data_type)
            else ""
        )
        if root not in _TYPE_OF_ROOT:
            raise PipelineError(
                f"what outputs go into column {column.getName()} cannot be told from its type {data_type.toString()}",
                where="to_table(schema)",
                fix="give the row type too: to_table(schema, output_type=Types.ROW_NAMED([...], [...]))",
            )
        names.append(column.getName())
        types.append(_TYPE_OF_ROOT[root]())
    return Types.ROW_NAMED(names, types)


def _is_data_type(java: Any) -> bool:
    return bool(get_gateway().jvm.Class.forName("org.apache.flink.table.types.DataType").isInstance(java))


def table_of_stream(
    t_env: StreamTableEnvironment,
    stream: DataStream,
    declared: TypeInformation,
    schema: Schema | None,
    rowtime: str | None,
) -> Table:
    """The stream as a table; see ``to_table``."""
    if schema is None:
        builder = Schema.new_builder()
        if rowtime is not None:
            names = declared.get_field_names() if isinstance(declared, RowTypeInfo) else ["f0"]
            if rowtime in names:
                raise PipelineError(
                    f"the row type has a column {rowtime!r} of its own",
                    where="to_table(...)",
                    fix='name the column with the row time otherwise: to_table(..., rowtime="event_time")',
                )
            builder = builder.column_by_metadata(rowtime, DataTypes.TIMESTAMP_LTZ(3), "rowtime").watermark(
                rowtime, "SOURCE_WATERMARK()"
            )
        schema = builder.build()
    try:
        return t_env.from_data_stream(stream, schema)
    except _FAILURES as error:
        raise PipelineError(
            f"the outputs cannot be turned into a table: {_first_line(str(error))}",
            where="to_table(...)",
            fix="the schema must name the columns of the row type, with types that fit",
        ) from error
