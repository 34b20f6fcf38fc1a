"""Jobs shipped as packages to a cluster whose workers have apache-flink and nothing of this project."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.flink.package import build
from flink_agents_py.flink.standalone import StandaloneCluster
from tests.support.bare_python import python_with_apache_flink
from tests.support.flink import PATIENCE_S, eventually
from tests.support.ledger import lines

ROOT = Path(__file__).parents[2]
REVIEWS = ROOT / "jobs/data/demo_reviews.jsonl"

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def review(number):
    """Every 1.5 s one, out of order by up to four seconds."""
    return {
        "product_id": f"P{number % 5}",
        "ts": 1_700_000_000_000 + number * 1500 - (number % 3) * 2000,
        "text": f"{['I love it', 'It is awful', 'It is a phone'][number % 3]}, {number}",
    }


def put(folder, name, reviews):
    """A file that appears when it is complete."""
    aside = folder / f".{name}"
    aside.write_text("".join(json.dumps(each) + "\n" for each in reviews))
    aside.rename(folder / name)


def expected_sums(reviews):
    analyzer = SentimentIntensityAnalyzer()
    windows = defaultdict(list)
    for each in reviews:
        minute = dt.datetime.fromtimestamp(each["ts"] // 60_000 * 60, dt.timezone.utc)
        score = analyzer.polarity_scores(each["text"])["compound"]
        windows[each["product_id"], f"{minute:%Y-%m-%d %H:%M:%S}.000"].append(score)
    return {
        window: (
            len(scores),
            sum(score < -0.05 for score in scores),
            pytest.approx(sum(scores) / len(scores), abs=1e-4),
        )
        for window, scores in windows.items()
    }


def sums_in(folder):
    found = [line for part in sorted(folder.glob("part-*")) for line in lines(part)]
    sums = {(line["product_id"], line["minute"]): (line["reviews"], line["unhappy"], line["mean"]) for line in found}
    assert len(sums) == len(found)  # none twice
    return sums


def start(cluster, package, *arguments, options=()):
    """The client of a job, which stays until the job has ended."""
    return subprocess.Popen(
        cluster.submit_command(package, *arguments, options=options),
        env=cluster.submit_environment(),
        cwd=cluster.home.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def id_of(cluster, name, client):
    """Flink's id of the unfinished job with that in its name, once its client has submitted it."""

    def found():
        assert client.poll() is None, client.stdout.read()
        jobs = cluster.request("GET", "/jobs/overview")["jobs"]
        return [each["jid"] for each in jobs if name in each["name"] and each["state"] != "FINISHED"]

    (job,) = eventually(found, what="the job has been submitted")
    return job


def stopped(cluster, job, directory):
    """Path of a savepoint; ``None`` if it failed because a source was just coming to its end."""
    try:
        return cluster.stop_with_savepoint(job, directory.as_uri(), timeout=PATIENCE_S)
    except EnvironmentSetupError as error:
        if "CheckpointException" not in str(error):
            raise
        return None


def test_shipped_jobs_run_where_nothing_of_the_project_is_and_go_on_from_a_savepoint_with_another_parallelism(tmp_path):
    workers = python_with_apache_flink(tmp_path / "python")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for module, there in {"pyflink": True, "flink_agents_py": False, "pydantic": False}.items():
        looked = subprocess.run(
            [workers, "-c", f"import {module}"], cwd="/", env=clean, capture_output=True, check=False
        )
        assert (looked.returncode == 0) == there, module
    packages = {
        name: build(
            ROOT / "jobs" / f"{name}.py",
            tmp_path / "packages" / name,
            modules=[ROOT / "jobs"],
            requirements=["flink-agents-py[jobs]"],
            python=str(workers),
        )
        for name in ("table_pipeline", "review_analysis")
    }
    source, sums, analysis = tmp_path / "reviews", tmp_path / "sums", tmp_path / "analysis.jsonl"
    source.mkdir()
    before, after = list(map(review, range(200))), list(map(review, range(200, 400)))
    put(source, "a.jsonl", before)
    pipeline = ["--watch", "--input", str(source), "--output", str(sums), "--seconds", "4"]
    config = {"execution.checkpointing.interval": "1 s", "execution.checkpointing.dir": (tmp_path / "c").as_uri()}
    with StandaloneCluster(2, 2, home=tmp_path / "cluster", workers=workers, config=config) as cluster:
        piping = start(cluster, packages["table_pipeline"], *pipeline, "--parallelism", "2")
        arguments = ["--input", str(REVIEWS), "--output", str(analysis), "--parallelism", "2"]
        analysing = start(cluster, packages["review_analysis"], *arguments)
        job = id_of(cluster, "sums", piping)
        cluster.wait_for_state(job, "RUNNING", timeout=PATIENCE_S)
        eventually(lambda: cluster.checkpoints(job)["counts"]["completed"] > 0)
        savepoint = eventually(lambda: stopped(cluster, job, tmp_path / "savepoints"), what="there is a savepoint")
        for client in (analysing, piping):
            said = client.communicate(timeout=PATIENCE_S)[0]
            assert client.returncode == 0, said

        # The last one is of a much later minute: those before it are over then.
        put(source, "b.jsonl", [*after, review(10_000)])
        restore = ["-s", savepoint]
        piping = start(cluster, packages["table_pipeline"], *pipeline, "--parallelism", "1", options=restore)
        job = id_of(cluster, "sums", piping)
        cluster.wait_for_state(job, "RUNNING", timeout=PATIENCE_S)
        expected = expected_sums(before + after)
        eventually(lambda: cluster.job_state(job) and len(sums_in(sums)) >= len(expected), what="all sums are there")
        assert cluster.checkpoints(job)["counts"]["restored"] == 1
        cluster.cancel(job)
        piping.communicate(timeout=PATIENCE_S)
        told = "".join(path.read_text() for path in cluster.log_dir.glob("taskmanager-*.log"))
    assert sums_in(sums) == expected
    assert str(ROOT) not in "".join(line for line in told.splitlines() if "PYTHONPATH of python worker" in line)
    assert "PYTHONPATH of python worker" in told

    here = tmp_path / "here.jsonl"  # the same on Flink's MiniCluster
    command = [sys.executable, ROOT / "jobs/review_analysis.py", "--input", REVIEWS, "--output", here]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert sorted(analysis.read_text().splitlines()) == sorted(here.read_text().splitlines())
