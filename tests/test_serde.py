"""Values keep their type through text and back, and what cannot is refused."""

from __future__ import annotations

import enum
import json
import logging
import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, timezone
from functools import cached_property
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, PrivateAttr

from flink_agents_py.errors import DecodeError, EncodeError
from flink_agents_py.events import Event, OutputEvent
from flink_agents_py.serde import canonical, decode, encode, from_plain, to_plain
from tests.support.python import run


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


class Level(enum.IntEnum):
    LOW = 1


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: Any
    y: Any = 0


class Place(namedtuple("Place", "lat lon")):  # noqa: PYI024 -- the old spelling is the point
    __slots__ = ()


@dataclass
class Item:
    name: str
    tags: Any = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class Frozen:
    value: Any


@dataclass
class Remembering:
    size: int
    seen_at: float = field(default=0.0, compare=False)
    never: Any = field(init=False)

    def __post_init__(self) -> None:
        self.derived = self.size * 2

    @cached_property
    def slow(self) -> int:
        return self.size


class Model(BaseModel):
    when: datetime
    items: list[Item] = []
    _calls: int = PrivateAttr(default=0)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 0


class Scored(Event):
    score: float
    detail: Any = None


class Text(str):
    __slots__ = ()


BERLIN = ZoneInfo("Europe/Berlin")


def exactly_equal(left: Any, right: Any) -> bool:
    """Equal, of equal types all the way down, and NaN equal to NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(exactly_equal, left, right))
    if isinstance(left, dict):
        return len(left) == len(right) and all(
            exactly_equal(key, other) and exactly_equal(item, twin)
            for (key, item), (other, twin) in zip(left.items(), right.items(), strict=True)
        )
    if isinstance(left, Frozen):
        return exactly_equal(left.value, right.value)
    if isinstance(left, Item):
        return exactly_equal(vars(left), vars(right))
    if isinstance(left, (set, frozenset)):
        return left == right and sorted(map(repr, left)) == sorted(map(repr, right))
    if isinstance(left, datetime):
        return left == right and left.tzinfo == right.tzinfo and left.fold == right.fold
    return left == right


# --- what comes back --------------------------------------------------------------------------------------------------

any_text = st.text(st.characters(exclude_categories=[]))  # lone surrogates included
zones = st.none() | st.just(BERLIN) | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
hashable_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**5000), 2**5000),
    st.floats(allow_nan=False),
    any_text,
    st.binary(),
    st.dates(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.sampled_from([*Colour, *Level, *Right, Right(0), Right(3)]),
)
leaves = st.one_of(
    hashable_leaves,
    st.floats(),
    st.datetimes(timezones=zones),
    st.times(timezones=zones),
    st.binary().map(bytearray),
    st.frozensets(hashable_leaves, max_size=3),
    st.sets(hashable_leaves, max_size=3),
)
names = st.text(max_size=8) | st.just("$t") | any_text
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(names, inner, max_size=4),
        st.dictionaries(hashable_leaves, inner, max_size=3),
        st.dictionaries(names, inner, max_size=3).map(OrderedDict),
        st.builds(Point, inner, inner),
        st.builds(Place, inner, inner),
        st.builds(Item, any_text, inner, st.integers()),
        st.builds(Frozen, inner),
    ),
    max_leaves=12,
)


@settings(deadline=None)  # a busy machine is no bug
@given(values)
def test_a_value_comes_back_equal_and_of_equal_type(value):
    text = encode(value, allow_pickle=False)
    text.encode("utf-8")
    assert exactly_equal(decode(text, allow_pickle=False), value)


@settings(deadline=None)
@given(values)
def test_the_plain_form_is_json_and_comes_back_too(value):
    plain = json.loads(json.dumps(to_plain(value, allow_pickle=False), allow_nan=False))
    assert exactly_equal(from_plain(plain), value)


@settings(deadline=None)
@given(values)
def test_canonical_bytes_survive_a_round_trip(value):
    assert canonical(decode(encode(value))) == canonical(value)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(json_values)
def test_plain_json_is_written_as_json(value):
    expected = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert encode(value) == expected
    assert from_plain(value) == to_plain(value) == value
    assert decode(json.dumps(value, indent=2)) == value


@pytest.mark.parametrize(
    "value",
    [
        Model(when=datetime(2026, 1, 2, tzinfo=timezone.utc), items=[Item("a", (1, b"x"))]),
        Open(a=1, b=(1, 2), **{"$t": "mine"}),
        Scored(score=0.5, detail={1, 2}),
        Event(type="x", attributes={"a": b"1"}),
        OutputEvent(Item("a")),
        datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
        datetime(2024, 10, 27, 2, 30, tzinfo=timezone(timedelta(microseconds=-1))),
        time(0, 0, 0, 1, tzinfo=timezone(timedelta(microseconds=999_999))),
        time(0, 0, 0, 1),
        Text("a"),
        Counter("abb"),
        defaultdict(list, a=[1]),
        complex(1, 2),
        {"self": Colour},
    ],
    ids=lambda value: type(value).__name__,
)
def test_models_events_and_last_resorts_come_back(value):
    back = decode(encode(value))
    assert back == value
    assert type(back) is type(value)


def test_a_model_keeps_private_values_and_what_was_set():
    model = Model(when=datetime(2026, 1, 2))  # noqa: DTZ001
    model._calls = 3
    back = decode(encode(model))
    assert back._calls == 3
    assert back.model_fields_set == {"when"}


def test_a_dataclass_keeps_attributes_that_are_no_fields_but_not_cached_ones():
    value = Remembering(2)
    assert value.slow == 2
    back = decode(encode(value))
    assert vars(back) == {"size": 2, "seen_at": 0.0, "derived": 4}


def test_a_plain_form_shares_nothing_with_the_value():
    value = {"a": [1]}
    plain = to_plain(value)
    value["a"].append(2)
    assert plain == {"a": [1]}


def test_pyflink_rows_come_back_with_names_and_kind():
    types = pytest.importorskip("pyflink.common.types")
    row = types.Row(a=1, b=(b"x", types.Row(1, 2)))
    row.set_row_kind(types.RowKind.DELETE)
    back = decode(encode(row, allow_pickle=False))
    assert back == row
    assert back.get_row_kind() is types.RowKind.DELETE
    assert canonical(types.Row(a=1, b=2)) == canonical(types.Row(b=2, a=1)) != canonical(types.Row(a=2, b=1))


def test_serde_does_not_load_pyflink():
    assert (
        run("import sys, flink_agents_py.serde as s; s.encode({'a': (1,)}); print('pyflink' in sys.modules)") == "False"
    )


# --- what is refused --------------------------------------------------------------------------------------------------


def _where(value: Any, **options: Any) -> str:
    with pytest.raises(EncodeError) as caught:
        encode(value, **options)
    assert caught.value.where is not None
    assert caught.value.fix
    return caught.value.where


def test_an_error_names_the_path_inside_the_value():
    bad = (n for n in ())
    assert _where({"items": [1, 2, 3, {"when": bad}]}) == "$.items[3].when"
    assert _where({"a b": {1: bad}}) == "$['a b'][1]"
    assert _where(Item("x", tags=(0, Point(1, bad)))) == "$.tags[1].y"
    assert _where(Scored(score=1, detail=[bad])) == "$.detail[0]"
    assert _where({(1, Text("k")): 1}, allow_pickle=False) == "$.<key (1, 'k')>[1]"
    assert _where([bad]) == "$[0]"
    assert _where(bad) == "$"


def test_without_pickle_what_has_no_typed_encoding_is_refused_with_its_class():
    with pytest.raises(EncodeError, match=r"a collections:Counter has no typed encoding"):
        encode({"a": Counter()}, allow_pickle=False)


def test_nan_is_refused_where_it_is_no_value():
    assert decode(encode([math.inf])) == [math.inf]
    assert _where({"a": [1.0, math.nan]}, nan=False) == "$.a[1]"
    assert _where(-math.inf, nan=False) == "$"


@pytest.mark.parametrize("make", [lambda a: a, lambda a: {"k": a}, lambda a: (a,), lambda a: Item("x", a)])
def test_a_value_that_contains_itself_is_refused(make):
    outer: list[Any] = []
    outer.append(make(outer))
    with pytest.raises(EncodeError, match="contains itself"):
        encode(outer)
    with pytest.raises(EncodeError, match="contains itself"):
        canonical(outer)


def test_a_dictionary_that_contains_itself_is_refused():
    own: dict[Any, Any] = {}
    own["own"] = own
    with pytest.raises(EncodeError, match="contains itself"):
        encode(own)


def test_nesting_has_a_fixed_bound():
    def nested(depth: int) -> Any:
        return [] if depth == 0 else [nested(depth - 1)]

    assert decode(encode(nested(128))) == nested(128)
    with pytest.raises(EncodeError, match="nested more than 128 deep"):
        encode(nested(129))


def test_pickle_is_announced_once_per_type(caplog):
    class Local:
        pass

    with caplog.at_level(logging.WARNING, "flink_agents_py.serde"):
        encode([Local(), Local()])
        encode(Local())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "Local" in caplog.text


def test_text_from_anywhere_is_read_without_pickles():
    class Local:
        pass

    @dataclass
    class LocalData:
        a: int

    for value in (Local(), LocalData(1)):
        with pytest.raises(DecodeError, match="could run any code"):
            decode(encode(value), allow_pickle=False)
        with pytest.raises(DecodeError, match="could run any code"):
            from_plain(to_plain(value), allow_pickle=False)


@pytest.mark.parametrize("tag", ["enum", "flag", "data", "named", "model"])
def test_a_reference_runs_no_class_of_another_kind(tag):
    with pytest.raises(DecodeError, match="subprocess:Popen"):
        from_plain({"$t": tag, "c": "subprocess:Popen", "v": {"args": "false"}}, allow_pickle=False)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]]", "nul", '{"$t":"no such"}', '{"$t":["x"]}'),
        *('{"$t":"bytes"}', '{"$t":"uuid","v":"x"}', '{"$t":"set","v":[[]]}', '{"$t":"data","c":7,"v":{}}'),
    ],
)
def test_damaged_text_is_a_decode_error(text):
    with pytest.raises(DecodeError):
        decode(text)
