from __future__ import annotations

import pytest

from flink_agents_py.flink.failures import python_cause
from jobs.review_analysis import parse_arguments


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text("")
    return file


@pytest.mark.parametrize(
    ("given", "taken", "complaint"),
    [
        ("none.jsonl", "out", "does not exist"),
        (".", "out", "is not a regular file that can be read"),
        ("in.jsonl", ".", "is a folder"),
        ("in.jsonl", "missing/out", "does not exist"),
        ("in.jsonl", "in.jsonl", "would be overwritten"),
    ],
)
def test_a_file_that_cannot_be_used_ends_in_one_line_and_code_2(tmp_path, source, capsys, given, taken, complaint):
    with pytest.raises(SystemExit) as end:
        parse_arguments(["--input", str(tmp_path / given), "--output", str(tmp_path / taken)])
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert complaint in message
    assert message.count("\n") == 1


def test_the_input_may_not_be_the_rejects_file_of_the_output(tmp_path, capsys):
    source = tmp_path / "out.rejects.jsonl"
    source.write_text("")
    with pytest.raises(SystemExit):
        parse_arguments(["--input", str(source), "--output", str(tmp_path / "out")])
    assert "would be overwritten" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_parallelism_must_be_a_whole_number_from_1(tmp_path, source, capsys, value):
    with pytest.raises(SystemExit):
        parse_arguments(["--input", str(source), "--output", str(tmp_path / "out"), "--parallelism", value])
    assert "whole number" in capsys.readouterr().err


THREAD = """org.apache.flink.runtime.client.JobExecutionException: Job execution failed.
Caused by: pemja.core.PythonException: <class 'a.b.ActionFailedError'>: [FA301] action 'score' failed
  where: key 'p'
  fix: look
\tat <string>._output_elements(operations.py:56)
"""
PROCESS = """Caused by: java.lang.RuntimeException: Error received from SDK harness: Traceback (most recent call last):
  File "job.py", line 3, in score
Traceback (most recent call last):
  File "job.py", line 3, in score
ValueError: no such score

\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient
Caused by: java.lang.RuntimeException: something else
"""


def test_the_python_cause_of_a_failed_job_is_found_in_both_modes():
    assert python_cause(THREAD).startswith(
        "a.b.ActionFailedError: [FA301] action 'score' failed\n  where: key 'p'\n  fix"
    )
    assert python_cause(PROCESS) == "ValueError: no such score"


def test_without_a_python_cause_the_last_java_cause_or_the_first_line_is_told():
    assert (
        python_cause("x\nCaused by: a\nCaused by: java.io.IOException: disk full\n") == "java.io.IOException: disk full"
    )
    assert python_cause("plain message\nmore") == "plain message"


def test_a_machine_without_java_is_told_so():
    text = "Exception: Java gateway process exited before sending its port number."
    assert python_cause(text).startswith("there is no Java that runs: install Java")
