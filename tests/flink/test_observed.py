"""Metrics over REST, event log files and their side output of a running job, in both execution modes."""

from __future__ import annotations

import json

import pytest

from flink_agents_py.observe.metrics import COUNTERS
from tests.support.flink import eventually
from tests.support.ledger import lines

OPERATOR = "agent ObservedAgent"


@pytest.fixture
def job(host, mode, tmp_path):
    job = host.start(
        "observed",
        mode,
        {
            "log": str(tmp_path / "side.jsonl"),
            "options": {
                "event-log.level": "STANDARD",
                "event-log.directory": str(tmp_path / "log"),
                "event-log.side-output": True,
                "event-log.standard.max-string-length": 10,
            },
        },
        metrics__fetcher__update_interval="200 ms",
    )
    yield job
    host.ask("cancel")


def test_a_running_job_tells_all_metrics_and_logs_its_events(job, mode, tmp_path):
    def all_there():
        metrics = job.metrics(job.id, OPERATOR)
        return metrics if metrics.get("numOfRuns") == 29 and metrics.get("callsInFlight") == 1 else None

    metrics = eventually(all_there, what="29 runs of 30 and a call in flight")
    expected = {
        "numOfInputs": 30,
        "numOfEventProcessed": 30 + 27 * 2,  # inputs, and two events each of those that were not given up
        "numOfActionsExecuted": 2 * 27,
        "action.look.numOfActionsExecuted": 27,
        "action.tell.numOfActionsExecuted": 27,
        "numOfDeadLetters": 2,
        "numOfRetries": 10,
        "code.ConnectionError.numOfRetries": 10,
        "numOfCallAttempts": 30 + 10,
        "journalMisses": 30,
        "journalHits": 0,
        "journalMismatches": 0,
        "callsInFlight": 1,
        "callsQueued": 0,
        "runsUnfinished": 1,
        "inputsQueued": 0,
        "heldWatermarkLagMs": 0,
        "eventLogTruncatedEvents": 27,
        "eventLogWriteFailures": 0,
        "lookedUp": 29,
        "action.look.answerCount": 29,
        "action.look.answerMax": 56,
        "action.look.model.small-model.promptTokens": 290,
        "action.look.model.small-model.completionTokens": 145,
        "action.look.model.small-model.costMicros": 58_000,
    }
    assert {name: metrics.get(name) for name in expected} == expected
    assert not COUNTERS.keys() - metrics.keys()
    for name in ("numOfEventProcessedPerSec", "numOfActionsExecutedPerSec", "lookedUpPerSec"):
        assert name in metrics
    assert metrics["callbackTimeUsCount"] > 0
    assert metrics["callbackTimeUsMax"] >= metrics["callbackTimeUsP50"] > 0
    assert metrics["stateBytesPerRun"] > 0

    (file,) = (tmp_path / "log").iterdir()
    logged = eventually(lambda: _lines_once(file, 27 * 3 + 1), what="lines in the file")
    aside = eventually(lambda: _once(lines(tmp_path / "side.jsonl"), len(logged)), what="lines in the side output")
    assert sorted(record["line"] for record in aside) == sorted(logged)
    records = [json.loads(line) for line in logged]
    assert sum(record["kind"] == "retry" for record in records) == 10
    assert sum(record.get("outcome") == "dead-letter" for record in records) == 2
    assert any("truncatedString" in line for line in logged)


def _lines_once(file, least):
    written = file.read_text().splitlines()
    outputs = [line for line in written if '"_output_event"' in line]
    return written if len(outputs) == 27 and len(written) > least else None


def _once(found, count):
    return found if len(found) == count else None
