"""Savepoints of this version and of all before it are restored; see ``tests/flink/savepoints/make.py``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flink_agents_py.serde import decode, encode
from tests.flink.programs.keepsake import KINDS, SUSPENDED, VALUES, Point
from tests.flink.savepoints.make import this_version
from tests.support.flink import MODES, HostError, eventually
from tests.support.ledger import lines

SAVEPOINTS = Path(__file__).parent / "savepoints"
VERSIONS = sorted(path.name for path in SAVEPOINTS.iterdir() if (path / f"{MODES[0]}-text").exists())


def restore(host, mode, savepoint, ledger, outputs, *, keys, **spec):
    return host.start(
        "keepsake",
        mode,
        {"ledger": str(ledger), "outputs": str(outputs), "keys": keys, "first": False, **spec},
        execution__state_recovery__path=(SAVEPOINTS / savepoint).as_uri(),
        # The source is another one, and what surrounds the agent may change from version to version.
        execution__state_recovery__ignore_unclaimed_state=True,
    )


def test_there_are_savepoints_of_this_version():
    assert this_version() in VERSIONS
    names = {path.name for path in (SAVEPOINTS / this_version()).iterdir()}
    assert names == {f"{mode}-{keys}" for mode in MODES for keys in KINDS}


def test_savepoints_know_nothing_of_the_machine_they_were_made_on():
    for path in SAVEPOINTS.rglob("_metadata"):
        assert not re.findall(rb"file:|/tmp/|/home/|/root/|/work/|\.jsonl", path.read_bytes())


@pytest.mark.flink
@pytest.mark.parametrize(
    ("keys", "config"),
    [*((keys, {}) for keys in KINDS), ("text", {"short-term-memory.state-ttl.ms": "1 h"})],
    ids=[*KINDS, "text, with a TTL from now on"],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_kept_savepoint_goes_on_where_it_was_taken(host, mode, version, keys, config, ledger, outputs):
    restore(host, mode, f"{version}/{mode}-{keys}", ledger, outputs, keys=keys, config=config).wait()

    by_key: dict[str, list[dict]] = {}
    for output in lines(outputs):
        by_key.setdefault(output["key"], []).append(output)
    assert len(by_key) == SUSPENDED + 1
    suspended = [key for key, written in by_key.items() if len(written) > 1]
    assert len(suspended) == SUSPENDED
    for key, written in by_key.items():
        told = [(output["sequence"], output["what"]) for output in written]
        if key not in suspended:
            assert told == [(2, "input 4")]
            check_memory(written[0]["memory"], since=False)
            continue
        # "later" was in the queue behind the event that suspended, and its action needed nothing to wait for.
        assert told == [(2, "noted"), (3, "input 2"), (4, "input 3"), (5, "input 4")]
        noted, *rest = written
        name = decode(key)
        assert noted["answers"] == [
            f"answer to first of {name}",
            "ValueError('no answer', 42)",
            f"answer to second of {name}",
        ]
        assert noted["point"] == encode(Point(4, (5,)))
        assert noted["thought"] == encode(Point(3, "of this run"))
        for output in rest:
            check_memory(output["memory"], since=True)
    # Calls whose outcome was in the savepoint are answered from it; those in flight are made again.
    assert sorted(call["question"] for call in lines(ledger)) == sorted(f"second of {decode(key)}" for key in suspended)


def check_memory(described, *, since):
    expected = {}
    for path, value in VALUES.items():
        names = [re.sub(r"\\(.)", r"\1", part) for part in re.findall(r"(?:[^.\\]|\\.)+", path)]
        expected["/".join(names)] = encode(value)
    expected["empty/"] = ""
    if since:
        expected["since/suspended"] = encode(1)
        found = decode(described.pop("after/suspension"))
        assert len(found) == 3
    assert described == expected


@pytest.mark.flink
def test_a_value_whose_class_is_gone_fails_with_its_path(host, mode, ledger, outputs):
    savepoint = f"{this_version()}/{mode}-text"
    error = restore(host, mode, savepoint, ledger, outputs, keys="text", agent="retired").failure()
    assert "tests.flink.programs.keepsake:Retired" in error
    assert "memory path 'classes.retired'" in error
    assert "fix:" in error


@pytest.mark.flink
def test_a_savepoint_of_the_other_execution_mode_is_refused(host, mode, ledger, outputs):
    """The state has other names and types there: without a word, it would be restored with nothing in it."""

    def start(saved_mode):
        return host.start(
            "keepsake",
            mode,
            {"ledger": str(ledger), "outputs": str(outputs), "keys": "text", "first": True, "hangs": False},
            execution__state_recovery__path=(SAVEPOINTS / this_version() / f"{saved_mode}-text").as_uri(),
        )

    with pytest.raises(HostError, match="Cannot map checkpoint/savepoint state for operator"):
        start({"thread": "process", "process": "thread"}[mode])
    start(mode)  # the same job: it is the mode that was refused
    eventually(lambda: len(lines(outputs)) >= 3 * SUSPENDED)
    host.ask("cancel")
