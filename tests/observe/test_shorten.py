"""Long values are cut, with counts; whatever a value is, JSON can carry what is shown of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import pytest
from pydantic import BaseModel
from pyflink.common import Row

from flink_agents_py.observe.shorten import Shortener
from flink_agents_py.serde.text import dumps


class Model(BaseModel):
    name: str
    tags: list[str]


@dataclass
class Point:
    x: int
    y: float


def named(names: list[str] | tuple[str, ...], *values: object) -> Row:
    """A row as PyFlink reads it from a stream: its fields have names."""
    row = Row(*values)
    row.set_field_names(names)
    return row


def test_long_texts_lists_and_deep_objects_are_cut_with_counts():
    short = Shortener(strings=5, lists=2, depth=2)
    assert short.plain("abcdefgh") == {"truncatedString": "abcde", "omittedChars": 3}
    assert short.plain([1, 2, 3]) == {"truncatedList": [1, 2], "omittedElements": 1}
    assert short.plain({"a": {"b": {"c": 1}}}) == {"a": {"b": {"truncatedObject": {}, "omittedFields": 1}}}
    assert short.plain({"a": 1, "b": 2, "c": 3}) == {"truncatedObject": {"a": 1, "b": 2}, "omittedFields": 1}
    assert short.cut


def test_what_is_short_stays_as_it_is():
    short = Shortener(strings=5, lists=2, depth=3)
    value = {"a": [1, "two"], "b": None}
    assert short.plain(value) == value
    assert not short.cut


def test_values_that_are_not_json_are_shown_by_their_content():
    value = [
        Model(name="ann", tags=["x"]),
        Point(1, float("nan")),
        Row("ann", 3),
        Row(name="ann", age=3),
        date(2026, 1, 2),
        Decimal("1.50"),
        b"\x00\x01",
        ("a", 1),
        float("inf"),
        "\ud800",
        object,
    ]
    shown = Shortener.endless().plain(value)
    assert shown[:8] == [
        {"name": "ann", "tags": ["x"]},
        {"x": 1, "y": "nan"},
        ["ann", 3],
        {"name": "ann", "age": 3},
        "2026-01-02",
        "1.50",
        {"bytes": 2, "hex": "0001"},
        ["a", 1],
    ]
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


def test_a_list_that_contains_itself_has_an_end():
    value: list = []
    value.append(value)
    assert "omittedElements" in json.dumps(Shortener.endless().plain(value))


@pytest.mark.parametrize(
    "value",
    [
        *("abc", "abcdefgh", 'a"\\', "\n", "\u00e9", "\ud800", 7, 10**30, -1.5, 1e300, float("nan"), float("inf")),
        *(True, False, None, [], (), {}, [1, "two", None, True, 2.5], (1, [2]), [1, float("nan")], list(range(9))),
        *({"a": 1, "b": "x"}, {1: 2}, {"long name": 1}, {"\u00e9": 1}, {"a": {"b": 1}}, {"a": "abcdefgh"}),
        *(Row("ann", 5), Row(name="ann", n=5), Row("abcdefgh", 5), Row(Row(1), 2), Model(name="m", tags=["t"])),
        *(named(["a", "b"], 1, "x"), named(("a", "b"), 1, [2]), named(["a", "a"], 1, 2), named(["\u00e9"], 1)),
        *(named(["a"], 1, 2), named(["a", "b"], 1), named([], 1), named([1], 2), named(list("abcdefg"), *range(7))),
        *(named(["50 %", "%s"], 1, "%d"), named(["a"], "\u00e9"), named(["a"], "\ud800"), named(["\ud800"], 1)),
        *(Point(1, 2.5), b"bytes", {1}, date(2026, 1, 1), Decimal("1.5")),
    ],
    ids=repr,
)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_text_of_a_value_is_that_of_what_is_left_of_it(value, depth):
    short, other = (Shortener(strings=5, lists=6, depth=2) for _ in range(2))
    for shortener in (short, other):
        shortener.plain(Row(0))  # from now on it knows rows
    assert short.text(value, depth) == dumps(other.plain(value, depth))
    assert short.cut == other.cut


def test_rows_of_other_names_one_after_the_other_have_their_own():
    short = Shortener.endless()
    for names in (["a", "b"], ["a", "b"], ["c", "d"], ["a", "b"]):
        assert json.loads(short.text(named(names, 1, "x"))) == dict(zip(names, (1, "x"), strict=True))
