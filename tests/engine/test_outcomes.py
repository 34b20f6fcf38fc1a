"""What comes of a durable call, as it is the first time and as a replay gives it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ValidationError

from flink_agents_py.errors import (
    CallTimeoutError,
    ConfigError,
    EncodeError,
    FlinkAgentsError,
    RecordedCallError,
    ValueTooLargeError,
)
from flink_agents_py.events import OutputEvent
from flink_agents_py.testing import AgentHarness
from tests.support.agents import agent_of, restart


class Color(Enum):
    RED = "red"


class Model(BaseModel):
    name: str
    when: datetime
    tags: set[str] = set()


@dataclass
class Point:
    x: int
    y: Any = None


class PlainError(Exception):
    pass


class OwnInitError(Exception):
    def __init__(self, code: int, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class KeywordOnlyError(Exception):
    """As the errors of HTTP clients are: a live object, needed by the constructor, never to be stored."""

    def __init__(self, message: str, *, response: Any) -> None:
        super().__init__(message)
        self.response = response
        self.status_code = 404


class OwnOSError(OSError):
    def __init__(self, host: str) -> None:
        super().__init__(110, f"cannot reach {host}")
        self.host = host


class StrangeNewError(Exception):
    def __new__(cls, needed, also_needed):
        return super().__new__(cls)

    def __init__(self, needed, also_needed):
        super().__init__(needed)


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def seen_first_and_on_replay(result: Any = None, error: BaseException | None = None) -> tuple[Any, Any]:
    """What an action gets from one call: now, and after a restart."""
    got = []

    async def act(event, ctx):
        try:
            got.append(await ctx.durable_execute_async(print))
        except BaseException as caught:  # noqa: BLE001
            got.append(caught)
        await ctx.durable_execute_async(print, "second")
        ctx.send_event(OutputEvent("end"))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    if error is not None:
        harness.calls[0].fail(error)
    else:
        harness.calls[0].complete(result)
    restart(harness)
    harness.calls[0].complete()
    assert harness.outputs == ["end"]
    assert len(got) == 2
    return got[0], got[1]


VALUES = [
    None,
    True,
    0,
    -(2**80),
    1.5,
    float("inf"),
    "text \ud800 \u2028 \N{SNOWMAN}",
    b"\x00\xff",
    (1, (2, [3])),
    [1, {"a": (None, b"x")}],
    {1: "int key", "1": "text key", (1, 2): "tuple key"},
    {"$t": "not a tag"},
    {3, 1, 2},
    frozenset({"a"}),
    datetime(2026, 11, 30, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=2))),
    date(2026, 11, 30),
    timedelta(days=1, microseconds=1),
    Decimal("1.10"),
    UUID(int=7),
    Color.RED,
    Model(name="n", when=datetime(2026, 1, 1), tags={"a", "b"}),  # noqa: DTZ001
    Point(1, [Point(2)]),
    1 + 2j,
    range(3),
]


def same(one: Any, other: Any) -> bool:
    """Equal in value and, all the way down, in type."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(
            same(*pair) for pair in zip([*one, *one.values()], [*other, *other.values()], strict=True)
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize("value", VALUES, ids=[ascii(value)[:30] for value in VALUES])
def test_a_result_comes_back_equal_in_value_and_type(value):
    first, replayed = seen_first_and_on_replay(value)
    assert same(first, value)
    assert same(replayed, value)


def test_nan_comes_back_as_nan():
    _, replayed = seen_first_and_on_replay([float("nan")])
    assert type(replayed[0]) is float
    assert replayed[0] != replayed[0]


def decode_error() -> UnicodeDecodeError:
    try:
        b"\xff".decode()
    except UnicodeDecodeError as error:
        return error
    raise AssertionError


ERRORS = [
    ValueError("bad", 1, b"x"),
    KeyError("k"),
    StopAsyncIteration("s"),
    PlainError("p", {"a": (1,)}),
    OwnInitError(7, "seven"),
    OSError(2, "No such file", "/some/where"),
    FileNotFoundError(2, "No such file", "/some/where"),
    OSError(18, "Cross-device", "/from", None, "/to"),
    OSError("just text"),
    ConnectionRefusedError(111, "refused"),
    TimeoutError(),
    OwnOSError("example"),
    decode_error(),
    UnicodeEncodeError("ascii", "\u00e4", 0, 1, "no"),
    SystemExit(3),
    EncodeError("what", where="$.x", fix="do this"),
    CallTimeoutError("late", where="there"),
    ConfigError("wrong"),
    FlinkAgentsError("base", fix="that"),
    LookupError("half a pair \ud800"),
]


@pytest.mark.parametrize("error", ERRORS, ids=[type(error).__name__ for error in ERRORS])
def test_an_exception_comes_back_with_type_message_arguments_and_attributes(error):
    first, replayed = seen_first_and_on_replay(error=error)
    assert first is error
    assert type(replayed) is type(error)
    assert str(replayed) == str(error)
    assert replayed.args == error.args
    assert replayed.__dict__ == error.__dict__
    for name in ("errno", "filename", "code", "object", "reason"):
        assert getattr(replayed, name, None) == getattr(error, name, None)


def validation_error() -> ValidationError:
    try:
        Model(name=1, when="never")
    except ValidationError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize("error", [validation_error(), StrangeNewError("a", "b"), UnspeakableError("x")])
def test_an_exception_that_cannot_be_rebuilt_is_the_same_stand_in_both_times(error):
    first, replayed = seen_first_and_on_replay(error=error)
    assert type(first) is type(replayed)
    assert type(first) in (type(error), RecordedCallError)
    if type(first) is RecordedCallError:
        assert str(first) == str(replayed)
        assert type(error).__qualname__ in str(first)
        assert first.__cause__ is error


def test_a_live_object_on_an_exception_is_missing_both_times_not_only_on_replay():
    error = KeywordOnlyError("Not Found", response=lambda: None)
    first, replayed = seen_first_and_on_replay(error=error)
    for got in (first, replayed):
        assert type(got) is KeywordOnlyError
        assert str(got) == "Not Found"
        assert got.status_code == 404
        assert not hasattr(got, "response")
    assert first.__cause__ is error  # nothing is hidden from who looks for it


def test_an_exception_whose_class_is_gone_is_raised_as_a_stand_in_with_its_type_and_message(monkeypatch):
    got = []

    async def act(event, ctx):
        try:
            await ctx.durable_execute_async(print)
        except Exception as error:  # noqa: BLE001
            got.append(error)
        await ctx.durable_execute_async(print, "second")

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    harness.calls[0].fail(OwnInitError(7, "seven"))
    monkeypatch.delitem(globals(), "OwnInitError")
    restart(harness)
    assert type(got[1]) is RecordedCallError
    assert "OwnInitError" in str(got[1])
    assert "7: seven" in str(got[1])


# --- what cannot be recorded ----------------------------------------------------------------------------------------


class Unreadable(Exception):  # noqa: N818
    """Pickles, and cannot be unpickled: the arguments of __init__ are not those of Exception."""

    def __init__(self, one, two):
        super().__init__("message")


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"deep": [1, (yield_ for yield_ in "ab")]}, r"deep\[1\]"),
        (Unreadable(1, 2), "not be read back"),
    ],
)
def test_a_result_without_encoding_fails_the_first_time_and_identically_on_replay(result, words):
    first, replayed = seen_first_and_on_replay(result)
    assert type(first) is type(replayed) is EncodeError
    assert str(first) == str(replayed)
    assert "builtins:print" in str(first)
    assert re.search(words, str(first))


@pytest.mark.parametrize(("result", "fits"), [("x" * 98, True), ("x" * 99, False), ("\u00e4" * 50, False)])
def test_the_size_limit_counts_encoded_bytes_and_fails_the_first_time_and_identically_on_replay(result, fits):
    got = []

    async def act(event, ctx):
        try:
            got.append(await ctx.durable_execute_async(str))
        except ValueTooLargeError as error:
            got.append(str(error))
        await ctx.durable_execute_async(print)

    harness = AgentHarness(agent_of(act), {"durable.max-result-bytes": 100})
    harness.feed("a", 1)
    harness.calls[0].complete(result)
    restart(harness)
    assert got[0] == got[1]
    if fits:
        assert got[0] == result
    else:
        assert "limit is 100" in got[0]
        assert "durable.max-result-bytes" in got[0]
