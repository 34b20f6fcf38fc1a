from __future__ import annotations

import enum
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, ConfigDict

from flink_agents_py.errors import EncodeError
from flink_agents_py.events import Event
from flink_agents_py.serde import canonical, digest
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
    x: int


@dataclass
class Item:
    name: str
    seen_at: float = field(default=0.0, compare=False)
    never: Any = field(init=False)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 0


class Scored(Event):
    score: float


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        ({1: "x", (2,): "y"}, {(2,): "y", 1: "x"}),
        ({"$t": 1, "a": 2}, {"a": 2, "$t": 1}),
        ({"x", "y", "z"}, {"z", "y", "x"}),
        (Decimal("1.00"), Decimal(1)),
        (Decimal(100), Decimal("1E+2")),
        (Decimal("-0.0"), Decimal(0)),
        (math.nan, -math.nan),
        (datetime(2026, 6, 1, 12, tzinfo=timezone.utc), datetime(2026, 6, 1, 14, tzinfo=BERLIN)),
        (Item("x", seen_at=1.0), Item("x", seen_at=2.0)),
        (Open(a=0, b={"x": 1, "y": 2}), Open(b={"y": 2, "x": 1})),
        (Scored(score=1), Scored(score=1, id="00000000-0000-0000-0000-000000000001")),
    ],
)
def test_equal_values_have_one_digest(left, right):
    assert digest(left) == digest(right)
    assert digest([left, left]) == digest([left, right])


def test_sharing_of_objects_makes_no_difference():
    part = ["x"]
    assert canonical([part, part, {"p": part}]) == canonical([["x"], ["x"], {"p": ["x"]}])


def test_values_of_different_type_or_content_have_different_digests():
    different: list[Any] = [
        *(1, 1.0, True, "1", b"1", bytearray(b"1"), [1], (1,), {1}, frozenset({1}), {"1": 1}, {1: 1}),
        *(None, "", [], (), {}, 0.0, -0.0, math.nan, math.inf, "\ud83d\ude00", "\U0001f600"),
        *(Decimal(1), Decimal(10), Decimal(-1), UUID(int=1), date(1970, 1, 1), time(0), timedelta(1)),
        *(datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=timezone.utc)),  # noqa: DTZ001 -- naive on purpose
        *(OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
        *(Colour.RED, Colour.GREEN, Level.LOW, Right(0), Right(1), Right(3)),
        *(Point(1), Item("1"), Open(a=1), Open(a=1, b=1), Scored(score=1)),
    ]
    assert len({canonical(value) for value in different}) == len(different)


def test_what_would_need_pickle_has_no_canonical_form():
    with pytest.raises(EncodeError, match=r"no canonical form") as caught:
        canonical({"args": [1, object()]})
    assert caught.value.where == "$.args[1]"
    assert caught.value.fix == "pass a plain value, or name= and a key of your own"


def test_canonical_bytes_do_not_depend_on_the_hash_seed():
    code = (
        "from flink_agents_py.serde import canonical, encode\n"
        "from flink_agents_py.events import OutputEvent\n"
        "import hashlib\n"
        "v = [{str(i) for i in range(50)}, OutputEvent(frozenset('abcdef'))]\n"
        "v += [{('k', i): {'a', 'b', str(i)} for i in range(9)}]\n"
        "print(hashlib.sha256(canonical(v)).hexdigest(), hashlib.sha256(encode(v).encode()).hexdigest())"
    )
    assert len({run(code, PYTHONHASHSEED=seed) for seed in ("0", "1", "4242")}) == 1
