"""Text that is made at once is the text of the writer."""

from __future__ import annotations

from enum import Enum, Flag
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr
from pyflink.common import Row, RowKind

from flink_agents_py import ChatMessage, TextPart
from flink_agents_py.serde.canonical import _CanonicalWriter
from flink_agents_py.serde.direct import direct_text
from flink_agents_py.serde.text import dumps, dumps_sorted
from flink_agents_py.serde.writer import Writer


class Colour(str, Enum):
    RED = "r"


class Right(Flag):
    READ = 1


class Order(BaseModel):
    zeta: Any = None
    alpha: Any = 0


class Versioned(BaseModel):
    __state_version__ = 2
    total: int = 0


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Secretive(BaseModel):
    _known: int = PrivateAttr(default=1)


def named_row() -> Row:
    return Row(name="Ann", order=Order(alpha=1))


WRITTEN = [
    ChatMessage.user("Is it so?"),
    ChatMessage.user("Größe\n\"'\\ \u2028 \x00 \U0001f600"),
    ChatMessage.user("look", TextPart(text="here")),
    [
        [
            ChatMessage.assistant(
                "yes", [{"id": "1", "function": {"name": "f", "arguments": {"b": 1, "a": [2.5, None]}}}]
            )
        ],
        {},
    ],
    {"b": Order(), "a": Order(zeta={"y": True, "x": -0.0}), "é": [Colour.RED, 1e300, -(2**63)]},
    Order(zeta=1, alpha=Order(zeta=[[], {}, ""])),
]
LEFT_TO_THE_WRITER = [
    Order(alpha=float("nan")),
    Order(alpha=float("inf")),
    Order(alpha=2**63),
    Order(alpha="\ud800"),
    Order(alpha={"$t": 1}),
    Order(alpha={1: 2}),
    Order(alpha=(1,)),
    Right.READ,
    Versioned(),
    Open(more=1),
    Secretive(),
    Order(alpha=b""),
]


@pytest.mark.parametrize("value", WRITTEN, ids=repr)
def test_the_text_is_that_of_the_writer(value):
    assert direct_text(value) == dumps(Writer().write(value))
    assert direct_text(value, ordered=True) == dumps_sorted(_CanonicalWriter().write(value))


@pytest.mark.parametrize("value", [Row("12", 12345), named_row(), {"input": Row(Row(1), [2.5])}], ids=repr)
def test_rows_are_written_as_the_writer_does(value):
    assert direct_text(value) == dumps(Writer().write(value))
    assert direct_text(value, ordered=True) is None


@pytest.mark.parametrize("value", LEFT_TO_THE_WRITER, ids=ascii)
def test_what_needs_care_is_left_to_the_writer(value):
    assert direct_text(value) is None
    assert direct_text(value, ordered=True) is None


def test_a_changed_row_is_left_to_the_writer():
    row = Row(1)
    row.set_row_kind(RowKind.DELETE)
    assert direct_text(row) is None


def test_a_value_that_contains_itself_is_left_to_the_writer():
    order = Order()
    order.alpha = [order]
    assert direct_text(order) is None
