"""Values whose classes have changed, have gone, or live in ``__main__``."""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from flink_agents_py.errors import DecodeError, EncodeError
from flink_agents_py.serde import decode, encode
from tests.support.python import run


class Colour(enum.Enum):
    RED = "r"


@dataclass
class Item:
    name: str
    tags: Any = None
    count: int = 0


def _replace(monkeypatch: pytest.MonkeyPatch, name: str, new: Any) -> None:
    new.__qualname__ = new.__name__ = name
    monkeypatch.setattr(sys.modules[__name__], name, new)


def test_a_missing_class_is_named_with_the_way_out():
    text = encode(Item("a")).replace(":Item", ":Gone")
    with pytest.raises(DecodeError, match=r"Gone.*(\n.*)*alias"):
        decode(text)
    with pytest.raises(DecodeError, match="no_such_module"):
        decode('{"$t":"data","c":"no_such_module:X","v":{}}')


def test_an_alias_under_the_old_name_reads_old_values(monkeypatch):
    text = encode(Item("a")).replace(":Item", ":OldItem")
    monkeypatch.setattr(sys.modules[__name__], "OldItem", Item, raising=False)
    assert decode(text) == Item("a")


def test_a_removed_enum_member_is_named():
    with pytest.raises(DecodeError, match=r"Colour has no member 'BLUE'"):
        decode(encode(Colour.RED).replace("RED", "BLUE"))


def _dataclass_with_more() -> Any:
    @dataclass
    class New:
        name: str
        tags: Any = None
        count: int = 0
        added: list[int] = field(default_factory=list)

    return New


def _model_with_more() -> Any:
    class New(BaseModel):
        name: str
        tags: Any = None
        count: int = 0
        added: list[int] = []

    return New


def _model_like_item() -> Any:
    class New(BaseModel):
        name: str
        tags: Any = None
        count: int = 0

    return New


@pytest.mark.parametrize("kind", ["dataclass", "pydantic"])
def test_an_added_field_gets_its_default_and_a_removed_one_is_an_error(monkeypatch, kind):
    old = Item if kind == "dataclass" else _model_like_item()
    new = _dataclass_with_more() if kind == "dataclass" else _model_with_more()
    _replace(monkeypatch, "Item", old)
    before = encode(old(name="a"))
    _replace(monkeypatch, "Item", new)
    after = encode(new(name="a", added=[1]))
    assert decode(before).added == []
    _replace(monkeypatch, "Item", old)
    with pytest.raises(DecodeError, match=r"fields the class has no more: added"):
        decode(after)
    with pytest.raises(DecodeError, match=r"no field 'name'"):
        decode(before.replace('"name":"a",', ""))


def test_state_of_an_older_version_goes_through_its_migration(monkeypatch):
    text = encode(Item("a", count=2))

    @dataclass
    class New:
        __state_version__: ClassVar[int] = 2
        name: str
        cents: int

        @classmethod
        def __state_migrate__(cls, version: int, fields: dict[str, Any]) -> dict[str, Any]:
            assert version == 0
            return {"name": fields["name"], "cents": fields["count"] * 100}

    _replace(monkeypatch, "Item", New)
    assert decode(text) == New("a", 200)
    newest = encode(New("a", 1))
    assert decode(newest) == New("a", 1)
    New.__state_version__ = 1
    with pytest.raises(DecodeError, match="version 2, the class here is version 1"):
        decode(newest)


def test_a_model_migrates_likewise(monkeypatch):
    _replace(monkeypatch, "Item", _model_like_item())
    text = encode(sys.modules[__name__].Item(name="a", count=2))

    class New(BaseModel):
        __state_version__ = 1
        label: str

        @classmethod
        def __state_migrate__(cls, version: int, fields: dict[str, Any]) -> dict[str, Any]:
            return {"label": fields["name"]}

    _replace(monkeypatch, "Item", New)
    assert decode(text) == New(label="a")


def test_a_class_of_main_travels_by_value_and_stays_whole(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import dataclasses, enum, pathlib, sys\n"
        "from flink_agents_py.serde import encode, decode, canonical\n"
        "@dataclasses.dataclass\nclass Item:\n    a: int\n"
        "class Colour(enum.Enum):\n    RED = 1\n"
        "value = [Item(1), Colour.RED]\n"
        "text = encode(value)\n"
        "assert decode(text) == value and type(decode(text)[0]) is Item and decode(text)[1] is Colour.RED\n"
        "assert [f.name for f in dataclasses.fields(Item)] == ['a']\n"
        "canonical(value)\n"
        "print(text)\n"
    )
    text = run(script)
    reader = (
        "import sys, dataclasses; from flink_agents_py.serde import decode\n"
        "text = sys.stdin.read(); a, b = decode(text); print(dataclasses.asdict(a), b.name, decode(text)[0] == a)"
    )
    assert run(reader, stdin=text) == "{'a': 1} RED True"
    local = dataclass(type("Item", (), {"__annotations__": {"a": int}, "__module__": "__main__"}))
    with pytest.raises(EncodeError, match="importable module"):
        encode(local(1), allow_pickle=False)
