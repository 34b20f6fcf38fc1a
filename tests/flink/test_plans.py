"""Plans that change under runs in flight: exchanged while the job runs, and over a savepoint."""

from __future__ import annotations

import pytest

from tests.support.flink import eventually, say
from tests.support.ledger import lines

# Runs are left to begin for some seconds when the new plan is given.
COUNT, KEYS, IN_FLIGHT, PER_SECOND = 3_100, 3_000, 1_000, 300
EXPECTED = {
    1: ("v1: {}", ["looked up 1", "searched 1"], "tell"),
    2: ("v2: {}", ["searched 1", "booked 1"], "shout"),
}


def begun(ledger) -> dict[int, str]:
    """The version each input began under, by number."""
    versions: dict[int, str] = {}
    for line in lines(ledger):
        versions.setdefault(line["number"], line["version"])
    return versions


@pytest.mark.flink
@pytest.mark.parametrize(("mode", "source"), [("thread", "file"), ("thread", "stream"), ("process", "stream")])
def test_a_thousand_runs_in_flight_keep_their_plan_while_it_is_exchanged(host, mode, source, tmp_path, ledger, outputs):
    """Prompt, tools and a trigger change; then a savepoint with runs of both versions in it."""
    digests, texts = {}, {}
    for number in (1, 2):
        digests[number], texts[number] = host.call("tests.flink.programs.plans:plan_text", version=number)
    folder = tmp_path / "plans"
    folder.mkdir()
    path = folder / "plan 1.json" if source == "stream" else tmp_path / "plan.json"
    path.write_text("half of a pl\n")  # refused: the plan that the job was submitted with stays in force
    gate = tmp_path / "gate"

    def start(savepoint=""):
        spec = {
            "count": COUNT,
            "keys": KEYS,
            "per_second": PER_SECOND,
            "event_time": source == "stream",
            "gate": str(gate),
            "ledger": str(ledger),
            "outputs": str(outputs),
            "plans": str(path if source == "file" else folder),
        }
        restore = {"execution__state_recovery__path": savepoint} if savepoint else {}
        return host.start("plans", mode, spec, **restore)

    job = start()
    eventually(lambda: len(begun(ledger)) >= IN_FLIGHT, what=f"{IN_FLIGHT} keys in flight")
    (letter,) = eventually(lambda: lines(f"{outputs}.letters"), what="a dead letter")
    assert (letter["kind"], letter["plan_version"]) == ("plan", digests[1])
    new = tmp_path / "new"
    new.write_text(texts[2] + "\n")
    new.rename(path if source == "file" else folder / "plan 2.json")
    eventually(lambda: digests[2] in begun(ledger).values(), what="runs begin under the new plan")
    assert not lines(outputs)
    savepoint = job.stop(tmp_path / "savepoints")
    before = begun(ledger)
    assert list(before.values()).count(digests[1]) >= IN_FLIGHT

    gate.touch()
    start(savepoint)
    eventually(lambda: len({line["number"] for line in lines(outputs)}) >= COUNT, what="all outputs")
    host.ask("cancel")

    known = {digest: number for number, digest in digests.items()}
    written = {line["number"]: line for line in lines(outputs)}
    assert set(written) == set(range(COUNT))
    for number, line in written.items():
        assert line["version"] == line["began"] == line["ended"], "a run is under one plan"
        assert line["version"] == before.get(number, digests[2]), "and it is the one it began with"
        prompt, tools, teller = EXPECTED[known[line["version"]]]
        assert (line["prompt"], line["tools"], line["teller"]) == (prompt.format(number), tools, teller)
    counts = [sum(line["version"] == digest for line in written.values()) for digest in digests.values()]
    say(f"{mode}, {source}: {counts} outputs by version; {len(before)} runs were in the savepoint")


@pytest.mark.flink
@pytest.mark.parametrize("mode", ["thread"])  # the other one is in the test above
def test_a_savepoint_with_suspended_runs_goes_on_under_a_changed_plan(host, mode, tmp_path, ledger, outputs):
    """Interrupted runs end under the plan they began with; what waited behind them begins under the new one."""
    count, keys = 20, 10
    gate = tmp_path / "gate"

    def start(agent, savepoint=""):
        spec = {
            "count": count,
            "keys": keys,
            "per_second": 0,
            "gate": str(gate),
            "ledger": str(ledger),
            "outputs": str(outputs),
            "agent": agent,
        }
        restore = {"execution__state_recovery__path": savepoint} if savepoint else {}
        return host.start("plans", mode, spec, parallelism=2 if savepoint else 1, **restore)

    job = start("1")
    eventually(lambda: len(begun(ledger)) >= keys, what="each key has a call in flight")
    savepoint = job.stop(tmp_path / "savepoints")
    gate.touch()
    start("renamed", savepoint)
    eventually(lambda: len({line["number"] for line in lines(outputs)}) >= count, what="all outputs")
    host.ask("cancel")
    written = {line["number"]: line for line in lines(outputs)}
    for number in range(count):
        line = written[number]
        assert line["began"] == line["ended"]
        assert (line["prompt"], line["teller"]) == (
            (f"v1: {number}", "tell") if number < keys else (f"renamed: {number}", "shout")
        )
