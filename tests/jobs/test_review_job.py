"""The job as a user starts it, on the demo data and on a file of bad lines, against an independent computation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "jobs" / "data" / "demo_reviews.jsonl"
FIELDS = {"review_id", "product_id", "ts", "text"}

pytestmark = pytest.mark.flink


def run_job(source, output, *arguments):
    command = [
        sys.executable,
        str(ROOT / "jobs" / "review_analysis.py"),
        "--input",
        str(source),
        "--output",
        str(output),
    ]
    # Another working directory than the project's, as a user may have.
    return subprocess.run(
        [*command, *arguments], cwd=output.parent, capture_output=True, text=True, timeout=280, check=False
    )


def records(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def reviews_of(path):
    """Reviews by product in file order, and the numbers of the lines that are none."""
    products, malformed = {}, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            review = json.loads(line)
        except ValueError:
            review = {}
        if review.keys() >= FIELDS and isinstance(review["ts"], int):
            products.setdefault(review["product_id"], []).append(review)
        else:
            malformed.append(number)
    return products, malformed


@pytest.mark.parametrize(("mode", "parallelism"), [("thread", 2), ("process", 1)])
def test_the_demo_gives_what_an_offline_computation_gives(tmp_path, mode, parallelism):
    output = tmp_path / "out.jsonl"
    done = run_job(DEMO, output, "--mode", mode, "--parallelism", str(parallelism))
    assert done.returncode == 0, done.stderr

    products, malformed = reviews_of(DEMO)
    written = records(output)
    analyzer = SentimentIntensityAnalyzer()
    for product, reviews in products.items():
        analyses = [r for r in written if r["kind"] == "analysis" and r["product_id"] == product]
        assert [r["review_id"] for r in analyses] == [review["review_id"] for review in reviews]
        assert [r["count"] for r in analyses] == list(range(1, len(reviews) + 1))
        scores = [analyzer.polarity_scores(review["text"])["compound"] for review in reviews]
        assert [r["sentiment"] for r in analyses] == scores
        means = [sum(scores[:count]) / count for count in range(1, len(scores) + 1)]
        assert [r["mean"] for r in analyses] == pytest.approx(means, abs=1e-4)
        bad = [count >= 5 and analyses[count - 1]["mean"] < -0.05 for count in range(1, len(means) + 1)]
        crossings = [count for count in range(1, len(bad) + 1) if bad[count - 1] and not (count > 1 and bad[count - 2])]
        alerts = [r for r in written if r["kind"] == "alert" and r["product_id"] == product]
        assert [(r["count"], r["mean"]) for r in alerts] == [
            (count, analyses[count - 1]["mean"]) for count in crossings
        ]
        assert product in done.stdout
    assert sum(r["kind"] == "alert" for r in written) == 1
    assert {r["kind"]: set(r) for r in written} == {
        "analysis": {"kind", "review_id", "product_id", "sentiment", "count", "mean"},
        "alert": {"kind", "product_id", "mean", "count"},
    }
    assert sorted(r["line"] for r in records(tmp_path / "out.jsonl.rejects.jsonl")) == malformed
    assert "sentiment agrees with label" in done.stdout


def test_no_line_whatever_its_bytes_ends_the_job(tmp_path):
    good = b'{"review_id":1,"product_id":"p\\u0000\\u2028","ts":1,"text":"good"}'
    lines = [
        b"\xef\xbb\xbf" + good + b"\r",
        b"",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"review_id":2,"product_id":"\\ud800","ts":1,"text":"x"}',
        good,
    ]
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"\n".join(lines))
    done = run_job(source, output)
    assert done.returncode == 0, done.stderr
    assert [r["count"] for r in records(output)] == [1, 2]
    assert sorted(r["line"] for r in records(tmp_path / "out.jsonl.rejects.jsonl")) == [2, 3, 4, 5]


def test_an_empty_input_gives_empty_files(tmp_path):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"")
    done = run_job(source, output)
    assert done.returncode == 0, done.stderr
    assert output.read_bytes() == b""
    assert (tmp_path / "out.jsonl.rejects.jsonl").read_bytes() == b""


def test_a_missing_input_is_one_line_and_code_2(tmp_path):
    done = run_job(tmp_path / "none.jsonl", tmp_path / "out.jsonl")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "does not exist" in done.stderr


def test_with_an_output_folder_the_taskmanagers_write_what_the_client_would_have_collected(tmp_path):
    output, folder = tmp_path / "out.jsonl", tmp_path / "folder"
    for arguments in ([], ["--output-folder", str(folder), "--parallelism", "2"]):
        done = run_job(DEMO, output, *arguments)
        assert done.returncode == 0, done.stderr
    written = [record for part in folder.glob("part-*.jsonl") for record in records(part)]
    collected = records(output) + records(Path(f"{output}.rejects.jsonl"))
    assert sorted(map(str, written)) == sorted(map(str, collected))
