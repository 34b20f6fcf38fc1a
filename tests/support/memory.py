"""A map to keep memory in that counts, and the tree that is in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from flink_agents_py.engine.memory import RunMemory, TaskMemory
from flink_agents_py.memory import MemoryObject


class CountingMap:
    """The map of one key; counts what is asked of it."""

    def __init__(self) -> None:
        self.items: dict[str, str] = {}
        self.gets: list[str] = []
        self.puts: list[str] = []
        self.removes: list[str] = []

    def get(self, key: str) -> str | None:
        self.gets.append(key)
        return self.items.get(key)

    def put(self, key: str, value: str) -> None:
        self.puts.append(key)
        self.items[key] = value

    def remove(self, key: str) -> None:
        self.removes.append(key)
        self.items.pop(key, None)

    def keys(self) -> Iterable[str]:
        raise AssertionError("memory must not scan the map")

    def forget_counts(self) -> None:
        self.gets, self.puts, self.removes = [], [], []


def begin(state: CountingMap) -> tuple[RunMemory, TaskMemory]:
    run = RunMemory(state, "short_term")
    return run, run.begin()


def write(state: CountingMap, change: Callable[[MemoryObject], object]) -> None:
    """One run of one action that does ``change``; counts start anew afterwards."""
    run, task = begin(state)
    change(task.root)
    task.commit()
    run.flush()
    state.forget_counts()


def read(state: CountingMap) -> MemoryObject:
    return begin(state)[1].root


def tree_of(items: dict[str, str]) -> dict[str, Any]:
    """The map as nested dictionaries; fails unless every child exists and every entry is somebody's child."""
    seen = {""} & items.keys()

    def build(path: str, text: str) -> Any:
        if text[0] == "v":
            return ("value", json.loads(text[1:]))
        names = json.loads(text[1:])
        assert len(set(names)) == len(names)
        children = {}
        for name in names:
            child = f"{path}.{name}" if path else name
            assert child in items, f"{path!r} lists {name!r}, which is not there"
            seen.add(child)
            children[name] = build(child, items[child])
        return children

    tree = build("", items.get("", "o[]"))
    assert seen == items.keys(), f"entries nobody lists: {items.keys() - seen}"
    assert tree or not items
    return tree


def view_of(memory: MemoryObject) -> dict[str, Any]:
    """The same, through the API."""
    fields = memory.get_fields()
    assert list(fields) == memory.get_field_names()
    return {
        name: view_of(field) if isinstance(field, MemoryObject) else ("value", field) for name, field in fields.items()
    }
