"""The jobs about event time as a user starts them, against an independent computation."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.flink


def run_job(name, folder, *arguments):
    command = [sys.executable, str(ROOT / "jobs" / name), *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)


@pytest.fixture
def reviews(tmp_path):
    """Three a second and product, out of order by up to four seconds."""
    path = tmp_path / "reviews.jsonl"
    written = [
        {
            "review_id": number,
            "product_id": f"P{number % 5}",
            "ts": 1_700_000_000_000 + number * 1500 - (number % 3) * 2000,
            "text": ["I love it", "It is awful", "It is a phone"][number % 3],
        }
        for number in range(200)
    ]
    path.write_text("".join(json.dumps(review) + "\n" for review in written) + "no review\n")
    return path, written


def test_the_probe_loses_nothing_held_and_something_unheld(reviews, tmp_path):
    path, written = reviews
    done = run_job("late_data_probe.py", tmp_path, "--input", path, "--limit", len(written), "--rate", 100)
    assert done.returncode == 0, done.stderr
    held, unheld = (
        [int(cell) for cell in line.split("│")[2:4]] for line in done.stdout.splitlines() if line.startswith("│ ")
    )
    assert held == [200, 0]
    counted, lost = unheld
    assert lost > 0
    assert counted + lost == 200


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_sums_of_the_table_pipeline_are_those_computed_offline(reviews, tmp_path, mode):
    path, written = reviews
    analyzer = SentimentIntensityAnalyzer()
    windows = defaultdict(list)
    for review in written:
        minute = dt.datetime.fromtimestamp(review["ts"] // 60_000 * 60, dt.timezone.utc)
        windows[review["product_id"], f"{minute:%Y-%m-%d %H:%M:%S}.000"].append(
            analyzer.polarity_scores(review["text"])["compound"]
        )
    output = tmp_path / "sums"
    done = run_job("table_pipeline.py", tmp_path, "--input", path, "--output", output, "--mode", mode)
    assert done.returncode == 0, done.stderr
    sums = [json.loads(line) for part in output.glob("part-*") for line in part.read_text().splitlines()]
    assert len(sums) == len(windows)
    for line in sums:
        scores = windows[line["product_id"], line["minute"]]
        assert line["reviews"] == len(scores)
        assert line["unhappy"] == sum(score < -0.05 for score in scores)
        assert line["mean"] == pytest.approx(sum(scores) / len(scores), abs=1e-4)
