"""The benchmark of trigger conditions runs, and compares what it says it compares."""

from __future__ import annotations

import pytest

from flink_agents_py import AgentPlan
from jobs.benchmarks.cel import compare, engine_us
from jobs.benchmarks.cel_agents import CEL_AGENTS, CONDITIONS

pytest.importorskip("cel", reason="common-expression-language needs Python 3.11")


def test_all_sides_put_out_every_record_and_no_condition_fails():
    report = compare(200, 1, engine_us)
    assert set(report["us_per_record"]) == {"echo", "types", "other_type", "conditions"}
    assert report["ratio_to_echo"]["echo"] == 1


def test_what_a_condition_costs_is_what_is_left_without_the_actions():
    us = {"echo": 4.0, "types": 5.0, "other_type": 5.0, "conditions": 45.0}
    assert compare(10, 3, lambda side, n: us[side])["us_per_condition"] == 0.4


def test_the_sides_have_as_many_actions_and_differ_in_expressions_alone():
    plans = {side: AgentPlan.from_agent(agent()) for side, agent in CEL_AGENTS.items()}
    assert [len(plan.actions) for plan in plans.values()] == [1, *[CONDITIONS + 1] * 3]
    assert [plan.has_conditions for plan in plans.values()] == [False, False, True, True]
