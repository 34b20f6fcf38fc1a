"""What memory leaves in state, and how often it touches it."""

from __future__ import annotations

import json

import pytest

from flink_agents_py.engine.memory import RunMemory
from flink_agents_py.memory import MemoryObject
from tests.support.memory import CountingMap, begin, read, write


@pytest.fixture
def state() -> CountingMap:
    return CountingMap()


# --- deleting ---------------------------------------------------------------------------------------------------------


def test_deleting_a_subtree_leaves_nothing_behind(state):
    def change(memory: MemoryObject) -> None:
        memory.set("keep", 1)
        memory.set("user.address.city", "Ghent")
        memory.set("user.address.geo.lat", 51)
        memory.set("user.name", "x")
        memory.new_object("user.empty")

    write(state, change)
    write(state, lambda memory: memory.delete("user"))
    assert state.items == {"": 'o["keep"]', "keep": "v1"}


def test_deleting_the_last_field_leaves_an_empty_map(state):
    write(state, lambda memory: memory.set("user.name", "x"))
    write(state, lambda memory: memory.delete("user"))
    assert state.items == {}
    assert read(state).get_field_names() == []


def test_deleting_the_last_field_of_an_object_keeps_the_object(state):
    write(state, lambda memory: memory.set("user.name", "x"))
    run, task = begin(state)
    assert task.root.delete("user.name")
    assert task.root.get("user").get_field_names() == []
    task.commit()
    run.flush()
    assert state.items == {"": 'o["user"]', "user": "o[]"}


def test_deleting_what_is_not_there_is_false_and_writes_nothing(state):
    write(state, lambda memory: memory.set("a", 1))
    run, task = begin(state)
    assert not task.root.delete("b")
    assert not task.root.delete("a.b")
    task.root.set("c.d", 1)
    assert task.root.delete("c")
    assert not task.root.delete("c")
    task.commit()
    run.flush()
    assert state.removes == []
    assert state.items == {"": 'o["a"]', "a": "v1"}


# --- how often state is touched ---------------------------------------------------------------------------------------


def test_a_counter_costs_one_get_and_one_put(state):
    write(state, lambda memory: memory.set("count", 1))
    run, task = begin(state)
    task.root.set("count", task.root.get("count") + 1)
    task.commit()
    run.flush()
    run.flush()
    assert (state.gets, state.puts, state.removes) == (["count"], ["count"], [])
    assert read(state).get("count") == 2


def test_setting_a_field_of_a_large_object_touches_one_entry(state):
    write(state, lambda memory: [memory.set(f"user.f{at}", at) for at in range(1000)])
    run, task = begin(state)
    task.root.set("user.f500", -1)
    task.commit()
    run.flush()
    assert (state.gets, state.puts) == (["user.f500"], ["user.f500"])


def test_a_new_field_also_writes_the_child_list_of_its_parent_but_nothing_above(state):
    write(state, lambda memory: [memory.set(f"user.f{at}", at) for at in range(1000)])
    run, task = begin(state)
    task.root.set("user.new", 1)
    task.commit()
    run.flush()
    assert sorted(state.gets) == ["user", "user.new"]
    assert sorted(state.puts) == ["user", "user.new"]
    assert len(json.loads(state.items["user"][1:])) == 1001


def test_opening_an_object_reads_its_item_alone(state):
    write(state, lambda memory: [memory.set(f"user.f{at}", at) for at in range(1000)])
    user = read(state).get("user")
    assert len(user.get_field_names()) == 1000
    assert state.gets == ["user"]
    assert user.get("f1") == 1
    assert state.gets == ["user", "user.f1"]


def test_each_path_is_read_once_per_run_whether_it_is_there_or_not(state):
    write(state, lambda memory: memory.set("a.b", [1]))
    run = RunMemory(state, "short_term")
    for _ in range(3):
        memory = run.begin().root
        for path in ("a", "a.b", "a.c", "nothing"):
            memory.get(path)
            memory.is_exist(path)
        memory.get("a").get_fields()
    assert sorted(state.gets) == ["a", "a.b", "a.c", "nothing"]


def test_each_path_is_written_once_per_flush_however_often_it_was_set(state):
    run = RunMemory(state, "short_term")
    for at in range(3):
        task = run.begin()
        for step in range(3):
            task.root.set("n", (at, step))
        task.commit()
    assert state.puts == []
    run.flush()
    assert sorted(state.puts) == ["", "n"]
    run.flush()
    assert len(state.puts) == 2
    assert read(state).get("n") == (2, 2)


def test_what_the_run_wrote_is_not_read_from_state(state):
    run, task = begin(state)
    task.root.set("a.b", 1)
    task.commit()
    state.forget_counts()
    other = run.begin()
    other.root.set("a.b", other.root.get("a.b") + 1)
    other.root.set("a.c", 1)
    assert state.gets == ["a.c"]


# --- sensory memory ---------------------------------------------------------------------------------------------------


def test_sensory_memory_survives_in_the_run_record():
    run = RunMemory(None, "sensory")
    task = run.begin()
    task.root.set("a.b", [1])
    task.root.set("gone", 1)
    task.commit()
    run.flush()
    half = run.begin()
    half.root.set("a.c", "not committed")
    record = json.loads(json.dumps(run.dump()))

    later = RunMemory(None, "sensory")
    later.load(record)
    task = later.begin()
    assert task.root.get_field_names() == ["a", "gone"]
    assert task.root.get("a").get_fields() == {"b": [1]}
    task.root.delete("gone")
    task.root.set("a.b", [2])
    task.commit()
    assert later.dump() == {"": 'o["a"]', "a": 'o["b"]', "a.b": "v[2]"}
    task.root.delete("a")
    task.commit()
    assert later.dump() == {}
