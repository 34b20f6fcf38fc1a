"""`flink-agents-py dlq` on files as sinks write them, whole and damaged."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from flink_agents_py.cli import main
from flink_agents_py.external import ActionCall, AttemptError, FailedAction

NOW = time.time_ns() // 1_000_000
HOUR = 3_600_000

REFUND = FailedAction(
    call=ActionCall("trace 1", "refund", {"order": "ü-7", "amount": 12.5}, 3),
    phase="execute",
    code="TIMEOUT_READ",
    message="POST http://billing/refunds: no answer",
    attempts=2,
    errors=(
        AttemptError(1, "NETWORK_UNAVAILABLE", "connection\nreset", "ConnectionResetError", NOW - HOUR),
        AttemptError(2, "TIMEOUT_READ", "no answer", "ReadTimeout", NOW - HOUR + 1000, {"status": None}),
    ),
    idempotency_key="00ff",
    agent="Clerk",
    action_of="pay back",
    key="customer 9",
    started_ms=NOW - HOUR - 5000,
    failed_ms=NOW - HOUR,
    version="4",
    spec="abcd",
    target="http://billing",
)
NOTIFY = replace(
    REFUND,
    call=ActionCall("trace 2", "notify", {"whom": "ops"}, 4),
    code="BUSINESS_REJECTED",
    message="no such user",
    idempotency_key="11ee",
    errors=(),
    failed_ms=NOW - 3 * HOUR,
)
AGENTS_OWN = {"agent": "Clerk", "action": "pay back", "event": {"id": "1"}, "error": "ValueError", "message": "no"}


def text_of(*letters):
    documents = [letter.to_plain() if isinstance(letter, FailedAction) else letter for letter in letters]
    return "".join(json.dumps(document) + "\n" for document in documents)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "dead.jsonl"
    path.write_text(text_of(REFUND, NOTIFY))
    return path


@pytest.fixture
def dlq(capsys):
    """Run a command: exit code, lines on stdout, text on stderr."""

    def run(*arguments):
        code = main(["dlq", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    return run


def ids(dlq, *arguments):
    _, out, _ = dlq("list", "--json", *arguments)
    return [json.loads(line)["id"] for line in out]


# --- list -------------------------------------------------------------------------------------------------------------


def test_list_has_a_line_for_each_in_order_of_failing(dlq, file):
    code, out, err = dlq("list", file)
    assert code == 0
    head, first, second = out
    assert head.split() == ["ID", "FAILED", "ACTION", "TRACE", "CODE", "PHASE", "ATTEMPTS", "MESSAGE"]
    assert "notify" in first
    assert "BUSINESS_REJECTED" in first
    assert "refund" in second
    assert err == "2 of 2 dead letters: 1 BUSINESS_REJECTED, 1 TIMEOUT_READ\n"


def test_json_lines_are_the_letters(dlq, file):
    _, out, _ = dlq("list", "--json", file)
    assert [FailedAction.from_plain(json.loads(line)) for line in out] == [NOTIFY, REFUND]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--action", "refund"], [REFUND]),
        (["--action", "refund", "--action", "notify"], [NOTIFY, REFUND]),
        (["--code", "BUSINESS_REJECTED"], [NOTIFY]),
        (["--trace", "trace 1"], [REFUND]),
        (["--since", "2h"], [REFUND]),
        (["--action", "refund", "--code", "BUSINESS_REJECTED"], []),
    ],
)
def test_letters_are_selected(dlq, file, options, expected):
    code, out, _ = dlq("list", "--json", file, *options)
    assert code == 0
    assert [FailedAction.from_plain(json.loads(line)) for line in out] == expected


def test_a_folder_is_its_finished_files(dlq, tmp_path):
    folder = tmp_path / "sink"
    (folder / "2026-11-30--18").mkdir(parents=True)
    (folder / "2026-11-30--18" / "part-0-0").write_text(text_of(REFUND))
    (folder / "part-1-0").write_text(text_of(NOTIFY))
    (folder / ".part-2-0.inprogress").write_text("half a li")
    code, out, _ = dlq("list", "--json", folder)
    assert (code, len(out)) == (0, 2)


def test_a_line_written_twice_is_one_letter(dlq, tmp_path, file):
    again = tmp_path / "again.jsonl"
    again.write_text(text_of(REFUND))
    assert len(ids(dlq, file, again)) == 2


def test_letters_of_agents_own_actions_are_counted(dlq, tmp_path):
    file = tmp_path / "dead.jsonl"
    file.write_text(text_of(AGENTS_OWN, REFUND))
    code, out, err = dlq("list", "--json", file)
    assert (code, len(out)) == (0, 1)
    assert "1 more are of agents' own actions" in err


def test_broken_lines_are_named_and_the_rest_is_listed(dlq, file):
    with file.open("a") as lines:
        lines.write('{"kind": "external-action"}\n[1]\n{"kind": "else"}\n\n{"half": ')
    code, out, err = dlq("list", file)
    assert code == 1
    assert len(out) == 3
    for place, reason in ((3, "'call' is missing"), (4, "not a list"), (5, "'else'"), (7, "no JSON")):
        assert f"{file}:{place}: " in err
        assert reason in err


def test_bytes_that_are_no_text_are_a_broken_line(dlq, tmp_path):
    file = tmp_path / "dead.jsonl"
    file.write_bytes(b'{"kind": "\xff"}\n')
    code, _, err = dlq("list", file)
    assert code == 1
    assert f"{file}:1: no UTF-8" in err


def test_a_missing_file_is_named(dlq, tmp_path):
    code, _, err = dlq("list", tmp_path / "nothing")
    assert code == 1
    assert "[FA601]" in err
    assert "nothing does not exist" in err


def test_a_reader_that_goes_away_is_no_mistake(tmp_path):
    file = tmp_path / "dead.jsonl"
    file.write_text(text_of(*(replace(REFUND, failed_ms=number + 1) for number in range(3000))))
    listing = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from flink_agents_py.cli import main; sys.exit(main())",
            "dlq",
            "list",
            file,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert listing.stdout.readline()
    listing.stdout.close()
    assert listing.stderr.read() == b""
    listing.wait()


# --- show -------------------------------------------------------------------------------------------------------------


def test_show_tells_everything(dlq, file):
    _, identity = ids(dlq, file)
    code, out, _ = dlq("show", identity, file)
    text = "\n".join(out)
    assert code == 0
    for part in ("refund", "trace 1", "ü-7", "12.5", "TIMEOUT_READ", "http://billing", "version 4", "Clerk / pay back"):
        assert part in text
    assert "attempt 1" in text
    assert "    connection\n    reset" in text
    assert '{"status": null}' in text


def test_the_beginning_of_an_id_will_do(dlq, file):
    _, identity = ids(dlq, file)
    assert dlq("show", identity[:6], file)[0] == 0


def test_an_id_of_nothing_or_of_several_is_refused(dlq, file):
    code, _, err = dlq("show", "zz", file)
    assert code == 1
    assert "no dead letter" in err
    code, _, err = dlq("show", "", file)
    assert code == 1
    assert "give more of the id" in err


# --- replay -----------------------------------------------------------------------------------------------------------


def calls(lines):
    return [ActionCall.from_plain(json.loads(line)) for line in lines]


def test_replay_writes_calls_a_job_can_read(dlq, file):
    before = file.read_bytes()
    code, out, err = dlq("replay", file)
    assert code == 0
    assert calls(out) == [NOTIFY.call, REFUND.call]
    assert err == "2 calls written\n"
    assert file.read_bytes() == before


def test_replay_appends_to_a_file(dlq, file, tmp_path):
    target = tmp_path / "calls.jsonl"
    dlq("replay", file, "--action", "notify", "--to", target)
    dlq("replay", file, "--action", "refund", "--to", target)
    assert calls(target.read_text().splitlines()) == [NOTIFY.call, REFUND.call]


def test_replay_takes_single_letters(dlq, file):
    first, _ = ids(dlq, file)
    assert calls(dlq("replay", file, "--id", first)[1]) == [NOTIFY.call]


def test_a_call_with_several_letters_is_replayed_once(dlq, file):
    with file.open("a") as lines:
        lines.write(text_of(replace(REFUND, failed_ms=NOW)))
    assert len(ids(dlq, file)) == 3
    assert len(dlq("replay", file)[1]) == 2


def test_nothing_is_replayed_from_a_damaged_file_unless_asked(dlq, file):
    with file.open("a") as lines:
        lines.write("{\n")
    code, out, err = dlq("replay", file)
    assert (code, out) == (1, [])
    assert "--skip-broken" in err
    code, out, _ = dlq("replay", file, "--skip-broken")
    assert (code, len(out)) == (0, 2)


def test_calls_without_structure_are_left_out_by_name(dlq, tmp_path):
    file = tmp_path / "dead.jsonl"
    file.write_text(text_of(replace(REFUND, call=ActionCall("", "refund"), phase="validate", idempotency_key="")))
    code, out, err = dlq("replay", file)
    assert (code, out) == (0, [])
    assert "left out" in err
    assert "trace_id" in err


# --- replay through a registry ----------------------------------------------------------------------------------------


@pytest.fixture
def handlers(tmp_path, monkeypatch):
    """A module of a user's with a registry: refunds work, the notification fails again."""
    (tmp_path / "our_handlers.py").write_text(
        """
from flink_agents_py.external import ActionRegistry, ActionSpec, BusinessRejected

made = []


def registry():
    registry = ActionRegistry()

    @registry.action(ActionSpec(name="refund"))
    async def refund(call, session):
        made.append((call.params, session.idempotency_key))

    @registry.action(ActionSpec(name="notify"))
    def notify(call, session):
        raise BusinessRejected("still no such user")

    return registry


nothing = 5
"""
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield lambda: sys.modules["our_handlers"].made
    sys.modules.pop("our_handlers", None)


def test_a_registry_makes_the_calls_here_and_now(dlq, file, tmp_path, handlers):
    failed = tmp_path / "failed.jsonl"
    code, out, err = dlq("replay", file, "--registry", "our_handlers:registry", "--failed", failed)
    results = {result["action"]: result for result in map(json.loads, out)}
    assert code == 1
    assert results["refund"] == {"code": "SUCCESS", "action": "refund", "trace_id": "trace 1", "attempts": 1}
    assert (results["notify"]["code"], results["notify"]["message"]) == ("BUSINESS_REJECTED", "still no such user")
    assert handlers() == [(REFUND.call.params, REFUND.call.idempotency_key)]
    assert err.endswith("1 of 2 calls done, 1 failed again\n")
    _, out, _ = dlq("list", "--json", failed)
    (again,) = [FailedAction.from_plain(json.loads(line)) for line in out]
    assert (again.call, again.message) == (NOTIFY.call, "still no such user")


def test_all_done_is_success(dlq, file, handlers):
    code, out, _ = dlq("replay", file, "--action", "refund", "--registry", "our_handlers:registry")
    assert (code, len(out)) == (0, 1)


@pytest.mark.parametrize("path", ["our_handlers", "our_handlers:none", "nowhere:registry", "our_handlers:nothing"])
def test_a_registry_that_is_none_is_refused(dlq, file, handlers, path):
    code, _, err = dlq("replay", file, "--registry", path)
    assert code == 1
    assert "[FA601]" in err
    assert path in err


def test_two_ways_at_once_are_refused(dlq, file, tmp_path):
    assert "give one of them" in dlq("replay", file, "--registry", "x:y", "--to", tmp_path / "z")[2]
    assert "--failed goes with --registry" in dlq("replay", file, "--failed", tmp_path / "z")[2]
