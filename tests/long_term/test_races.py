"""A compaction between two steps of another call on the same set."""

from __future__ import annotations

import pytest

from flink_agents_py import Compaction
from flink_agents_py.ext.sqlite_vec import SqliteVecVectorStore
from flink_agents_py.long_term.scope import Binding, Place
from flink_agents_py.long_term.store import VectorStoreMemory
from flink_agents_py.long_term.tally import Tally
from flink_agents_py.long_term.upkeep import Upkeep
from flink_agents_py.metrics import MetricGroup
from tests.long_term.kit import COLLECTION, WordEmbedding, stored, values

LATER = Binding("facts", "p", "task", None, None)
NOW = Binding("facts", "p", "task", None, Compaction(max_items=3, keep_items=1, function=lambda items: "summary"))


class Interrupted(SqliteVecVectorStore):
    """Does something of somebody else's just before it changes anything."""

    def insert(self, *arguments, **options):
        self._interruption()
        return super().insert(*arguments, **options)

    def exchange(self, *arguments, **options):
        self._interruption()
        return super().exchange(*arguments, **options)

    def _interruption(self):
        todo, Interrupted.todo = Interrupted.todo, None
        if todo is not None:
            todo()


Interrupted.todo = None


def opened(kind, path, now_ms=0):
    """Long-term memory on the file; what it does in the background is done when it is due."""
    store = kind(path=str(path))
    store._embedding_model = WordEmbedding()
    tally = Tally(MetricGroup())
    upkeep = Upkeep(
        store, COLLECTION, None, lambda work: work(lambda: False), lambda: now_ms, lambda: 0.0, tally, concurrency=1
    )
    return VectorStoreMemory(store, COLLECTION, lambda: now_ms, tally, upkeep)


def place(number):
    return Place(number, f"call {number}")


def add(memory, number, to=LATER):
    return memory.add(to, place(number), [f"fact {number}"], [{}])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path):
    return opened(Interrupted, path)


@pytest.fixture
def other(path, memory):
    """Another process that compacts the set when it adds to it: two facts are there, its own is the third."""
    for number in range(3):
        add(memory, number)
    return opened(SqliteVecVectorStore, path, now_ms=1000)


def contents(path):
    return sorted(document.content for document in stored(path))


def test_what_is_compacted_while_it_is_added_again_is_not_there_twice(path, memory, other):
    Interrupted.todo = lambda: add(other, 3, to=NOW)
    add(memory, 0)
    assert contents(path) == ["fact 3", "summary"]


def test_what_is_new_is_added_all_the_same(path, memory, other):
    Interrupted.todo = lambda: add(other, 3, to=NOW)
    ids = add(memory, 4)
    assert contents(path) == ["fact 3", "fact 4", "summary"]
    assert values(memory.get(LATER, place(5), ids, None, 10)) == ["fact 4"]


def test_what_is_compacted_while_it_is_updated_is_not_there_any_more(path, memory, other):
    (id,) = add(memory, 1)
    Interrupted.todo = lambda: add(other, 3, to=NOW)
    assert not memory.update(LATER, place(6), id, "fact 1, revised", None)
    assert contents(path) == ["fact 3", "summary"]
