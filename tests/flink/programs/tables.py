"""Tables in and out of agents, agents in a chain, and what the environment refuses."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from pyflink.common import Instant, Row, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from flink_agents_py.errors import FlinkAgentsError
from tests.flink.programs.event_time import SlowAgent, look_at, source
from tests.flink.programs.sinks import append_to

COLUMNS: dict[str, tuple[str, Any]] = {
    "text": ("'ü'", "ü"),
    "fixed": ("CAST('ab' AS CHAR(2))", "ab"),
    "bigint": ("CAST(5 AS BIGINT)", 5),
    "small": ("CAST(5 AS SMALLINT)", 5),
    "double": ("CAST(1.5 AS DOUBLE)", 1.5),
    "yes": ("TRUE", True),
    "price": ("CAST(1.50 AS DECIMAL(10, 2))", Decimal("1.50")),
    "day": ("DATE '2024-01-02'", dt.date(2024, 1, 2)),
    "clock": ("TIME '01:02:03'", dt.time(1, 2, 3)),
    "moment": ("TIMESTAMP '2024-01-02 03:04:05.678901'", dt.datetime(2024, 1, 2, 3, 4, 5, 678901)),  # noqa: DTZ001 - it has no zone
    "instant": (
        "TO_TIMESTAMP_LTZ(1700000000123, 3)",
        dt.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=dt.timezone.utc),
    ),
    "binary": ("CAST('ab' AS BYTES)", b"ab"),
    "numbers": ("ARRAY[1, 2]", [1, 2]),
    "texts": ("ARRAY['a', 'b']", ["a", "b"]),
    "counts": ("MAP['a', 1]", {"a": 1}),
    "by_number": ("MAP[1, 2]", {1: 2}),
    "nothing": ("CAST(NULL AS STRING)", None),
    "no_day": ("CAST(NULL AS DATE)", None),
    "nested": (
        "CAST(ROW('a', ARRAY[1.50], CAST('ab' AS BYTES)) AS ROW<x STRING, y ARRAY<DECIMAL(5, 2)>, z BYTES>)",
        Row(x="a", y=[Decimal("1.50")], z=b"ab"),
    ),
}


class Describe(Agent):
    """What it got, as text."""

    @action(InputEvent)
    @staticmethod
    def describe(event: InputEvent, ctx: RunnerContext) -> None:
        row = event.input
        seen = {name: f"{type(row[name]).__name__} {row[name]!r}" for name in row._fields}
        ctx.send_event(OutputEvent({"kind": "row", "key": repr(ctx.key), "columns": seen, "at": str(ctx.timestamp)}))


class Echo(Agent):
    """Emits what it got."""

    @action(InputEvent)
    @staticmethod
    def echo(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(event.input))


class Double(Agent):
    """Second in a chain: tells its key, and passes the number on."""

    @action(InputEvent)
    @staticmethod
    def double(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.side_output("thirds", event.input[1])
        ctx.send_event(OutputEvent(Row(key=f"{ctx.key}", number=event.input[1], rowtime=0)))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: what (the name of a function below), outputs."""
    globals()[spec["what"]](env, spec)


def types(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Every type of column reaches the agent; keys are a function, a name, several names."""
    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.local-time-zone", "Asia/Tokyo")
    agents = AgentsExecutionEnvironment.get_execution_environment(env, t_env)
    table = t_env.sql_query("SELECT " + ", ".join(f"{sql} AS `{name}`" for name, (sql, _) in COLUMNS.items()))
    keys: dict[str, Any] = {"function": lambda row: row.text, "name": "bigint", "names": ["text", "day"], "date": "day"}
    for name, key in keys.items():
        stream = agents.from_table(table, key).apply(Describe(), agent_name=name).to_datastream()
        append_to(stream, spec["outputs"], f"append {name}")


def windows(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """All four ways, each through a slow agent into windows; ``from`` and ``to`` are ``stream`` or ``table``."""
    t_env = StreamTableEnvironment.create(env)
    # Neither must reach the step that holds the watermark.
    t_env.get_config().set("table.exec.source.idle-timeout", "50 ms")
    agents = AgentsExecutionEnvironment.get_execution_environment(env, t_env)
    agents.get_config().set("seconds", spec["seconds"])
    agents.get_config().set("fail-at", -1)
    stream = source(env, spec)
    if spec["from"] == "table":
        schema = (
            Schema.new_builder()
            .column_by_metadata("moment", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
            .watermark("moment", "SOURCE_WATERMARK()")
            .build()
        )
        built = agents.from_table(t_env.from_data_stream(stream, schema), "f0")
    else:
        built = agents.from_datastream(stream, lambda row: row[0], Types.STRING())
    built.apply(SlowAgent(), side_outputs={"thirds": Types.LONG()})
    declared = Types.ROW_NAMED(["key", "number", "took"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
    if spec["to"] == "table":
        if spec.get("schema"):
            given = (
                Schema.new_builder()
                .column("key", DataTypes.STRING())
                .column("number", DataTypes.BIGINT())
                .column("took", DataTypes.DOUBLE())
                .column_by_metadata("rowtime", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
                .watermark("rowtime", "SOURCE_WATERMARK()")
                .build()
            )
            table = built.to_table(given)
        else:
            table = built.to_table(output_type=declared)
    else:
        table = t_env.from_data_stream(
            built.to_datastream(declared),
            Schema.new_builder()
            .column_by_metadata("rowtime", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
            .watermark("rowtime", "SOURCE_WATERMARK()")
            .build(),
        )
    t_env.create_temporary_view("answers", table)
    sums = t_env.sql_query(
        "SELECT `key`, window_start, SUM(number) AS total, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE answers, "
        "DESCRIPTOR(rowtime), INTERVAL '1' SECOND)) GROUP BY `key`, window_start, window_end"
    )
    told = t_env.to_data_stream(sums.select(*_text_columns())).map(
        lambda row: {"kind": "sum", "key": row[0], "start": row[1], "total": row[2], "n": row[3]},
        Types.PICKLED_BYTE_ARRAY(),
    )
    append_to(told, spec["outputs"], "append sums")
    append_to(look_at(built.side_output("thirds"), "third"), spec["outputs"], "append thirds")


def _text_columns() -> list[Any]:
    from pyflink.table.expressions import col

    return [col("key"), col("window_start").cast(DataTypes.STRING()), col("total"), col("n")]


def chain(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Three agents on one builder: slow, then one under the same keys, then one under keys of its own."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    agents.get_config().set("seconds", spec["seconds"])
    agents.get_config().set("fail-at", -1)
    built = agents.from_datastream(
        source(env, spec), lambda row: row[0], Types.STRING(), event_time=spec.get("event_time", True)
    )
    built.apply(SlowAgent(), side_outputs={"thirds": Types.LONG()})
    built.apply(Double(), side_outputs={"thirds": Types.LONG()})
    built.apply(
        Double(),
        agent_name="Last",
        key_selector=lambda row: row[1] % 2,
        key_type=Types.LONG(),
        side_outputs={"thirds": Types.LONG()},
    )
    declared = Types.ROW_NAMED(["key", "number", "took"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
    stream = built.to_datastream(declared)
    append_to(
        stream.map(lambda row: {"kind": "keyed", "key": row[0], "number": row[1]}, Types.PICKLED_BYTE_ARRAY()),
        spec["outputs"],
        "append keys",
    )
    append_to(look_at(stream, "output"), spec["outputs"], "append looks")
    append_to(look_at(built.side_output("thirds"), "third"), spec["outputs"], "append thirds")


def refusals(spec: dict[str, Any]) -> dict[str, str]:
    """What is refused when the pipeline is built, by name: the messages."""
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)
    agents = AgentsExecutionEnvironment.get_execution_environment(env, t_env)
    numbers = env.from_collection([(1, "a")], Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()]))
    table = t_env.from_data_stream(numbers)
    t_env.create_temporary_view("numbers", table)

    def second_of_one_name() -> None:
        for _ in range(2):
            agents.from_datastream(numbers, lambda row: row[0]).apply(Echo(), agent_name="Twin").to_datastream()

    attempts: dict[str, Any] = {
        "updates": lambda: agents.from_table(t_env.sql_query("SELECT s, COUNT(*) FROM numbers GROUP BY s"), "s"),
        "no table": lambda: agents.from_table(numbers, "n"),
        "no column": lambda: agents.from_table(table, "nothing"),
        "interval": lambda: agents.from_table(t_env.sql_query("SELECT INTERVAL '1' DAY AS i FROM numbers"), "i"),
        "no columns out": lambda: agents.from_table(table, "n").apply(Echo()).to_table(),
        "row time twice": lambda: (
            agents.from_table(table, "n")
            .apply(Echo(), agent_name="Rowtime")
            .to_table(output_type=Types.ROW_NAMED(["rowtime"], [Types.LONG()]))
        ),
        "second of one name": second_of_one_name,
        "key type": lambda: (
            agents.from_datastream(numbers, lambda row: True, Types.BOOLEAN())
            .apply(Echo(), agent_name="Bool")
            .to_datastream()
        ),
        "instant": lambda: (
            agents.from_table(table, "n").apply(Echo(), agent_name="Instant").to_datastream(Types.LIST(Types.INSTANT()))
        ),
        "char": lambda: (
            agents.from_table(table, "n")
            .apply(Echo(), agent_name="Char", side_outputs={"letters": Types.ROW([Types.CHAR()])})
            .to_datastream()
        ),
        "key of the first": lambda: agents.from_table(table, "n").apply(Echo(), key_selector=lambda row: row),
    }
    messages = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            messages[name] = ""
        except FlinkAgentsError as error:
            messages[name] = str(error)
    return messages


OUTPUTS: dict[str, tuple[Any, Any]] = {
    "STRING": (Types.STRING, "ü"),
    "LONG": (Types.LONG, 2**40),
    "INT": (Types.INT, 7),
    "SHORT": (Types.SHORT, 7),
    "BYTE": (Types.BYTE, 7),
    "DOUBLE": (Types.DOUBLE, 0.5),
    "FLOAT": (Types.FLOAT, 0.5),
    "BOOLEAN": (Types.BOOLEAN, True),
    "BIG_DEC": (Types.BIG_DEC, Decimal("1.50")),
    "SQL_DATE": (Types.SQL_DATE, dt.date(2024, 1, 2)),
    "SQL_TIME": (Types.SQL_TIME, dt.time(1, 2, 3)),
    "SQL_TIMESTAMP": (Types.SQL_TIMESTAMP, dt.datetime(2024, 1, 2, 3, 4, 5, 678000)),  # noqa: DTZ001
    "INSTANT": (Types.INSTANT, Instant.of_epoch_milli(1_700_000_000_123)),
    "TUPLE": (lambda: Types.TUPLE([Types.STRING(), Types.INT()]), ("a", 1)),
    "LIST": (lambda: Types.LIST(Types.LONG()), [1, 2]),
    "MAP": (lambda: Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}),
    "BASIC_ARRAY": (lambda: Types.BASIC_ARRAY(Types.STRING()), ["a", "b"]),
    "OBJECT_ARRAY": (lambda: Types.OBJECT_ARRAY(Types.ROW([Types.INT()])), [Row(f0=1)]),
    "PRIMITIVE_ARRAY of bytes": (lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab"),
    "PRIMITIVE_ARRAY": (lambda: Types.PRIMITIVE_ARRAY(Types.DOUBLE()), [0.5]),
    "flat ROW": (
        lambda: Types.ROW_NAMED(["a", "b", "rowtime"], [Types.STRING(), Types.INT(), Types.FLOAT()]),
        Row(a="a", b=None, rowtime=0.5),
    ),
    "nested ROW": (
        lambda: Types.ROW_NAMED(
            ["a", "b"], [Types.SQL_DATE(), Types.ROW_NAMED(["x", "y"], [Types.LONG(), Types.LIST(Types.STRING())])]
        ),
        Row(a=dt.date(2024, 1, 2), b=Row(x=1, y=["q"])),
    ),
    "ROW with anything": (lambda: Types.ROW_NAMED(["a"], [Types.PICKLED_BYTE_ARRAY()]), Row(a={"b": (1, 2)})),
}


PROCESS_MODE_ONLY = {"INSTANT", "PRIMITIVE_ARRAY"}


def told(value: Any) -> str:
    """Type and content; arrays come as lists or as tuples."""
    return f"{type(value).__name__} {value!r}" if not isinstance(value, (list, tuple)) else repr(list(value))


class Constant(Agent):
    """Emits the value of its case."""

    @action(InputEvent)
    @staticmethod
    def emit(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(OUTPUTS[ctx.config.get("case")][1]))


def outputs(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Every type a user may declare, through Java (an exchange) to the next Python function."""
    for case, (declared, _) in OUTPUTS.items():
        if case in PROCESS_MODE_ONLY and spec["mode"] == "thread":
            continue
        agents = AgentsExecutionEnvironment.get_execution_environment(env)
        agents.get_config().set("case", case)
        numbers = env.from_collection([1], Types.LONG())
        stream = (
            agents.from_datastream(numbers, lambda _: "one", Types.STRING(), event_time=spec["event_time"])
            .apply(Constant(), agent_name=case)
            .to_datastream(declared())
        )
        seen = stream.rebalance().map(
            lambda value, case=case: {"case": case, "got": told(value)}, Types.PICKLED_BYTE_ARRAY()
        )
        append_to(seen, spec["outputs"], f"append {case}")


def wrong(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """An agent that emits something else than it says."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    declared = Types.ROW_NAMED(["product", "stars"], [Types.STRING(), Types.LONG()])
    stream = agents.from_datastream(env.from_collection([spec["value"]]), lambda _: "one")
    append_to(stream.apply(Echo()).to_datastream(declared).map(lambda row: {"got": repr(row)}), spec["outputs"])
