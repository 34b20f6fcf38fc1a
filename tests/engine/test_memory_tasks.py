"""Several actions of a run on one memory: what they see of each other, and who wins."""

from __future__ import annotations

import pytest

from flink_agents_py.engine.memory import RunMemory, TaskMemory
from tests.support.memory import CountingMap, tree_of, view_of, write


@pytest.fixture
def state() -> CountingMap:
    state = CountingMap()
    write(state, lambda memory: (memory.set("user.name", "x"), memory.set("user.age", 1), memory.set("n", 0)))
    return state


def two(state: CountingMap) -> tuple[RunMemory, TaskMemory, TaskMemory]:
    run = RunMemory(state, "short_term")
    return run, run.begin(), run.begin()


def finish(run: RunMemory, *tasks: TaskMemory) -> None:
    for task in tasks:
        task.commit()
    run.flush()


def test_changes_are_seen_by_others_after_the_commit_and_not_before(state):
    _, first, second = two(state)
    first.root.set("n", 1)
    first.root.set("user.new", 1)
    first.root.delete("user.age")
    assert view_of(second.root) == {"user": {"name": ("value", "x"), "age": ("value", 1)}, "n": ("value", 0)}
    first.commit()
    assert view_of(second.root) == {"user": {"name": ("value", "x"), "new": ("value", 1)}, "n": ("value", 1)}


def test_changes_of_an_action_that_does_not_commit_leave_no_trace(state):
    before = dict(state.items)
    run, first, second = two(state)
    first.root.set("n", 1)
    first.root.set("a.b", 1)
    first.root.delete("user")
    second.root.get("user.name")
    finish(run, second)
    assert state.items == before


def test_new_children_of_one_object_set_by_two_actions_both_survive(state):
    run, first, second = two(state)
    first.root.set("user.a", 1)
    second.root.set("user.b", 2)
    first.root.set("made.a", 1)
    second.root.set("made.b", 2)
    finish(run, first, second)
    tree = tree_of(state.items)
    assert list(tree["user"]) == ["name", "age", "a", "b"]
    assert list(tree["made"]) == ["a", "b"]


def test_the_last_commit_wins_on_the_same_path(state):
    run, first, second = two(state)
    first.root.set("n", 1)
    second.root.set("n", 2)
    finish(run, second, first)
    assert tree_of(state.items)["n"] == ("value", 1)


def test_a_field_set_in_an_object_that_another_action_deleted_brings_back_the_object_with_that_field_alone(state):
    run, deleter, setter = two(state)
    deleter.root.delete("user")
    setter.root.set("user.age", 2)
    deleter.commit()
    assert setter.root.get("user").get_fields() == {"age": 2}
    finish(run, setter)
    assert tree_of(state.items)["user"] == {"age": ("value", 2)}


def test_deleting_an_object_takes_along_what_another_action_committed_into_it_before(state):
    run, deleter, setter = two(state)
    deleter.root.delete("user")
    setter.root.set("user.deep.new", 2)
    finish(run, setter, deleter)
    assert tree_of(state.items) == {"n": ("value", 0)}
    assert state.items.keys() == {"", "n"}


def test_a_value_and_an_object_at_one_path_the_last_commit_wins_and_leaves_no_orphans(state):
    for order in (0, 1):
        run, one, other = two(state)
        path = f"fresh{order}"
        one.root.set(path, 5)
        other.root.set(f"{path}.child", 6)
        finish(run, *((one, other) if order == 0 else (other, one)))
    tree = tree_of(state.items)
    assert tree["fresh0"] == {"child": ("value", 6)}
    assert tree["fresh1"] == ("value", 5)


def test_deleting_twice_is_deleting_once(state):
    run, first, second = two(state)
    assert first.root.delete("user.age")
    assert second.root.delete("user")
    finish(run, first, second)
    assert tree_of(state.items) == {"n": ("value", 0)}


def test_a_deletion_holds_for_what_is_put_back_before_its_commit(state):
    run, first, second = two(state)
    third = run.begin()
    assert first.root.delete("n")
    assert second.root.delete("n")
    second.commit()
    assert not first.root.is_exist("n")  # made again on a tree without it
    third.root.set("n", 9)
    finish(run, third, first)
    assert "n" not in tree_of(state.items)


def test_an_object_that_two_actions_created_is_there_if_a_third_deletes_it_between_their_commits(state):
    run, first, second = two(state)
    second.root.new_object("made")
    first.root.new_object("made")
    first.commit()
    assert second.root.is_exist("made")
    third = run.begin()
    third.root.delete("made")
    finish(run, third, second)
    assert tree_of(state.items)["made"] == {}


def test_deleting_a_field_does_not_bring_back_an_object_that_another_action_deleted(state):
    run, first, second = two(state)
    second.root.delete("user.age")
    first.root.delete("user")
    finish(run, first, second)
    assert tree_of(state.items) == {"n": ("value", 0)}


def test_an_object_that_replaced_a_value_starts_empty_whatever_another_action_made_of_the_value(state):
    run, first, second = two(state)
    second.root.new_object("n", overwrite=True)
    first.root.new_object("n", overwrite=True).set("x", 1)
    finish(run, first, second)
    assert tree_of(state.items)["n"] == {}


def test_an_object_replaced_by_a_value_and_back_is_empty_after_a_commit_of_another_action_too(state):
    run, first, second = two(state)
    second.root.set("user", 5, overwrite=True)
    second.root.new_object("user", overwrite=True)
    first.root.set("elsewhere", 1)
    finish(run, first, second)
    assert tree_of(state.items)["user"] == {}


def test_fields_keep_the_order_in_which_they_were_set_after_a_commit_of_another_action(state):
    _, first, second = two(state)
    for name in ("name", "age"):
        second.root.delete(f"user.{name}")
    for name in ("age", "name"):
        second.root.set(f"user.{name}", 0)
    assert second.root.get("user").get_field_names() == ["age", "name"]
    first.root.set("elsewhere", 1)
    first.commit()
    assert second.root.get("user").get_field_names() == ["age", "name"]
