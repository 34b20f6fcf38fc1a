"""What the chaos job has promised, checked against what it left behind.

* Every input has one output or one dead letter, once repetitions are dropped by the id of their event; repetitions say
  the same. Memory in them is that of the inputs before, per key in order.
* Every call has one idempotency key, which no other call has.
* With a store, a call whose outcome was recorded is never made again. That it was, is known by what followed: its
  action goes on only then, so the next call of the input, or its output, tells. Within one attempt no call is made
  twice, with or without a store. What remains are calls that were in flight when their attempt ended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jobs.chaos.agent import answer, is_bad

Record = dict[str, Any]
_FOLLOWERS = {"first": ("left", "right"), "left": ("note",), "right": ("note",), "note": ("last",), "last": ()}
_VIOLATIONS_SHOWN = 20


@dataclass
class Verdict:
    """Figures by name, and everything that was not as promised."""

    figures: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def expect(self, condition: object, complaint: str) -> None:
        """Note the complaint unless the condition holds."""
        if not condition:
            self.violations.append(complaint)

    def lines(self) -> Iterable[str]:
        """For people."""
        for name, value in self.figures.items():
            yield f"{name.replace('_', ' '):38} {value:>9,}"
        for violation in self.violations[:_VIOLATIONS_SHOWN]:
            yield f"VIOLATION {violation}"
        if len(self.violations) > _VIOLATIONS_SHOWN:
            yield f"... and {len(self.violations) - _VIOLATIONS_SHOWN} more"


def check(
    count: int, keys: int, ledger: list[Record], outputs: list[Record], dead_letters: list[Record], *, store: bool
) -> Verdict:
    """Judge a run that was given the numbers below ``count`` over ``keys`` keys."""
    verdict = Verdict({"inputs": count})
    first_outputs = _check_results(verdict, count, keys, outputs, dead_letters)
    _check_calls(verdict, count, keys, ledger, first_outputs, store=store)
    return verdict


def _check_results(
    verdict: Verdict, count: int, keys: int, outputs: list[Record], dead_letters: list[Record]
) -> dict[int, Record]:
    """Outputs and dead letters; returns the first of each by number."""
    letters = [
        {
            "event_id": letter["event"]["id"],
            "key": letter["key"],
            "sequence": letter["sequence"],
            "number": _number_of(letter),
            "at": letter["at"],
        }
        for letter in dead_letters
    ]
    results: dict[int, Record] = {}
    for record in (*outputs, *letters):
        number = record["number"]
        earlier = results.setdefault(number, record)
        verdict.expect(
            _content(earlier) == _content(record),
            f"input {number} has two results: {_content(earlier)} and {_content(record)}",
        )
        if record["at"] < earlier["at"]:
            results[number] = record
    missing = set(range(count)) - results.keys()
    verdict.expect(not missing, f"{len(missing)} inputs without output or dead letter: {sorted(missing)[:10]}")
    verdict.expect(not results.keys() - set(range(count)), "there are results of no input")
    ids = {record["event_id"] for record in results.values()}
    verdict.expect(len(ids) == len(results), "different inputs have results with the same event id")
    for key in range(keys):
        _check_key(verdict, f"key {key}", range(key, count, keys), results)
    for key, records in _by_key(outputs).items():
        sequences = [record["sequence"] for record in records]
        firsts = list(dict.fromkeys(sequences))
        verdict.expect(firsts == sorted(firsts), f"outputs of {key} came in the order {firsts}")
    verdict.figures |= {
        "outputs": sum(not is_bad(number) for number in results),
        "dead_letters": sum(is_bad(number) for number in results),
        "results_repeated_after_restarts": len(outputs) + len(letters) - len(results),
    }
    return results


def _check_key(verdict: Verdict, key: str, numbers: range, results: dict[int, Record]) -> None:
    done = total = 0
    for sequence, number in enumerate(numbers, 1):
        record = results.get(number)
        if record is None:
            continue  # complained of already
        expected: Record = {"key": key, "number": number, "sequence": sequence}
        if not is_bad(number):
            done, total = done + 1, total + number
            answers = [answer(call, key, number) for call in _FOLLOWERS]
            expected |= {"count": done, "total": total, "answers": answers}
        found = {name: record.get(name) for name in expected}
        verdict.expect(found == expected, f"the result of input {number} is {found}, not {expected}")


def _check_calls(
    verdict: Verdict, count: int, keys: int, ledger: list[Record], results: dict[int, Record], *, store: bool
) -> None:
    starts: dict[tuple[str, int], list[Record]] = defaultdict(list)
    owners: dict[str, tuple[str, int]] = {}
    for record in ledger:
        call = record["call"], record["number"]
        starts[call].append(record)
        owner = owners.setdefault(record["idempotency_key"], call)
        verdict.expect(owner == call, f"{owner} and {call} share an idempotency key")
        verdict.expect(record["key"] == f"key {record['number'] % keys}", f"{call} was made for {record['key']}")
    expected = {
        (call, number) for number in range(count) for call in _FOLLOWERS if call == "first" or not is_bad(number)
    }
    verdict.expect(starts.keys() == expected, f"{len(expected ^ starts.keys())} calls too few or too many were made")
    known_again = 0
    for call, records in starts.items():
        idempotency_keys = {record["idempotency_key"] for record in records}
        verdict.expect(len(idempotency_keys) == 1, f"{call} was made with {len(idempotency_keys)} idempotency keys")
        attempts = Counter(record["attempt"] for record in records)
        verdict.expect(max(attempts.values()) == 1, f"{call} was made twice within one attempt")
        recorded = _recorded_at(call, starts, results)
        after = [record for record in records if record["at"] > recorded]
        known_again += len(after)
        verdict.expect(
            not (store and after), f"{call} was made again {len(after)} times after its outcome was recorded"
        )
    verdict.figures |= {
        "attempts_of_subtasks_that_made_calls": len({record["attempt"] for record in ledger}),
        "calls": len(starts),
        "times_calls_were_made": len(ledger),
        "calls_made_more_than_once": sum(len(records) > 1 for records in starts.values()),
        "most_times_one_call_was_made": max(map(len, starts.values()), default=0),
        "made_again_although_recorded": known_again,
    }


def _recorded_at(
    call: tuple[str, int], starts: dict[tuple[str, int], list[Record]], results: dict[int, Record]
) -> float:
    """When the outcome of a call was recorded at the latest, ms; infinity if nothing has followed."""
    name, number = call
    followers = [starts[name, number][0]["at"] for name in _FOLLOWERS[name] if (name, number) in starts]
    if not followers and number in results:
        followers = [results[number]["at"]]
    return min(followers, default=float("inf"))


def _number_of(letter: Record) -> int:
    row = letter["event"]["attributes"]["input"]
    return int(row["v"][1] if isinstance(row, dict) else row[1])


def _content(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in {"at", "pid"}}


def _by_key(records: list[Record]) -> dict[str, list[Record]]:
    by_key = defaultdict(list)
    for record in records:
        by_key[record["key"]].append(record)
    return by_key
