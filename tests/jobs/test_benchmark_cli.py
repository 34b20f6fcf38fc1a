from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.benchmarks.chat import URL
from jobs.benchmarks.cli import main, parse
from jobs.benchmarks.run import RunFailedError

ROOT = Path(__file__).resolve().parents[2]


class Machine:
    """Stands in for real runs: the agent takes twice as long as the raw program."""

    def __init__(self):
        self.specs = []

    def __call__(self, spec):
        self.specs.append(spec)
        seconds = 2.0 if spec.engine == "agent" else 1.0
        return {"records": spec.n, "seconds": seconds, "in_flight_max": 5, "latencies_s": [0.11] * 10}


def idle():
    return 0.0


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_an_event_log_is_compared_with_none_of_the_agent(capsys):
    machine = Machine()
    assert main(["echo", "--event-log", "STANDARD", "--runs", "1"], measure=machine, look=idle) == 0
    assert [(spec.engine, spec.event_log) for spec in machine.specs] == [("agent", "OFF"), ("agent", "STANDARD")]
    off, standard, ratio = lines(capsys)
    assert "event_log" not in off
    assert standard["event_log"] == "STANDARD"
    assert ratio == {"workload": "echo", "event_log": "STANDARD", "ratio_to_off": 1.0}


def test_both_engines_take_turns_and_end_in_their_ratio(capsys):
    machine = Machine()
    assert main(["echo", "--n", "1000", "--runs", "2", "--keys", "10"], measure=machine, look=idle) == 0
    assert [spec.engine for spec in machine.specs] == ["raw", "agent", "raw", "agent"]
    raw, agent, ratio = lines(capsys)
    head = {"workload": "echo", "mode": "thread", "n": 1000, "keys": 10, "parallelism": 1}
    assert raw == {**head, "engine": "raw", "records_per_s": 1000, "busy_before": [0.0, 0.0], "runs": [1000, 1000]}
    assert agent == {**head, "engine": "agent", "records_per_s": 500, "busy_before": [0.0, 0.0], "runs": [500, 500]}
    assert ratio == {"workload": "echo", "ratio": 0.5}


def test_the_raw_program_of_another_name_is_named(capsys):
    main(["chain3", "--engine", "raw", "--runs", "1"], measure=Machine(), look=idle)
    assert lines(capsys)[0]["raw_program"] == "echo"


def test_io_reports_concurrency_and_added_latency(capsys):
    main(["io", "--engine", "agent", "--runs", "1"], measure=Machine(), look=idle)
    line = lines(capsys)[0]
    assert line["in_flight_max"] == 5
    assert line["added_latency_ms"] == {"p50": 10.0, "p99": 10.0}


def test_workloads_with_memory_report_state_operations_per_record(capsys):
    main(["counter", "memory10", "--runs", "1"], measure=Machine(), look=idle)
    of = {(line["workload"], line.get("engine")): line.get("state_ops") for line in lines(capsys)}
    # What earlier runs of the key have read or written is remembered.
    assert of["counter", "agent"] == {"agent.seq put": 1, "agent.stm put": 1}
    assert of["memory10", "agent"] == {"agent.seq put": 1, "agent.stm put": 10}
    assert of["memory10", "raw"] is None


def test_without_workloads_the_three_of_the_spine_are_measured(capsys):
    machine = Machine()
    main(["--engine", "agent", "--runs", "1"], measure=machine, look=idle)
    assert [spec.workload for spec in machine.specs] == ["echo", "chain3", "counter"]


def test_async_means_io_in_process_mode():
    options = parse(["--engine", "async"])
    assert (options.workload, options.mode) == (["io"], "process")


def test_a_store_is_measured_in_turn_with_none_and_ends_in_the_ratio(capsys):
    machine = Machine()
    arguments = ["echo", "--store", "sqlite", "--n", "1000", "--runs", "2"]
    assert main(arguments, measure=machine, look=idle) == 0
    assert [(spec.engine, spec.store) for spec in machine.specs] == [("agent", "none"), ("agent", "sqlite")] * 2
    assert {spec.store_url is None for spec in machine.specs if spec.store == "none"} == {True}
    assert {Path(spec.store_url).name for spec in machine.specs if spec.store == "sqlite"} == {"state.db"}
    none, sqlite, ratio = lines(capsys)
    assert (none.get("store"), sqlite["store"]) == (None, "sqlite")
    assert ratio == {"workload": "echo", "store": "sqlite", "ratio_to_none": 1.0}


def test_the_url_of_a_store_may_be_given(capsys):
    machine = Machine()
    main(["echo", "--store", "redis", "--store-url", "redis://host:1/0", "--runs", "1"], measure=machine, look=idle)
    assert [spec.store_url for spec in machine.specs] == [None, "redis://host:1/0"]


def test_none_as_a_store_is_no_store():
    assert main(["echo", "--store", "none", "--runs", "1"], measure=Machine(), look=idle) == 0


def test_chat_takes_turns_with_the_sdk_and_with_aiohttp_and_says_what_each_layer_costs(capsys):
    def machine(spec):
        assert os.environ[URL].startswith("http://127.0.0.1:")
        cpu_s = {"bare": 0.5, "sdk": 1.5, "agent": 2.0}[spec.engine]
        return {"records": spec.n, "seconds": cpu_s, "cpu_s": cpu_s}

    assert main(["chat", "--n", "1000", "--runs", "1"], measure=machine, look=idle) == 0
    *sides, layers = lines(capsys)
    assert [line["engine"] for line in sides] == ["bare", "sdk", "agent"]
    assert layers == {
        "workload": "chat",
        "ratio_to_bare": 0.25,
        "ratio_to_sdk": 0.75,
        "cpu_ms_per_chat": {"bare": 0.5, "sdk": 1.5, "agent": 2.0},
        "own_cpu_share": 0.25,
    }
    assert URL not in os.environ


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["echo", "--store", "papyrus"], "invalid choice"),
        (["echo", "--store", "sqlite", "--engine", "raw"], "--store measures the agent alone"),
        (["echo", "--store", "sqlite", "--event-time", "hold"], "--store measures the agent alone"),
        (["echo", "--store-url", "redis://host"], "--store-url needs --store"),
        (["chat", "--store", "sqlite"], "goes neither with --store"),
        (["nonsense"], "unknown workload 'nonsense'; choose from echo, chain3"),
        (["echo", "--engine", "async"], "measures the workload 'io' only"),
        (["echo", "--n", "5"], "must be at least 100, not 5"),
        (["echo", "--keys", "0"], "must be at least 1"),
        (["echo", "--runs", "x"], "'x' is not a whole number"),
        (["echo", "--mode", "fast"], "invalid choice"),
    ],
)
def test_a_wrong_command_line_is_refused_with_what_is_allowed(capsys, arguments, complaint):
    with pytest.raises(SystemExit) as end:
        parse(arguments)
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_run_on_a_busy_machine_says_so(capsys):
    main(["echo", "--engine", "raw", "--runs", "1"], measure=Machine(), look=lambda: 0.8)
    captured = capsys.readouterr()
    assert "80% of the machine was in use" in captured.err
    assert json.loads(captured.out)["busy_before"] == [0.8]


def test_a_failed_run_ends_the_benchmark_with_its_reason(capsys):
    def broken(spec):
        raise RunFailedError("the raw run failed")

    assert main(["echo"], measure=broken, look=idle) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "the raw run failed" in captured.err


@pytest.mark.flink
@pytest.mark.parametrize("workload", ["echo", "chain3", "counter", "memory10"])
def test_a_small_benchmark_runs_on_flink_and_prints_json_lines_only(workload):
    command = [sys.executable, "-m", "jobs.benchmarks", workload, "--n", "2000", "--runs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    raw, agent, ratio = (json.loads(line) for line in done.stdout.splitlines())
    assert (raw["engine"], agent["engine"]) == ("raw", "agent")
    assert ratio["ratio"] > 0


@pytest.mark.flink
def test_a_small_chat_benchmark_runs_on_flink():
    command = [sys.executable, "-m", "jobs.benchmarks", "chat", "--engine", "agent", "--n", "300", "--runs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    (agent,) = (json.loads(line) for line in done.stdout.splitlines())
    assert agent["records_per_s"] > 0
