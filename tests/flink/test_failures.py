"""A failed job tells the Python error behind it, with the places in the user's code, in both execution modes."""

from __future__ import annotations

from flink_agents_py.flink.failures import python_cause


def test_the_python_cause_of_a_failed_job_names_the_line_of_the_users_code(host, mode):
    cause = python_cause(host.start("failing", mode, {}).failure())
    assert cause.startswith("flink_agents_py.errors.ActionFailedError: [FA301] action act failed: ZeroDivisionError")
    assert "in price_of: return 100 / (number - number)" in cause
    assert "agent FailingAgent, action act, key 'key 0', sequence 1" in cause
    assert "operator.py" not in cause
    assert cause.splitlines()[-1].startswith("  fix: ")
