"""The ``chat`` workload: one question a record to a model that answers after 100 ms, and what each layer costs.

Three programs in turn: ``bare``, aiohttp under a hand-written operator (``raw_io``); ``sdk``, the OpenAI SDK on its
aiohttp transport in aiohttp's place; ``agent``, an agent with the OpenAI connection. They differ by one layer each, so
the differences of their CPU time tell what the SDK costs and what we do.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

URL = "FLINK_AGENTS_BENCH_CHAT_URL"
IN_FLIGHT = 200
"""Bound of chats at the model at a time, for all three."""

SIDES = {"both": ("bare", "sdk", "agent"), "raw": ("bare", "sdk"), "agent": ("agent",)}


@contextmanager
def model_server() -> Iterator[None]:
    """The server, told to the runs by an environment variable."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "jobs.benchmarks.chat_server"]
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        os.environ[URL] = process.stdout.readline().strip()
        yield
    finally:
        os.environ.pop(URL, None)
        process.stdin.close()
        process.wait(10)


def question(number: int) -> str:
    """What the model is asked about a record."""
    return f"Is the number {number} interesting?"


def shares(runs: dict[str, Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """Ratios of rates, and the share of the agent's CPU time that the SDK by hand does not need."""
    rate = {side: _median(of_side, "records_per_s") for side, of_side in runs.items()}
    cpu = {side: _median(of_side, "cpu_ms_per_record") for side, of_side in runs.items()}
    return {
        "workload": "chat",
        "ratio_to_bare": round(rate["agent"] / rate["bare"], 3),
        "ratio_to_sdk": round(rate["agent"] / rate["sdk"], 3),
        "cpu_ms_per_chat": {side: round(ms, 2) for side, ms in cpu.items()},
        "own_cpu_share": round(max(0.0, cpu["agent"] - cpu["sdk"]) / cpu["agent"], 3),
    }


def _median(runs: Sequence[dict[str, Any]], figure: str) -> float:
    return statistics.median(run[figure] for run in runs)
