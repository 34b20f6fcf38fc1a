"""Long values are cut, with counts; whatever a value is, JSON can carry what is shown of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from pydantic import BaseModel
from pyflink.common import Row

from flink_agents_py.observe.shorten import Shortener


class Model(BaseModel):
    name: str
    tags: list[str]


@dataclass
class Point:
    x: int
    y: float


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
    named = Row(name="ann", age=3)
    value = [
        Model(name="ann", tags=["x"]),
        Point(1, float("nan")),
        Row("ann", 3),
        named,
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
