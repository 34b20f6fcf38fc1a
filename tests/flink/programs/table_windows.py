"""Event-time windows that lose nothing in a crash: Flink's own of SQL, in Java.

Those of PyFlink's DataStream API do, in process mode. Their triggers register timers from Python, and PyFlink registers
those of the bundle that a checkpoint flushes only behind this checkpoint: a window all of whose records are in it never
fires after a restore.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from pyflink.common import Row, Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

from flink_agents_py.flink.layout import name_steps

_WINDOWS = """
SELECT `key`, CAST(window_start AS STRING), LISTAGG(`number`)
FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(rowtime), INTERVAL '1' SECOND))
GROUP BY `key`, window_start, window_end
"""


def table_windows(env: StreamExecutionEnvironment, stream: DataStream) -> DataStream:
    """One record for each key and second of a stream of (key, number): a dictionary like those of the other windows.

    A record behind the watermark is dropped: it is missing in its window.
    """
    tables = StreamTableEnvironment.create(env)
    tables.get_config().set("table.local-time-zone", "UTC")
    row_type = Types.ROW_NAMED(["key", "number"], [Types.STRING(), Types.STRING()])
    rows = stream.map(lambda row: Row(row[0], str(row[1])), row_type).uid("windowed")
    schema = (
        Schema.new_builder()
        .column("key", DataTypes.STRING())
        .column("number", DataTypes.STRING())
        .column_by_metadata("rowtime", DataTypes.TIMESTAMP_LTZ(3))
        .watermark("rowtime", "SOURCE_WATERMARK()")
        .build()
    )
    windows = tables.sql_query(_WINDOWS.format(table=tables.from_data_stream(rows, schema)))
    fired = tables.to_data_stream(windows)
    name_steps(fired, rows, "table windows")
    return fired.map(_told, Types.PICKLED_BYTE_ARRAY()).uid("windows told")


def _told(row: Any) -> dict[str, Any]:
    start = datetime.fromisoformat(row[1]).replace(tzinfo=timezone.utc)
    numbers = sorted(int(number) for number in row[2].split(","))
    return {"kind": "window", "key": row[0], "start": int(start.timestamp() * 1000), "numbers": numbers}
