"""The job as a user starts it: everything is acted on, failures are answered, dead letters are there to be read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from flink_agents_py.cli import main as cli
from jobs.incident_actions import made_up, main

ROOT = Path(__file__).resolve().parents[2]
COUNT = 16


def records(folder):
    return [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().split("\n") if line]


@pytest.mark.flink
@pytest.mark.parametrize("mode", ["thread", "process"])
def test_incidents_are_acted_on_whatever_fails(tmp_path, mode, capsys):
    output = tmp_path / "out"
    command = [sys.executable, str(ROOT / "jobs" / "incident_actions.py"), "--incidents", str(COUNT), "--mode", mode]
    done = subprocess.run(
        [*command, "--output", output], cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    measures, results, dead = (records(output / name) for name in ("measures", "results", "dead-letters"))

    incidents = made_up(COUNT)
    decided = Counter(entry["incident"] for entry in measures if entry["because_of"] == "the incident")
    assert decided.keys() == {incident["incident_id"] for incident in incidents}
    # Told twice, done once.
    first = incidents[0]["incident_id"]
    assert any(result["deduplicated"] for result in results if result["trace_id"] == first)

    failed = Counter((result["trace_id"], result["action"]) for result in results if result["code"] != "SUCCESS")
    assert Counter((letter["call"]["trace_id"], letter["call"]["action"]) for letter in dead) == failed
    codes = {(letter["call"]["action"], letter["code"]) for letter in dead}
    assert ("restart", "BUSINESS_REJECTED") in codes
    assert ("open_ticket", "INVALID_CALL") in codes
    # Each failure has been answered, by something else or by giving up.
    answered = {(entry["incident"], *entry["because_of"].split(": ")) for entry in measures}
    assert {(letter["call"]["trace_id"], letter["call"]["action"], letter["code"]) for letter in dead} <= answered
    assert any(result["attempts"] > 1 and result["code"] == "SUCCESS" for result in results)
    assert len(records(output / "audit")) == len(results)

    assert "Dead letters" in done.stdout
    assert "\x1b" not in done.stdout
    assert cli(["dlq", "list", "--json", str(output / "dead-letters")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(dead)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("no json", ":2: JSONDecodeError"), ('{"incident_id": "x"}', ":2: KeyError: 'service'"), ("[]", ":2: TypeError")],
)
def test_a_line_that_is_no_incident_is_named(tmp_path, capsys, line, complaint):
    file = tmp_path / "incidents.jsonl"
    file.write_text(json.dumps(made_up(2)[0]) + "\n" + line + "\n")
    with pytest.raises(SystemExit) as stopped:
        main(["--input", str(file), "--output", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err
