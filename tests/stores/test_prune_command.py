from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from flink_agents_py.cli import main
from flink_agents_py.stores.sqlite import SqliteStore
from tests.stores.conformance import record

HOUR = 3_600_000


@pytest.fixture
def hours_ago(tmp_path, monkeypatch):
    """A store with records of one key that were written so many hours ago; the environment names it."""
    path = tmp_path / "state.db"
    monkeypatch.setenv("FLINK_AGENTS_PY__ACTION_STATE_STORE__BACKEND", "sqlite")
    monkeypatch.setenv("FLINK_AGENTS_PY__ACTION_STATE_STORE__URL", str(path))

    def fill(*hours):
        for sequence, ago in enumerate(hours):
            store = SqliteStore(path, clock=lambda ago=ago: int(time.time() * 1000 - ago * HOUR))
            store.open("agent")
            store.put([record(sequence=sequence)])
            store.close()

    return fill


def sequences(tmp_path):
    store = SqliteStore(tmp_path / "state.db")
    store.open("agent")
    found = sorted(r.sequence for r in store.claim(b"k"))
    store.close()
    return found


@pytest.fixture
def job_manager():
    """Answers like a JobManager whose job has completed checkpoints so many hours ago; others do not count."""
    answer = {"history": []}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path == "/jobs/f00d/checkpoints"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode() if found else b'{"errors": ["no such job"]}')

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def checkpoint(hours, status="COMPLETED", *, savepoint=False):
        began = int(time.time() * 1000 - hours * HOUR)
        answer["history"].insert(0, {"status": status, "is_savepoint": savepoint, "trigger_timestamp": began})

    checkpoint.url = f"http://127.0.0.1:{server.server_port}/"
    yield checkpoint
    server.shutdown()
    thread.join()
    server.server_close()


def test_by_default_records_older_than_the_retention_go(hours_ago, tmp_path, capsys):
    hours_ago(30, 25, 23, 1)
    assert main(["store", "prune", "--job", "agent"]) == 0
    assert sequences(tmp_path) == [2, 3]
    assert "dropped 2 records of agent written before 20" in capsys.readouterr().out


def test_an_age_can_be_given(hours_ago, tmp_path):
    hours_ago(30, 25, 23, 1)
    assert main(["store", "prune", "--job", "agent", "--older-than", "26 h"]) == 0
    assert sequences(tmp_path) == [1, 2, 3]


def test_what_the_third_newest_checkpoint_has_may_go(hours_ago, tmp_path, job_manager):
    hours_ago(7, 5, 3, 1)
    for hours in (8, 6, 4, 2):
        job_manager(hours)
    job_manager(1.5, "FAILED")
    job_manager(1.5, savepoint=True)
    job_manager(0.5, "IN_PROGRESS")
    arguments = ["store", "prune", "--job", "agent", "--rest", job_manager.url, "--job-id", "f00d"]
    assert main(arguments) == 0
    assert sequences(tmp_path) == [1, 2, 3]
    assert main([*arguments, "--keep-checkpoints", "2", "--older-than", "6h"]) == 0
    assert sequences(tmp_path) == [1, 2, 3]
    assert main([*arguments, "--keep-checkpoints", "2"]) == 0
    assert sequences(tmp_path) == [2, 3]


def test_with_too_few_checkpoints_nothing_goes(hours_ago, tmp_path, job_manager, capsys):
    hours_ago(7, 5)
    job_manager(1)
    assert main(["store", "prune", "--job", "agent", "--rest", job_manager.url, "--job-id", "f00d"]) == 1
    assert "3 checkpoints must stay restorable" in capsys.readouterr().err
    assert sequences(tmp_path) == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rest", "http://x"], "belong together"),
        (["--older-than", "soon"], "--older-than"),
        (["-D", "action-state-store.backend=none"], "nothing to prune"),
        (["-D", "action-state-store.url=redis://me:s3cret@x"], "must not contain credentials"),
    ],
)
def test_what_cannot_be_done_is_said(hours_ago, capsys, arguments, said):
    assert main(["store", "prune", "--job", "agent", *arguments]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert "s3cret" not in error


def test_a_job_that_the_jobmanager_does_not_know_is_an_error(hours_ago, job_manager, capsys):
    assert main(["store", "prune", "--job", "agent", "--rest", job_manager.url, "--job-id", "dead"]) == 1
    assert "no such job" in capsys.readouterr().err
