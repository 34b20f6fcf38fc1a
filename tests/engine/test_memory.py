"""Memory as one action uses it: values and objects, what is refused, names, references."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest
from pydantic import BaseModel

from flink_agents_py.engine.memory import RunMemory
from flink_agents_py.errors import (
    DecodeError,
    EncodeError,
    MemoryOverwriteError,
    MemoryPathError,
    StateRecordError,
    WrongThreadError,
)
from flink_agents_py.memory import MemoryObject, MemoryRef, MemoryType
from flink_agents_py.serde import decode, encode
from tests.support.memory import CountingMap, begin, read, write


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    tags: list[str]


class Address(BaseModel):
    city: str
    since: datetime


@pytest.fixture
def state() -> CountingMap:
    return CountingMap()


# --- values and objects -----------------------------------------------------------------------------------------------


def test_a_value_is_read_in_a_later_run_as_it_was_set(state):
    values = [None, True, False, 0, -1, 2**80, 1.5, "", "é", "\ud800", b"\x00\xff", [], [1, [2]], {}, {"a": {"b": 1}}]
    values += [
        Color.RED,
        Point(1, ["a"]),
        Address(city="Ghent", since=datetime(2026, 1, 2, tzinfo=timezone.utc)),
        UUID(int=7),
        Decimal("1.10"),
        datetime(2026, 1, 2),  # noqa: DTZ001 - a naive one is a value too
        (1, 2),
    ]
    write(state, lambda memory: [memory.set(f"v{at}", value) for at, value in enumerate(values)])
    memory = read(state)
    for at, value in enumerate(values):
        found = memory.get(f"v{at}")
        assert found == value
        assert type(found) is type(value)
        assert memory.get(f"v{at}") == value


def test_an_action_reads_what_it_has_just_set(state):
    memory = read(state)
    memory.set("n", 1)
    memory.set("n", 2)
    memory.set("list", [1])
    assert (memory.get("n"), memory.get("list")) == (2, [1])


def test_an_absent_field_is_none_and_does_not_exist(state):
    write(state, lambda memory: memory.set("there", None))
    memory = read(state)
    assert memory.get("there") is None
    assert memory.is_exist("there")
    assert memory.get("a.b.c") is None
    assert not memory.is_exist("a.b.c")
    assert not memory.is_exist("there.below")
    assert memory.get("there.below") is None


def test_a_dictionary_is_one_value(state):
    write(state, lambda memory: memory.set("user", {"name": "x"}))
    assert read(state).get("user") == {"name": "x"}
    assert not read(state).is_exist("user.name")


def test_setting_a_dotted_path_creates_the_objects_on_the_way(state):
    write(state, lambda memory: memory.set("user.address.city", "Ghent"))
    user = read(state).get("user")
    assert isinstance(user, MemoryObject)
    assert user.get("address.city") == "Ghent"
    assert user.get("address").get("city") == "Ghent"
    assert user.is_exist("address")


def test_fields_of_a_nested_object_are_set_through_it(state):
    def change(memory: MemoryObject) -> None:
        user = memory.new_object("user")
        assert user.set("address.city", "Ghent") == MemoryRef("user.address.city")
        user.new_object("tags")
        assert memory.get("user.address").get_fields() == {"city": "Ghent"}

    write(state, change)
    assert read(state).get("user").get_field_names() == ["address", "tags"]
    assert read(state).get("user.tags").get_field_names() == []


def test_get_fields_gives_nested_objects_as_objects_and_names_in_order_of_creation(state):
    def change(memory: MemoryObject) -> None:
        memory.set("z", 1)
        memory.set("a.deep", [2])
        memory.set("m", None)

    write(state, change)
    fields = read(state).get_fields()
    assert list(fields) == ["z", "a", "m"] == read(state).get_field_names()
    assert (fields["z"], fields["m"]) == (1, None)
    assert fields["a"].get_fields() == {"deep": [2]}


def test_new_object_keeps_an_object_that_is_there(state):
    write(state, lambda memory: memory.set("user.name", "x"))
    memory = read(state)
    assert memory.new_object("user").get("name") == "x"
    assert memory.new_object("user", overwrite=True).get("name") == "x"


def test_a_view_of_a_deleted_object_is_empty_until_a_field_is_set(state):
    memory = read(state)
    user = memory.new_object("user")
    user.set("name", "x")
    assert memory.delete("user")
    assert user.get("name") is None
    assert user.get_field_names() == []
    assert user.get_fields() == {}
    user.set("age", 3)
    assert memory.get("user").get_fields() == {"age": 3}


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_replacing_an_object_by_a_value_is_refused_unless_asked(state):
    write(state, lambda memory: (memory.set("user.address.city", "Ghent"), memory.set("last", 1)))
    run, task = begin(state)
    with pytest.raises(MemoryOverwriteError, match=r"'user' is an object"):
        task.root.set("user", 5)
    assert task.root.get("user.address.city") == "Ghent"
    task.root.set("user", 5, overwrite=True)
    assert task.root.get("user") == 5
    assert not task.root.is_exist("user.address.city")
    task.commit()
    run.flush()
    assert state.items == {"": 'o["user","last"]', "user": "v5", "last": "v1"}


def test_replacing_a_value_by_an_object_is_refused_unless_asked(state):
    write(state, lambda memory: memory.set("user", 5))
    memory = read(state)
    with pytest.raises(MemoryOverwriteError, match=r"'user' is a plain value"):
        memory.new_object("user")
    assert memory.get("user") == 5
    memory.new_object("user", overwrite=True).set("name", "x")
    assert memory.get("user").get_fields() == {"name": "x"}


@pytest.mark.parametrize("attempt", [lambda m: m.set("a.b.c.d", 1), lambda m: m.new_object("a.b.c")])
def test_a_path_through_a_plain_value_is_refused_and_changes_nothing(state, attempt):
    write(state, lambda memory: memory.set("a.b", 5))
    run, task = begin(state)
    with pytest.raises(MemoryPathError, match=r"leads through 'a.b', which is a plain value"):
        attempt(task.root)
    task.commit()
    run.flush()
    assert (state.puts, state.removes) == ([], [])


@pytest.mark.parametrize(
    "path", ["", ".", ".a", "a.", "a..b", "..", "a.\\", "\\", "a\\b", "\\.\\", "\\\\..a", "\ud800"]
)
@pytest.mark.parametrize("method", ["get", "is_exist", "delete", "new_object", "set"])
def test_what_is_no_path_is_refused_by_every_method(state, method, path):
    write(state, lambda memory: memory.set("user.name", 1))
    memory = read(state)
    for view in (memory, memory.get("user")):
        with pytest.raises(MemoryPathError):
            getattr(view, method)(*(path, 1)[: 2 if method == "set" else 1])
    assert memory.get_field_names() == ["user"]


def test_a_path_that_is_no_string_is_refused(state):
    memory = read(state)
    for call in (lambda: memory.get(5), lambda: memory.set(["a"], 1), lambda: memory.is_exist(None)):
        with pytest.raises(MemoryPathError, match="a memory path is a string"):
            call()


def test_a_value_without_encoding_is_refused_with_both_places(state):
    memory = read(state)
    with pytest.raises(EncodeError, match=r"'user.seen', inside the value \$\.when\[1\]"):
        memory.set("user.seen", {"when": [1, object()]})
    with pytest.raises(TypeError, match=r"'f'"):  # as Apache Flink Agents' error, it is a TypeError
        memory.set("f", lambda: None)
    assert not memory.is_exist("user")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0, float("-inf")]])
def test_nan_and_infinities_are_refused(state, value):
    with pytest.raises(EncodeError, match=r"is no number here\s+where: memory path 'x'"):
        read(state).set("x", value)


def test_a_memory_object_is_no_value(state):
    memory = read(state)
    with pytest.raises(EncodeError, match="new_object"):
        memory.set("copy", memory)


def test_a_value_of_a_renamed_class_gives_an_error_that_names_the_path(state):
    module = types.ModuleType("shop_of_yesterday")
    module.Order = dataclass(type("Order", (), {"__annotations__": {"n": int}, "__module__": module.__name__}))
    sys.modules[module.__name__] = module
    try:
        write(state, lambda memory: memory.set("cart.order", module.Order(1)))
    finally:
        del sys.modules[module.__name__]
    with pytest.raises(DecodeError, match=r"shop_of_yesterday:Order, which cannot be imported(.|\n)*'cart.order'"):
        read(state).get("cart.order")


def test_an_item_of_a_later_format_is_refused(state):
    state.items["x"] = "w1"
    with pytest.raises(StateRecordError, match=r"unknown format 'w'\s+where: memory path 'x'"):
        read(state).get("x")


def test_the_guard_is_asked_on_every_access_and_its_refusal_reaches_the_user(state):
    write(state, lambda memory: memory.set("a.b", 1))
    calls = []
    memory = RunMemory(state, "short_term").begin(lambda: calls.append(1)).root
    nested = memory.get("a")
    accesses = [
        lambda: nested.get("b"),
        lambda: nested.set("b", 2),
        lambda: nested.new_object("c"),
        lambda: nested.is_exist("b"),
        lambda: nested.delete("b"),
        nested.get_field_names,
        nested.get_fields,
    ]
    for access in accesses:
        access()
    assert len(calls) == 1 + len(accesses)

    def refuse() -> None:
        raise WrongThreadError("not here")

    with pytest.raises(WrongThreadError):
        RunMemory(state, "short_term").begin(refuse).root.get("a")


# --- names, references, aliasing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["example.com", "C:\\dir", ".", "\\", "..", "a.\\.b", "\\.", "", " ", "line\n.end"])
def test_any_name_can_be_escaped(state, name):
    if not name:
        assert MemoryObject.escape(name) == ""  # the one name there is no path for
        return
    write(state, lambda memory: memory.set("hosts." + memory.escape(name), 7))
    memory = read(state)
    assert memory.get("hosts." + MemoryObject.escape(name)) == 7
    hosts = memory.get("hosts")
    assert hosts.get_field_names() == [name]
    assert hosts.get_fields() == {name: 7}
    assert hosts.get(hosts.escape(name)) == 7
    assert memory.delete("hosts." + memory.escape(name))
    assert hosts.get_field_names() == []


def test_an_enum_of_strings_can_name_a_field(state):
    class Field(str, Enum):
        NAME = "user.name"

    memory = read(state)
    memory.set(Field.NAME, "x")
    assert memory.get("user.name") == memory.get(Field.NAME) == "x"


def test_a_reference_is_resolved_from_the_root_wherever_it_is_given():
    class Context:
        short_term_memory = RunMemory(CountingMap(), "short_term").begin().root
        sensory_memory = RunMemory(None, "sensory").begin().root

    reference = Context.sensory_memory.set("a.b", [1])
    assert reference == MemoryRef(path="a.b", memory_type=MemoryType.SENSORY)
    assert reference == MemoryRef.create(MemoryType.SENSORY, "a.b")
    assert reference.resolve(Context) == [1]
    assert Context.sensory_memory.get("a").get(reference) == [1]
    assert Context.sensory_memory.get({"path": "a.b", "memory_type": "sensory"}) == [1]
    assert Context.short_term_memory.set("n", 1).resolve(Context) == 1
    assert MemoryRef("nowhere").resolve(Context) is None
    with pytest.raises(MemoryPathError, match="reference to sensory memory was given to short_term memory"):
        Context.short_term_memory.get(reference)


def test_a_reference_travels_as_a_value():
    reference = MemoryRef("a.b", MemoryType.SENSORY)
    assert decode(encode({"ref": reference}, allow_pickle=False)) == {"ref": reference}
    assert len({reference, MemoryRef("a.b", MemoryType.SENSORY), MemoryRef("a.b")}) == 2


def test_changing_a_value_before_or_after_it_was_stored_changes_nothing(state):
    original = {"list": [1]}
    run, task = begin(state)
    task.root.set("v", original)
    original["list"].append(2)
    task.root.get("v")["list"].append(3)
    assert task.root.get("v") == {"list": [1]}
    task.commit()
    run.begin().root.get("v")["list"].append(4)
    assert run.begin().root.get("v") == {"list": [1]}
    run.flush()
    assert read(state).get("v") == {"list": [1]}
