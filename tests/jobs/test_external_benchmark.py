"""What the limited target of the benchmark makes of what it saw."""

from __future__ import annotations

import pytest

from jobs.benchmarks.external_server import figures


def test_windows_of_a_second_begin_at_any_arrival():
    arrivals = [0.0, 0.6, 0.7, 1.2, 1.5, 3.0]
    seen = figures(arrivals, most_at_once=2)
    assert seen["most_within_a_second"] == 4  # 0.6 to 1.5
    assert seen["per_s"] == pytest.approx(5 / 3, abs=0.1)
    assert (seen["requests"], seen["most_at_once"]) == (6, 2)


def test_a_second_that_begins_with_an_arrival_ends_before_the_next():
    assert figures([0.0, 1.0], 1)["most_within_a_second"] == 1


def test_nothing_seen_is_nothing():
    assert figures([], 0) == {"requests": 0, "most_at_once": 0, "most_within_a_second": 0, "per_s": None}
