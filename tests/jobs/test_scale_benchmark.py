"""How `./dev bench scale` gets a rate out of samples; that it runs was seen on real clusters."""

from __future__ import annotations

import pytest

from jobs.benchmarks.scale import rate_between


def test_the_rate_is_that_between_start_and_end_of_the_measured_part():
    samples = [(0.0, 0), (5.0, 100), (6.0, 200), (7.0, 500), (8.0, 800), (30.0, 1000)]
    assert rate_between(samples, 1000) == 300


@pytest.mark.parametrize("samples", [[], [(0.0, 0), (1.0, 1000)], [(0.0, 300), (1.0, 600)]])
def test_too_few_samples_are_no_rate(samples):
    with pytest.raises(ValueError, match="measure more records"):
        rate_between(samples, 1000)
