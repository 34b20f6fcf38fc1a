"""External actions on Flink, against a server that fails: the right code, attempts and spacing, and nothing lost."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.support.fault_server import FaultServer
from tests.support.flink import eventually, say
from tests.support.ledger import lines

pytestmark = pytest.mark.flink

RETRY = {"initial": 0.2, "factor": 2.0, "jitter": 0.0}
SCHEMA = {
    "type": "object",
    "properties": {"script": {"type": "string"}},
    "required": ["script"],
    "additionalProperties": False,
}


@dataclass
class Case:
    """A call and what it comes to; ``requests`` the server sees, at least ``gaps`` seconds apart."""

    script: str
    code: str
    attempts: int
    requests: int
    action: str = "act"
    gaps: tuple[float, ...] = ()


CASES = {
    "well": Case("ok", "SUCCESS", 1, 1),
    "fails twice": Case("500,500,ok", "SUCCESS", 3, 3, gaps=(0.2, 0.4)),
    "always fails": Case("500", "BUSINESS_RETRYABLE", 3, 3, gaps=(0.2, 0.4)),
    "is throttled": Case("429:1,ok", "SUCCESS", 2, 2, gaps=(1.0,)),
    "is in maintenance": Case("503:1,ok", "SUCCESS", 2, 2, gaps=(1.0,)),
    "is refused": Case("409", "BUSINESS_REJECTED", 1, 1),
    # Without gaps: when the client gives up, the server notices a little later.
    "hangs": Case("hang", "TIMEOUT_READ", 3, 3, action="hasty"),
    "hangs once": Case("hang,ok", "SUCCESS", 2, 2, action="patient"),
    "stops in the middle": Case("stall", "TIMEOUT_READ", 3, 3, action="hasty"),
    "never ends": Case("trickle", "TIMEOUT_TOTAL", 1, 1, action="short"),
    "is garbage": Case("garbage", "UNKNOWN", 1, 1),
    "is no HTTP": Case("noise", "UNKNOWN", 1, 1),
    "breaks off": Case("reset,ok", "SUCCESS", 2, 2),
    "breaks off when done": Case("lost,ok", "SUCCESS", 2, 2),
    "is huge": Case("big:50000000", "SUCCESS", 1, 1),
    "is not connected": Case("ok", "NETWORK_UNAVAILABLE", 3, 0, action="refused"),
    "is not accepted": Case("ok", "TIMEOUT_CONNECT", 3, 0, action="deaf"),
    "breaks the schema": Case("", "INVALID_CALL", 0, 0),
    "is not known": Case("ok", "UNKNOWN_ACTION", 0, 0, action="nobody"),
}


def call_of(name: str) -> dict:
    case = CASES[name]
    params = {"script": case.script} if case.script else {"skript": 5}
    return {"trace_id": name, "action": case.action, "params": params, "sequence": 1}


def actions_of(server: FaultServer) -> list[dict]:
    about = {"parameters": SCHEMA, "retry": RETRY, "max_result_bytes": 1000, "max_concurrent": 50}
    return [
        {**about, "name": "act", "target": server.url},
        {**about, "name": "hasty", "target": server.url, "timeouts": {"read": 1.0}},
        # Time enough for a busy machine to answer in the second attempt.
        {**about, "name": "patient", "target": server.url, "timeouts": {"read": 5.0}},
        {**about, "name": "short", "target": server.url, "timeouts": {"total": 2.0}},
        {**about, "name": "refused", "target": server.refusing},
        {**about, "name": "deaf", "target": server.deaf, "timeouts": {"connect": 0.5}},
        {"name": "instead", "target": server.url, "max_concurrent": 50},
    ]


@pytest.fixture
def server(tmp_path):
    with FaultServer(tmp_path / "server.jsonl") as server:
        yield server


@pytest.fixture
def run(host, mode, server, tmp_path):
    """Run a job with calls; its results and dead letters."""

    def run(calls, **spec):
        files = {name: str(tmp_path / f"{name}.jsonl") for name in ("results", "dead_letters", "outputs")}
        host.run("external", mode, {"actions": actions_of(server), "calls": calls, **files, **spec})
        return lines(files["results"]), lines(files["dead_letters"])

    return run


def check_case(name, result, ledger):
    case = CASES[name]
    assert (result["code"], result["attempts"]) == (case.code, case.attempts), (name, result["errors"])
    key = result["idempotency_key"]
    assert len(ledger.starts[key]) == case.requests, name
    for gap, least in zip(ledger.gaps(key), case.gaps, strict=False):
        assert gap >= least * 0.98, (name, ledger.gaps(key))
    failed = case.attempts - (case.code == "SUCCESS") if case.attempts else 1
    assert len(result["errors"]) == failed, name


def test_every_failure_ends_in_its_code_after_its_attempts(run, server):
    results, dead = run([call_of(name) for name in CASES])
    by_name = {result["trace_id"]: result for result in results}
    assert Counter(result["trace_id"] for result in results) == dict.fromkeys(CASES, 1)
    for name, result in by_name.items():
        check_case(name, result, server.ledger)
    failures = {name: case for name, case in CASES.items() if case.code != "SUCCESS"}
    assert Counter(letter["call"]["trace_id"] for letter in dead) == dict.fromkeys(failures, 1)
    for letter in dead:
        name = letter["call"]["trace_id"]
        assert letter["call"] == call_of(name)
        assert (letter["code"], letter["attempts"]) == (CASES[name].code, CASES[name].attempts)
        assert letter["phase"] == ("execute" if CASES[name].attempts else "validate")
        assert [error["code"] for error in letter["errors"]][-1:] == [CASES[name].code]
    huge = by_name["is huge"]
    assert (huge["truncated"], huge["size"]) == (True, 50_000_000)
    assert len(huge["value"]) < 1200
    # Every request of one call bears its one key; what was asked for wrongly asked nobody.
    assert server.ledger.starts.keys() == {
        result["idempotency_key"] for result in results if CASES[result["trace_id"]].requests
    }


def test_a_deed_that_was_done_is_not_done_again(run, server):
    calls = [{**call_of("well"), "sequence": number} for number in range(5)]
    results, dead = run([*calls, {**call_of("well"), "trace_id": "another"}])
    assert [result["code"] for result in results] == ["SUCCESS"] * 6
    again = [result["deduplicated"] for result in results if result["trace_id"] == "well"]
    assert sorted(again) == [False, True, True, True, True]
    assert sorted(map(len, server.ledger.starts.values())) == [1, 1]
    assert dead == []


def test_an_agent_hears_of_failures_and_finds_another_way(run, server, tmp_path):
    names = ("well", "is refused", "breaks the schema", "is not known")
    results, dead = run([call_of(name) for name in names], agent=True)
    outputs = {(output["trace_id"], output["what"]): output["code"] for output in lines(tmp_path / "outputs.jsonl")}
    expected = {(name, "call"): CASES[name].code for name in names}
    expected |= {(name, "instead"): "SUCCESS" for name in names[1:]}
    assert outputs == expected
    assert len(results) == 7
    assert {letter["call"]["trace_id"] for letter in dead} == set(names[1:])
    assert len(server.ledger.of("instead")) == 3


def test_limits_are_kept_as_the_server_sees_them(run, server):
    calls = [
        {"trace_id": f"trace {number % 100}", "action": "limited", "params": {"script": "ok:20", "number": number}}
        for number in range(1000)
    ]
    limited = {"name": "limited", "target": server.url, "max_concurrent": 20, "rate_per_s": 400}
    results, _ = run(calls, actions=[limited])
    assert [result["code"] for result in results] == ["SUCCESS"] * 1000
    ledger = server.ledger
    say(f"at once {ledger.most_at_once()} of 20, within a second {ledger.most_within(1)} of 400")
    assert set(map(len, ledger.starts.values())) == {1}
    assert ledger.most_at_once() <= 20
    # Calls are begun evenly, at 95 % of the rate; what stalls somewhere on the way makes some arrive together.
    assert ledger.most_within(1) <= 400 * 1.25


def test_a_changed_spec_file_applies_to_the_running_job(host, mode, server, tmp_path):
    count = 80
    watched = tmp_path / "actions.json"
    results = tmp_path / "results.jsonl"
    calls = [{"trace_id": f"{number}", "action": "act", "params": {"script": "ok"}} for number in range(count)]
    spec = {
        "actions": actions_of(server),
        "calls": calls,
        "per_second": 15,
        "watch": str(watched),
        "results": str(results),
        "dead_letters": str(tmp_path / "dead.jsonl"),
    }
    (act, *_) = actions_of(server)
    job = host.start("external", mode, spec)
    eventually(lambda: len(lines(results)) > 5, what="calls are made under the first spec")
    replace_file(watched, [{**act, "version": "2"}])
    eventually(lambda: lines(results)[-1]["version"] == "2", what="calls are made under the second spec")
    before = len(lines(results))
    # One that nobody can meet any more: what comes now is refused before anything is sent.
    forbids = {**SCHEMA, "properties": {"script": {"const": "nothing"}}}
    replace_file(watched, [{**act, "version": "3", "parameters": forbids}])
    job.wait()
    made = sorted(lines(results), key=lambda result: result["started_ms"])
    assert len(made) == count
    versions = [result["version"] for result in made]
    assert versions == sorted(versions)
    assert set(versions) == {"1", "2", "3"}
    assert versions[before - 1] == "2"
    assert {result["code"] for result in made if result["version"] == "3"} == {"INVALID_CALL"}
    assert len(server.ledger.starts) == versions.index("3")


def replace_file(path, actions):
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"actions": actions}))
    part.replace(path)
