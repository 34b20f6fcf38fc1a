"""Memory with a TTL against a model: any operations at any times, and what is in state after cleaning up."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flink_agents_py import AgentConfiguration
from flink_agents_py.engine.memories import ExpiringMemory
from flink_agents_py.engine.memory_item import split_time
from flink_agents_py.engine.memory_ttl import Expiry, sweep
from flink_agents_py.errors import MemoryPathError
from flink_agents_py.testing import VirtualClock
from tests.support.memory import tree_of, view_of

TTL = 10
PATHS = ["a", "a.b", "a.b.c", "a.d", "e", "e.f"]


class Model:
    """A tree of nodes [time, value or dictionary of nodes]; expired ones are taken out before anything else happens."""

    def __init__(self, *, on_read: bool) -> None:
        self.root: dict[str, list[Any]] = {}
        self.on_read = on_read
        self.now = 0

    def prune(self, fields: dict[str, list[Any]]) -> None:
        for name, (time, content) in list(fields.items()):
            if isinstance(content, dict):
                self.prune(content)
            if time + TTL <= self.now and not (isinstance(content, dict) and content):
                del fields[name]

    def find(self, path: str) -> list[Any] | None:
        node: Any = [0, self.root]
        for name in path.split("."):
            node = node[1].get(name) if isinstance(node[1], dict) else None
            if node is None:
                return None
        return node

    def put(self, path: str, content: Any) -> None:
        *above, last = path.split(".")
        node = [0, self.root]
        parents = [node]
        for name in above:
            parent = node
            node = parent[1].get(name)
            if node is None:
                parent[0] = self.now  # its list of fields changes
                node = parent[1][name] = [self.now, {}]
            if not isinstance(node[1], dict):
                raise MemoryPathError("through a value")
            parents.append(node)
        known = node[1].get(last)
        if known is None:
            node[0] = self.now
            node[1][last] = [self.now, content]
        else:
            known[:] = [self.now, content]

    def operate(self, operation: str, path: str, value: int) -> None:
        node = self.find(path)
        if operation == "set":
            self.put(path, value)
        elif operation == "new_object":
            if node is None or not isinstance(node[1], dict):
                self.put(path, {})
        elif operation == "delete":
            if node is not None:
                above, _, last = path.rpartition(".")
                parent = self.find(above) if above else [0, self.root]
                parent[0] = self.now
                del parent[1][last]
        elif node is not None and self.on_read:
            node[0] = self.now

    def view(self, fields: dict[str, list[Any]] | None = None) -> dict[str, Any]:
        return {
            name: self.view(content) if isinstance(content, dict) else ("value", content)
            for name, (_, content) in (self.root if fields is None else fields).items()
        }


class Map:
    def __init__(self) -> None:
        self.items: dict[str, str] = {}
        self.get = self.items.get
        self.put = self.items.__setitem__
        self.keys = self.items.keys

    def remove(self, key: str) -> None:
        self.items.pop(key, None)


class NoTimers:
    def processing_time(self, timestamp: int) -> None: ...


steps = st.lists(
    st.tuples(
        st.integers(0, TTL),  # time that passes before
        st.sampled_from(["set", "set", "set", "new_object", "delete", "get", "is_exist", "sweep"]),
        st.sampled_from(PATHS),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=400, deadline=None)
@given(steps=steps, on_read=st.booleans(), actions=st.integers(1, 3))
def test_memory_with_a_ttl_behaves_as_the_model(steps, on_read, actions):
    config = {"short-term-memory.state-ttl.ms": TTL, "short-term-memory.state-ttl.update-type": "ON_CREATE_AND_WRITE"}
    if on_read:
        del config["short-term-memory.state-ttl.update-type"]
    state, clock, model = Map(), VirtualClock(1000), Model(on_read=on_read)
    expiry = Expiry(AgentConfiguration(config), state, clock, NoTimers())
    for number in range(0, len(steps), actions):
        pause, operation, path = steps[number]
        clock.advance_to(clock.now_ms() + pause)
        model.now = clock.now_ms()
        model.prune(model.root)
        if operation == "sweep":
            left = sweep(state, TTL, clock.now_ms())
            assert left == bool(model.root)
            assert tree_of({path: split_time(text)[1] for path, text in state.items.items()}) == model.view()
        # Several actions in one run, at one moment.
        run = ExpiringMemory(expiry, "k", clock.now_ms())
        for at, (_, operation, path) in enumerate(steps[number : number + actions]):
            if operation == "sweep":
                continue
            task = run.begin()
            arguments = {"set": (number + at, True), "new_object": (True,)}.get(operation, ())
            try:
                model.operate(operation, path, number + at)
                refused = False
            except MemoryPathError:
                refused = True
            try:
                getattr(task.root, operation)(path, *arguments)
            except MemoryPathError:
                assert refused
            else:
                assert not refused
                task.commit()
        run.flush()
        looking = ExpiringMemory(expiry, "k", clock.now_ms())
        assert view_of(looking.begin().root) == model.view()
    clock.advance_to(clock.now_ms() + TTL)
    assert not sweep(state, TTL, clock.now_ms())
    assert state.items == {}
