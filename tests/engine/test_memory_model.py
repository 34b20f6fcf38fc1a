"""Memory against a model, with several actions of a run committing or failing, and runs following one another.

The model's tree is nested dictionaries with ("value", x) as leaves. An action's changes are paths removed from the
committed tree, then things put, in order; its view is these applied to a copy of what is committed now.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from flink_agents_py.engine.memory import RunMemory
from flink_agents_py.errors import MemoryOverwriteError, MemoryPathError
from tests.support.memory import CountingMap, tree_of, view_of

NAMES = st.sampled_from(["a", "b"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
VALUES = st.sampled_from([0, "s", None, [1, 2], {"k": 1}, True])
OBJECT = object()


def find(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return None
        tree = tree[name]
    return tree


class ModelTask:
    def __init__(self) -> None:
        self.removed: list[tuple[str, ...]] = []
        self.put: dict[tuple[str, ...], Any] = {}

    def view(self, committed: dict[str, Any]) -> dict[str, Any]:
        tree = deepcopy(committed)
        for path in self.removed:
            if find(tree, path) is not None:
                del find(tree, path[:-1])[path[-1]]
        put: dict[tuple[str, ...], Any] = {}
        for path, item in self.put.items():
            node = tree
            for at, name in enumerate(path[:-1], 1):
                if not isinstance(node.get(name), dict):
                    node[name] = {}
                    put[path[:at]] = OBJECT
                node = node[name]
            put[path] = item
            if item is not OBJECT:
                node[path[-1]] = item
            elif not isinstance(node.get(path[-1]), dict):
                node[path[-1]] = {}
        self.put = put
        return tree

    def clear(self, path: tuple[str, ...], committed: dict[str, Any]) -> None:
        self.put = {other: item for other, item in self.put.items() if other[: len(path)] != path}
        if find(committed, path) is not None and path not in self.removed:
            self.removed.append(path)

    def crosses_value(self, tree: dict[str, Any], path: tuple[str, ...]) -> bool:
        return any(isinstance(find(tree, path[:at]), tuple) for at in range(1, len(path)))


class MemoryMachine(RuleBasedStateMachine):
    """Three actions of a run change memory, commit or vanish; runs follow one another over the same map."""

    slots = st.integers(0, 2)

    def __init__(self) -> None:
        super().__init__()
        self.state = CountingMap()
        self.committed: dict[str, Any] = {}
        self.open_run()

    def open_run(self) -> None:
        self.run = RunMemory(self.state, "short_term")
        self.real = [self.run.begin() for _ in range(3)]
        self.model = [ModelTask() for _ in range(3)]

    def close_task(self, at: int) -> None:
        self.real[at] = self.run.begin()
        self.model[at] = ModelTask()

    @rule(at=slots, path=PATHS, value=VALUES, overwrite=st.booleans())
    def set(self, at: int, path: tuple[str, ...], value: Any, overwrite: bool) -> None:
        memory, model = self.real[at].root, self.model[at]
        tree = model.view(self.committed)
        old = find(tree, path)
        if model.crosses_value(tree, path):
            with pytest.raises(MemoryPathError):
                memory.set(".".join(path), value, overwrite)
        elif isinstance(old, dict) and not overwrite:
            with pytest.raises(MemoryOverwriteError):
                memory.set(".".join(path), value)
        else:
            memory.set(".".join(path), value, overwrite)
            if isinstance(old, dict):
                model.clear(path, self.committed)
            model.put[path] = ("value", value)

    @rule(at=slots, path=PATHS, overwrite=st.booleans())
    def new_object(self, at: int, path: tuple[str, ...], overwrite: bool) -> None:
        memory, model = self.real[at].root, self.model[at]
        tree = model.view(self.committed)
        old = find(tree, path)
        if model.crosses_value(tree, path):
            with pytest.raises(MemoryPathError):
                memory.new_object(".".join(path), overwrite)
        elif isinstance(old, tuple) and not overwrite:
            with pytest.raises(MemoryOverwriteError):
                memory.new_object(".".join(path))
        else:
            memory.new_object(".".join(path), overwrite)
            if isinstance(old, tuple):
                model.clear(path, self.committed)
            if not isinstance(old, dict):
                model.put[path] = OBJECT

    @rule(at=slots, path=PATHS)
    def delete(self, at: int, path: tuple[str, ...]) -> None:
        there = find(self.model[at].view(self.committed), path) is not None
        assert self.real[at].root.delete(".".join(path)) is there
        if there:
            self.model[at].clear(path, self.committed)

    @rule(at=slots, path=PATHS)
    def read(self, at: int, path: tuple[str, ...]) -> None:
        memory = self.real[at].root
        expected = find(self.model[at].view(self.committed), path)
        assert memory.is_exist(".".join(path)) is (expected is not None)
        found = memory.get(".".join(path))
        if isinstance(expected, dict):
            assert view_of(found) == expected
        else:
            assert found == (expected[1] if expected else None)

    @rule(at=slots)
    def read_everything(self, at: int) -> None:
        assert view_of(self.real[at].root) == self.model[at].view(self.committed)

    @rule(at=slots)
    def commit(self, at: int) -> None:
        self.committed = self.model[at].view(self.committed)
        self.real[at].commit()
        self.close_task(at)

    @rule(at=slots)
    def drop(self, at: int) -> None:
        """The action failed, or will be run again."""
        self.close_task(at)

    @rule()
    def flush(self) -> None:
        self.run.flush()
        assert tree_of(self.state.items) == self.committed

    @rule()
    def next_run(self) -> None:
        """Whatever was not committed is lost, as at a crash after the flush."""
        self.flush()
        self.open_run()

    def teardown(self) -> None:
        self.flush()


MemoryMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestMemoryBehavesAsTheModel = MemoryMachine.TestCase
