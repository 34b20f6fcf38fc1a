from __future__ import annotations

import pytest

from jobs.benchmarks.gauge import first_measured
from jobs.benchmarks.machine import share_between
from jobs.benchmarks.report import figures_of_run, percentile, ratio, summary_line


def rates(*values):
    return [{"records_per_s": value} for value in values]


def test_the_clock_starts_at_record_20000_or_at_ten_percent():
    assert [first_measured(n) for n in (100, 100_000, 200_000, 10_000_000)] == [10, 10_000, 20_000, 20_000]


def test_ratio_is_that_of_the_medians():
    assert ratio(rates(10, 90, 30), rates(40, 1, 1000)) == 0.75


def test_percentiles_are_values_that_occurred():
    values = list(range(1, 101))
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7], 0.99)) == (50, 99, 7)
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_run_without_calls_has_a_rate_only():
    measured = {"records": 900, "seconds": 3.0, "in_flight_max": 0, "latencies_s": []}
    assert figures_of_run(measured, None) == {"records_per_s": 300.0}


def test_added_latency_is_what_exceeds_the_call_itself():
    measured = {"records": 9, "seconds": 3.0, "in_flight_max": 4, "latencies_s": [0.105, 0.110, 0.150]}
    figures = figures_of_run(measured, 0.1)
    assert figures["in_flight_max"] == 4
    assert figures["added_latency_ms"] == pytest.approx({"p50": 10.0, "p99": 50.0})


def test_a_line_has_the_median_and_the_single_runs():
    line = summary_line({"workload": "echo"}, rates(10.4, 30.2, 20.1))
    assert line == {"workload": "echo", "records_per_s": 20, "busy_before": [None] * 3, "runs": [10, 30, 20]}


def test_a_line_of_calls_has_the_highest_concurrency_and_median_latencies():
    runs = [
        {"records_per_s": 1.0, "in_flight_max": peak, "added_latency_ms": {"p50": float(peak), "p99": 2.0 * peak}}
        for peak in (3, 1, 2)
    ]
    line = summary_line({}, runs)
    assert (line["in_flight_max"], line["added_latency_ms"]) == (3, {"p50": 2.0, "p99": 4.0})


def test_busy_share_is_time_in_use_over_all_time():
    assert share_between((100, 1000), (150, 1200)) == 0.25
    assert share_between((100, 1000), (100, 1000)) == 0.0
