"""What must be true of any run of ``tests/flink/programs/chain.py``, whatever happened to it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.support.ledger import Call, Ledger, answer, first_of_each, lines

CALLS = ("first", "left", "right", "last")
STEPS = {"first": "first", "left": "both", "right": "both", "last": "last"}
"""What an input awaits in one go."""


class Gate:
    """Holds the inputs from a number on, each in another one of its calls, until it is opened."""

    def __init__(self, folder: Path, number: int) -> None:
        self.path = folder / f"gate {number}"
        self.spec = [number, str(self.path)]

    def open(self) -> None:
        """Let all of them go on."""
        self.path.touch()


def everything_out(path: Path, count: int) -> bool:
    """Whether every input has its output by now."""
    return len({(output["key"], output["sequence"]) for output in lines(path)}) >= count


def check_outputs(path: Path, count: int, keys: int) -> list[dict[str, Any]]:
    """Every input has its output, per key in input order, with the memory of all before it; returns them all."""
    written = lines(path)
    by_key = defaultdict(list)
    for output in first_of_each(written):
        by_key[output["key"]].append(output)
    assert sum(map(len, by_key.values())) == count, "inputs without an output (or outputs of no input)"
    for key, outputs in by_key.items():
        numbers = [number for number in range(count) if f"key {number % keys}" == key]
        assert [output["number"] for output in outputs] == numbers
        assert [output["sequence"] for output in outputs] == list(range(1, len(numbers) + 1))
        assert [output["count"] for output in outputs] == list(range(1, len(numbers) + 1))
        assert [output["total"] for output in outputs] == [sum(numbers[: i + 1]) for i in range(len(numbers))]
        for output in outputs:
            assert output["answers"] == [answer(name, key, output["number"]) for name in CALLS]
    return written


def check_calls(path: Path, count: int) -> Ledger:
    """Every call was made, under one idempotency key; returns the ledger."""
    ledger = Ledger(path)
    assert len(ledger.starts) == len(CALLS) * count
    ledger.check_identities()
    return ledger


def recorded_before(ledger: Ledger, outputs: list[dict[str, Any]], moment: float) -> list[Call]:
    """Calls whose outcome was in keyed state when a checkpoint that was triggered at ``moment`` was taken.

    Known by what followed them, not by when they ended: the callback that started the next call, or emitted the output,
    recorded them, and no barrier passes within a callback.
    """
    recorded = []
    for (name, key, number), starts in ledger.starts.items():
        if min(start["at"] for start in starts) < moment:
            if name == "left":
                recorded.append(("first", key, number))
            elif name == "last":
                recorded += [("left", key, number), ("right", key, number)]
    recorded += [("last", output["key"], output["number"]) for output in outputs if output["at"] < moment]
    return recorded


def restored_checkpoint(checkpoints: dict[str, Any]) -> tuple[float, float]:
    """When the checkpoint of the last restore was triggered, and when it was restored (ms); from the REST answer."""
    restored = checkpoints["latest"]["restored"]
    (trigger,) = [entry["trigger_timestamp"] for entry in checkpoints["history"] if entry["id"] == restored["id"]]
    return trigger, restored["restore_timestamp"]


def steps_made_again(ledger: Ledger) -> dict[str, set[tuple[int, str]]]:
    """By key, what it was that was made again: number of the input and step of it."""
    again = defaultdict(set)
    for name, key, number in ledger.repeated():
        again[key].add((number, STEPS[name]))
    return again


def check_not_repeated_once_known(ledger: Ledger, outputs: list[dict[str, Any]]) -> None:
    """No call was made again once its outcome was recorded in a store, whatever checkpoint was restored.

    Known by what followed it: its action went on only then.
    """
    emitted: dict[Call, float] = {}
    for output in outputs:
        call = ("last", output["key"], output["number"])
        emitted[call] = min(output["at"], emitted.get(call, output["at"]))
    for (name, key, number), starts in ledger.starts.items():
        followers = {"first": ("left", "right"), "left": ("last",), "right": ("last",), "last": ()}[name]
        moments = [ledger.starts[follower, key, number][0]["at"] for follower in followers]
        known = min(moments) if moments else emitted[name, key, number]
        again = [start["at"] - known for start in starts if start["at"] > known]
        assert not again, f"{name} of {number} was made again {again} ms after its outcome was recorded"
