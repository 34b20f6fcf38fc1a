"""Figures of runs -> the lines on stdout."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of ``values`` that at least ``share`` (0 to 1) of them do not exceed (nearest rank).

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values to take a percentile of")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def figures_of_run(raw_figures: dict[str, Any], call_s: float | None) -> dict[str, Any]:
    """What one run reached: its rate and, with calls of ``call_s`` seconds, concurrency and added latency (ms)."""
    figures: dict[str, Any] = {"records_per_s": raw_figures["records"] / max(raw_figures["seconds"], 1e-9)}
    if "cpu_s" in raw_figures:
        figures["cpu_ms_per_record"] = raw_figures["cpu_s"] * 1000 / raw_figures["records"]
    if call_s is not None:
        added_ms = [(latency - call_s) * 1000 for latency in raw_figures["latencies_s"]]
        figures["in_flight_max"] = raw_figures["in_flight_max"]
        figures["added_latency_ms"] = {"p50": percentile(added_ms, 0.50), "p99": percentile(added_ms, 0.99)}
    return figures


def summary_line(head: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The line of one workload and engine: medians over its runs, and the single rates."""
    line = {**head, "records_per_s": round(_median(run["records_per_s"] for run in runs))}
    if "in_flight_max" in runs[0]:
        line["in_flight_max"] = max(run["in_flight_max"] for run in runs)
        line["added_latency_ms"] = {
            name: round(_median(run["added_latency_ms"][name] for run in runs), 1) for name in ("p50", "p99")
        }
    if "cpu_ms_per_record" in runs[0]:
        line["cpu_ms_per_record"] = round(_median(run["cpu_ms_per_record"] for run in runs), 3)
    # How much of the machine others used before each run (null: unknown), for whoever reads the figures later.
    line["busy_before"] = [run.get("busy_before") for run in runs]
    line["runs"] = [round(run["records_per_s"]) for run in runs]
    return line


def ratio(agent_runs: Sequence[dict[str, Any]], raw_runs: Sequence[dict[str, Any]]) -> float:
    """Median rate of the agent over the median rate of the raw program."""
    agent = _median(run["records_per_s"] for run in agent_runs)
    return round(agent / _median(run["records_per_s"] for run in raw_runs), 3)


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)
