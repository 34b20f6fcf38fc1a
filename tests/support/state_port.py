"""What any keyed state port must do: one suite, for dictionaries and for Flink's state in both execution modes.

A check is a function of :class:`Ports`. It may use as many keys as it likes, all of them its own; what it leaves under
them is looked at again by its second half in a later callback, when it has one.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Protocol

from flink_agents_py.engine.ports import KeyedState, KeyScope

TEXTS = ["", "x", "naïve 日本 🜁 \U0010ffff", "line\nline\x00nul\x7f", '{"a":"\\u00e9"}', "x" * 1_000_000]
NAMES = ["", "a", "a.b", "a\\.b", "日本.🜁", "with space", "x" * 2000]
NUMBERS = [0, 1, -1, 2**31, 2**62, -(2**62)]
KEYS_PER_CHECK = 20


class Ports(Protocol):
    state: KeyedState
    scope: KeyScope

    def at(self, number: int) -> KeyedState:
        """Switch to one of the check's keys, counted from 0; the state."""


Check = Callable[[Ports], None]
CHECKS: dict[str, Check] = {}
LATER: dict[str, Check] = {}


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def later(first: Check) -> Callable[[Check], Check]:
    """The second half of a check, run in a later callback."""

    def register(function: Check) -> Check:
        LATER[first.__name__] = function
        return function

    return register


def run_checks(ports_of: Callable[[str], Ports], checks: dict[str, Check]) -> dict[str, str]:
    """What went wrong, by check; ``""`` where nothing did."""
    results = {}
    for name, function in checks.items():
        try:
            function(ports_of(name))
        except Exception:  # noqa: BLE001 - the result of the check
            results[name] = traceback.format_exc()
        else:
            results[name] = ""
    return results


# --- single values ----------------------------------------------------------------------------------------------------


@check
def absent_values_are_none(ports: Ports) -> None:
    state = ports.at(0)
    assert state.sequence.get() is None
    assert state.run.get() is None
    state.sequence.clear()
    state.run.clear()
    assert state.sequence.get() is None


@check
def numbers_come_back_as_they_were(ports: Ports) -> None:
    state = ports.at(0)
    for number in NUMBERS:
        state.sequence.put(number)
        found = state.sequence.get()
        assert (found, type(found)) == (number, int)


@check
def texts_come_back_as_they_were(ports: Ports) -> None:
    state = ports.at(0)
    for text in TEXTS:
        state.run.put(text)
        assert state.run.get() == text


@check
def a_cleared_value_is_none(ports: Ports) -> None:
    state = ports.at(0)
    state.run.put("x")
    state.sequence.put(1)
    state.run.clear()
    assert state.run.get() is None
    assert state.sequence.get() == 1
    state.run.put("y")
    assert state.run.get() == "y"


@check
def values_stay(ports: Ports) -> None:
    for number, text in enumerate(TEXTS):
        state = ports.at(number)
        state.run.put(text)
        state.sequence.put(NUMBERS[number])
    state = ports.at(len(TEXTS))
    state.run.put("x")
    state.run.clear()


@later(values_stay)
def values_are_there_later(ports: Ports) -> None:
    for number, text in enumerate(TEXTS):
        state = ports.at(number)
        assert (state.run.get(), state.sequence.get()) == (text, NUMBERS[number])
    assert ports.at(len(TEXTS)).run.get() is None


# --- maps -------------------------------------------------------------------------------------------------------------


@check
def absent_entries_are_none(ports: Ports) -> None:
    memory = ports.at(0).memory
    assert memory.get("a") is None
    assert list(memory.keys()) == []
    memory.remove("a")
    memory.put("a", "1")
    assert memory.get("b") is None
    memory.remove("b")
    assert list(memory.keys()) == ["a"]


@check
def entries_come_back_as_they_were(ports: Ports) -> None:
    memory = ports.at(0).memory
    for name in NAMES:
        for text in TEXTS:
            memory.put(name, text)
            assert memory.get(name) == text
    assert sorted(memory.keys()) == sorted(NAMES)


@check
def a_removed_entry_is_none_and_not_listed(ports: Ports) -> None:
    memory = ports.at(0).memory
    for name in "abc":
        memory.put(name, name)
    memory.remove("b")
    assert memory.get("b") is None
    assert sorted(memory.keys()) == ["a", "c"]
    memory.put("b", "again")
    assert memory.get("b") == "again"
    for name in "abc":
        memory.remove(name)
    assert list(memory.keys()) == []


@check
def entries_may_be_removed_while_listed(ports: Ports) -> None:
    memory = ports.at(0).memory
    for number in range(50):
        memory.put(str(number), "x")
    for name in memory.keys():  # noqa: SIM118 - the port is no dictionary
        memory.remove(name)
    assert list(memory.keys()) == []


@check
def the_maps_of_a_key_are_not_one(ports: Ports) -> None:
    state = ports.at(0)
    state.memory.put("1", "memory")
    state.pending.put("1", "pending")
    state.pending.remove("1")
    assert state.memory.get("1") == "memory"
    assert list(state.pending.keys()) == []


@check
def entries_stay(ports: Ports) -> None:
    memory = ports.at(0).memory
    for number in range(2500):
        memory.put(f"n{number}", str(number))
    for number in range(0, 2500, 2):
        memory.remove(f"n{number}")
    for name, text in zip(NAMES, TEXTS, strict=False):
        ports.at(1).memory.put(name, text)


@later(entries_stay)
def entries_are_there_later(ports: Ports) -> None:
    memory = ports.at(0).memory
    assert sorted(memory.keys()) == sorted(f"n{number}" for number in range(1, 2500, 2))
    assert memory.get("n1") == "1"
    assert memory.get("n2") is None
    memory.put("n1", "changed")
    memory.put("new", "x")
    memory.remove("n3")
    names = set(memory.keys())
    assert {"n1", "new"} <= names
    assert "n3" not in names
    assert len(names) == 1250
    assert memory.get("n1") == "changed"
    memory = ports.at(1).memory
    for name, text in zip(NAMES, TEXTS, strict=False):
        assert memory.get(name) == text


# --- keys -------------------------------------------------------------------------------------------------------------


@check
def each_key_has_its_own_state(ports: Ports) -> None:
    for number in range(KEYS_PER_CHECK):
        state = ports.at(number)
        assert state.run.get() is None
        assert state.memory.get("a") is None
        state.run.put(f"run {number}")
        state.memory.put("a", f"memory {number}")
        state.memory.put(f"only {number}", "")
    ports.at(3).run.clear()
    ports.at(4).memory.remove("a")
    for number in range(KEYS_PER_CHECK):
        state = ports.at(number)
        assert state.run.get() == (None if number == 3 else f"run {number}")
        assert state.memory.get("a") == (None if number == 4 else f"memory {number}")
        assert sorted(state.memory.keys()) == sorted({"a", f"only {number}"} - ({"a"} if number == 4 else set()))


@later(each_key_has_its_own_state)
def each_key_has_its_own_state_later(ports: Ports) -> None:
    for number in reversed(range(KEYS_PER_CHECK)):
        state = ports.at(number)
        assert state.run.get() == (None if number == 3 else f"run {number}")
        assert state.memory.get("a") == (None if number == 4 else f"memory {number}")


@check
def the_current_key_is_that_of_the_last_switch(ports: Ports) -> None:
    ports.at(0)
    first = ports.scope.current()
    ports.state.run.put("first")
    ports.at(1)
    second = ports.scope.current()
    ports.state.run.put("second")
    ports.scope.switch(first)
    assert ports.state.run.get() == "first"
    ports.scope.switch(second)
    assert ports.state.run.get() == "second"
    ports.scope.switch(second)
    assert ports.state.run.get() == "second"
