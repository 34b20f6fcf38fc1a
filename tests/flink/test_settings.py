"""Flink options are completed, never overwritten, and what was set is said."""

from __future__ import annotations

import sys

import pytest

MODE = "python.execution-mode"
UNALIGNED = "execution.checkpointing.unaligned.enabled"


@pytest.fixture
def inspect(hosts):
    return lambda **spec: hosts["process"].call("tests.flink.programs.settings:inspect", **spec)


def test_what_pyflink_needs_is_set_and_listed(inspect):
    seen = inspect()
    ours, flink = seen["ours"], seen["flink"]
    assert ours[MODE] == "thread"
    assert ours["python.executable"] == ours["python.client.executable"] == sys.executable
    assert "python.pythonpath" in ours
    for key in (MODE, "python.executable", "python.client.executable", "python.pythonpath"):
        assert flink[key] == ours[key]
    assert seen["buffer timeout"] == 10
    assert ours[UNALIGNED] == flink[UNALIGNED] == "true"
    assert ours["execution.buffer-timeout.interval"] == "10 ms"


def test_what_the_user_has_set_stays(inspect):
    given = {
        MODE: "process",
        "python.executable": "/usr/bin/python3",
        "python.client.executable": "/usr/bin/python3",
        "python.fn-execution.bundle.size": "7",
        "python.fn-execution.bundle.time": "77",
        UNALIGNED: "false",
        "execution.buffer-timeout.interval": "33 ms",
    }
    seen = inspect(flink=given, agents={"bundle-size": 5, "buffer-timeout": 5, "unaligned-checkpoints": True})
    assert seen["ours"] == {}
    assert {key: seen["flink"][key] for key in given} == given
    assert seen["buffer timeout"] == 33


def test_the_buffer_timeout_of_100_ms_is_kept_when_the_user_chose_it(inspect):
    seen = inspect(flink={"execution.buffer-timeout.interval": "100 ms"})
    assert seen["buffer timeout"] == 100


def test_options_given_after_the_environment_was_made_count(inspect):
    seen = inspect(agents={"execution-mode": "process", "bundle-size": 5, "bundle-time": 50, "buffer-timeout": 20})
    assert seen["flink"][MODE] == "process"
    assert seen["flink"]["python.fn-execution.bundle.size"] == "5"
    assert seen["flink"]["python.fn-execution.bundle.time"] == "50"
    assert seen["buffer timeout"] == 20
    assert seen["ours"][MODE] == "process"


@pytest.mark.parametrize(
    ("agents", "unaligned"),
    [
        ({"unaligned-checkpoints": False}, "false"),
        ({"execution-mode": "process"}, "false"),
        ({"execution-mode": "process", "unaligned-checkpoints": True}, "true"),
    ],
)
def test_unaligned_checkpoints_can_be_declined_and_in_process_mode_be_asked_for(inspect, agents, unaligned):
    seen = inspect(agents=agents)
    assert seen["flink"][UNALIGNED] == seen["ours"][UNALIGNED] == unaligned


def test_without_pemja_process_mode_is_chosen(inspect):
    seen = inspect(missing=["pemja"])
    assert seen["ours"][MODE] == seen["flink"][MODE] == "process"
    assert "python.fn-execution.bundle.time" in seen["ours"]


def test_thread_mode_that_cannot_work_is_refused_with_the_reason(inspect):
    for asked in ({"flink": {MODE: "thread"}}, {"agents": {"execution-mode": "thread"}}):
        error = inspect(missing=["pemja"], **asked)["error"]
        assert "EnvironmentSetupError" in error
        assert "pemja is not installed" in error
        assert "process" in error


def test_two_different_modes_are_refused(inspect):
    error = inspect(flink={MODE: "process"}, agents={"execution-mode": "thread"})["error"]
    assert "execution-mode is thread" in error
    assert "set only one of them" in error


def test_packages_of_an_interpreter_that_is_not_ours_are_not_made_up(inspect):
    elsewhere = inspect(flink={"python.executable": "/elsewhere/bin/python"})
    assert elsewhere["ours"][MODE] == "thread"
    assert "python.pythonpath" not in elsewhere["flink"]
    beside = inspect(flink={"python.executable": sys.executable})
    assert sys.prefix in beside["flink"]["python.pythonpath"]


def test_an_interpreter_that_comes_with_the_job_is_not_embedded(inspect):
    error = inspect(flink={MODE: "thread", "python.executable": "environment/bin/python"})["error"]
    assert "which cannot be embedded" in error
    assert "process mode" in error
