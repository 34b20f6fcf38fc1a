"""The judge of the chaos job finds what it is there to find."""

from __future__ import annotations

import pytest

from jobs.chaos.agent import answer, is_bad
from jobs.chaos.check import check
from jobs.chaos.cli import Spec, main

COUNT, KEYS = 30, 3
CALLS = ("first", "left", "right", "note", "last")


class Run:
    """An undisturbed run, to be spoilt."""

    def __init__(self):
        self.ledger, self.outputs, self.dead_letters = [], [], []
        done = {}
        for number in range(COUNT):
            key, sequence, at = f"key {number % KEYS}", number // KEYS + 1, 1000.0 * number
            about = {"key": key, "sequence": sequence, "at": at + 900, "pid": 1}
            for index, call in enumerate(CALLS[:1] if is_bad(number) else CALLS):
                self.call(call, number, at + 100 * index)
            if is_bad(number):
                event = {"id": f"id {number}", "attributes": {"input": {"v": [key, number]}}}
                self.dead_letters.append({**about, "event": event})
                continue
            count, total = done.get(key, (0, 0))
            done[key] = count, total = count + 1, total + number
            result = {"event_id": f"id {number}", "number": number, "count": count, "total": total}
            self.outputs.append({**about, **result, "answers": [answer(call, key, number) for call in CALLS]})

    def call(self, call, number, at, *, attempt="1", idempotency_key=None):
        identity = {"call": call, "number": number, "key": f"key {number % KEYS}", "attempt": attempt, "at": at}
        self.ledger.append({**identity, "idempotency_key": idempotency_key or f"{call} {number}"})

    def verdict(self, *, store=True):
        return check(COUNT, KEYS, self.ledger, self.outputs, self.dead_letters, store=store)


@pytest.fixture
def run():
    return Run()


def test_a_run_without_disturbance_is_fine(run):
    verdict = run.verdict()
    assert verdict.violations == []
    assert (verdict.figures["outputs"], verdict.figures["dead_letters"]) == (29, 1)
    assert verdict.figures["calls"] == 29 * 5 + 1


def test_repeated_results_and_a_call_in_flight_made_again_are_fine(run):
    run.outputs.append({**run.outputs[3], "at": 99_000.0, "pid": 2})
    run.call("first", 4, 4050.0, attempt="2")  # before anything has come of it
    verdict = run.verdict()
    assert verdict.violations == []
    assert verdict.figures["results_repeated_after_restarts"] == 1
    assert verdict.figures["calls_made_more_than_once"] == 1


def spoil_lost(run):
    del run.outputs[5]


def spoil_two_results(run):
    run.outputs.append({**run.outputs[5], "event_id": "other"})


def spoil_shared_id(run):
    run.outputs[5]["event_id"] = run.outputs[6]["event_id"]


def spoil_memory(run):
    run.outputs[5]["count"] += 1


def spoil_order(run):
    run.outputs[0], run.outputs[3] = run.outputs[3], run.outputs[0]


def spoil_repeated(run):
    run.call("first", 4, 4150.0, attempt="2")


def spoil_repeated_after_the_output(run):
    run.call("last", 4, 4950.0, attempt="2")


def spoil_twice_in_one_attempt(run):
    run.call("first", 4, 4050.0)


def spoil_another_key(run):
    run.call("first", 4, 4050.0, attempt="2", idempotency_key="new")


def spoil_shared_key(run):
    run.ledger[0]["idempotency_key"] = run.ledger[1]["idempotency_key"]


def spoil_never_made(run):
    del run.ledger[7]


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (spoil_lost, "1 inputs without output or dead letter"),
        (spoil_two_results, "has two results"),
        (spoil_shared_id, "the same event id"),
        (spoil_memory, "the result of input 5"),
        (spoil_order, "came in the order"),
        (spoil_repeated, "('first', 4) was made again 1 times after its outcome was recorded"),
        (spoil_repeated_after_the_output, "('last', 4) was made again 1 times"),
        (spoil_twice_in_one_attempt, "made twice within one attempt"),
        (spoil_another_key, "with 2 idempotency keys"),
        (spoil_shared_key, "share an idempotency key"),
        (spoil_never_made, "1 calls too few or too many"),
    ],
)
def test_what_is_not_as_promised_is_found(run, spoil, complaint):
    spoil(run)
    verdict = run.verdict()
    assert any(complaint in violation for violation in verdict.violations), verdict.violations
    assert any("VIOLATION" in line for line in verdict.lines())


def test_without_a_store_calls_since_the_checkpoint_may_be_repeated(run):
    run.call("first", 4, 4150.0, attempt="2")
    verdict = run.verdict(store=False)
    assert verdict.violations == []
    assert verdict.figures["made_again_although_recorded"] == 1


def test_the_number_of_inputs_follows_from_rate_and_time():
    assert Spec(seconds=20, every=5, rate=30, keys=10, store="none").count == 600


def test_a_wrong_command_line_is_refused(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--store", "papyrus"])
    assert end.value.code == 2
    assert "invalid choice" in capsys.readouterr().err
