"""The Kafka job as far as it goes without Flink's Kafka connector, which no Python package brings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flink_agents_py import AgentsExecutionEnvironment
from jobs.kafka_pipeline import OrderWatch, is_order, parse

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ["--bootstrap-servers", "localhost:1", "--input-topic", "orders", "--output-topic", "alerts"]


def order(number, cents, customer="ann"):
    return json.dumps({"order_id": number, "customer": customer, "ts": number, "cents": cents})


def test_an_order_three_times_as_dear_as_the_mean_so_far_is_an_alert():
    agents = AgentsExecutionEnvironment.get_execution_environment()
    cents = [100, 200, 450, 451, 5000]
    orders = [{"key": "ann", "value": order(number, each)} for number, each in enumerate(cents)]
    outputs = agents.from_list(orders).apply(OrderWatch()).to_list()
    assert [json.loads(output["ann"]) for output in outputs] == [
        {"order_id": 4, "customer": "ann", "cents": 5000, "mean": 300},
    ]


@pytest.mark.parametrize(
    "text", ["", "no", "[]", "{}", '{"order_id": 1, "customer": 2, "ts": 0, "cents": 1}', order(1, "x"), order(1, -5)]
)
def test_what_is_no_order_is_told_apart(text):
    assert not is_order(text)
    assert is_order(order(1, 5))


def test_clients_of_source_and_sink_are_configured_each_for_itself():
    options = parse([*NEEDED, "--source-property", "a=b=c", "--sink-property", "linger.ms=5", "--input-topic", "more"])
    assert options.source_property == [("a", "b=c")]
    assert options.sink_property == [("linger.ms", "5")]
    assert options.input_topic == ["orders", "more"]
    assert (options.start, options.guarantee, options.bounded) == ("committed", "at-least-once", False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--jar", "gone.jar"], "--jar gone.jar: there is no such file"),
        (["--sink-property", "x"], "'x' is not KEY=VALUE"),
        (["--source-property", "group.id=x"], "group.id has an option of its own"),
        (["--idle", "0"], "'0' is not a whole number from 1"),
        (["--guarantee", "never"], "invalid choice: 'never'"),
    ],
)
def test_mistakes_on_the_command_line_are_told(arguments, told, capsys):
    with pytest.raises(SystemExit) as exit_:
        parse([*NEEDED, *arguments])
    assert exit_.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.flink
def test_without_the_connector_the_job_says_what_is_missing_and_where_it_goes():
    started = (
        "import sys; from jobs.kafka_pipeline import has_class, main\n"
        "assert has_class('org.apache.flink.api.common.JobStatus')\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", started, *NEEDED], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Kafka connector is missing: get the jar of flink-sql-connector-kafka" in done.stderr
    assert "--jar" in done.stderr
    assert "Traceback" not in done.stderr
