"""Streams and tables in and out, agents in a chain, types of columns and outputs, and what is refused."""

from __future__ import annotations

import datetime as dt

import pytest

from tests.flink.programs import tables
from tests.support.ledger import lines
from tests.support.windows import check_looks, expected_windows

COUNT, KEYS = 40, 4


@pytest.fixture
def spec(outputs):
    return {"count": COUNT, "keys": KEYS, "per_second": 80, "seconds": 0.5, "outputs": str(outputs)}


@pytest.mark.parametrize(
    ("source", "target", "schema"),
    [("table", "table", False), ("stream", "table", True), ("table", "stream", False)],
    ids=["table to table", "stream to table by schema", "table to stream"],
)
def test_row_time_goes_in_and_out_and_sql_windows_are_complete(host, mode, outputs, spec, source, target, schema):
    spec |= {"what": "windows", "from": source, "to": target, "schema": schema}
    host.run("tables", mode, spec, parallelism=2)
    written = lines(outputs)
    sums = {(line["key"], line["start"]): (line["total"], line["n"]) for line in written if line["kind"] == "sum"}
    assert sums == {
        (key, f"{dt.datetime.fromtimestamp(start / 1000, dt.timezone.utc):%Y-%m-%d %H:%M:%S}.000"): (
            sum(numbers),
            len(numbers),
        )
        for (key, start), numbers in expected_windows(COUNT, KEYS).items()
    }
    check_looks(written, "third", set(range(0, COUNT, 3)))


def test_columns_of_every_type_reach_the_agent_as_python_values(host, mode, outputs):
    host.run("tables", mode, {"what": "types", "outputs": str(outputs)})
    written = lines(outputs)
    expected = {name: f"{type(value).__name__} {value!r}" for name, (_, value) in tables.COLUMNS.items()}
    assert len(written) == 4
    for row in written:
        assert row["columns"] == expected
    day = "datetime.date(2024, 1, 2)"
    assert {row["key"] for row in written} == {"'ü'", "5", f"('ü', {day})", day}


@pytest.mark.parametrize("event_time", [True, False])
def test_outputs_of_every_type_reach_the_next_function(host, mode, outputs, event_time):
    host.run("tables", mode, {"what": "outputs", "outputs": str(outputs), "event_time": event_time})
    got = {line["case"]: line["got"] for line in lines(outputs)}
    carried = tables.OUTPUTS.keys() - (tables.PROCESS_MODE_ONLY if mode == "thread" else set())
    assert got == {case: tables.told(tables.OUTPUTS[case][1]) for case in carried}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"product": "a", "stars": "five"}, "stars of the output is 'five' (str), not an int"),
        (["a"], "not a Row of the columns product, stars"),
        ("a", "the output is 'a' (str), not a Row of the columns product, stars"),
        ({"product": "a", "stars": 2**63}, "not an int of 64 bits"),
    ],
)
def test_an_output_of_another_type_is_told_in_the_users_words(hosts, outputs, value, told):
    job = hosts["thread"].start("tables", "thread", {"what": "wrong", "outputs": str(outputs), "value": value})
    failure = job.failure()
    assert "[FA503]" in failure
    assert told in failure
    assert "Row(product: String, stars: Long)" in failure


def test_agents_in_a_chain_keep_keys_and_watermarks(host, mode, outputs, spec):
    host.run("tables", mode, {**spec, "what": "chain"}, parallelism=2)
    written = lines(outputs)
    keyed = {(line["key"], line["number"]) for line in written if line["kind"] == "keyed"}
    assert keyed == {(f"{number % 2}", number) for number in range(COUNT)}
    check_looks(written, "output", set(range(COUNT)))
    check_looks(written, "third", set(range(COUNT)))  # of two agents together


def test_what_cannot_work_is_refused_when_the_pipeline_is_built(hosts):
    messages = hosts["thread"].call("tests.flink.programs.tables:refusals")
    assert "updated after the fact" in messages["updates"]
    assert "GROUP BY window_start" in messages["updates"]
    assert "takes a Table, got DataStream" in messages["no table"]
    assert "no column 'nothing' (it has: n, s)" in messages["no column"]
    assert "INTERVAL" in messages["interval"]
    assert "a table needs columns" in messages["no columns out"]
    assert "column 'rowtime' of its own" in messages["row time twice"]
    assert "an agent named 'Twin' already" in messages["second of one name"]
    assert "event_time=False" in messages["key type"]
    assert "cannot carry a Instant in thread mode" in messages["instant"]
    assert "cannot carry a Char" in messages["char"]
    assert "side output 'letters' of agent Char" in messages["char"]
    assert "given already" in messages["key of the first"]
    assert all(messages.values())
