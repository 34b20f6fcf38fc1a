"""Lines that are noted first and made later say what they would have said at once."""

from __future__ import annotations

import copy
import json
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyflink.common import Row

from flink_agents_py import Agent, Event, InputEvent, OutputEvent, action
from flink_agents_py.observe import destinations, observation
from flink_agents_py.observe.destinations import FileDestination
from flink_agents_py.observe.held_lines import HeldLines, Json
from flink_agents_py.observe.shorten import Shortener
from flink_agents_py.serde.text import dumps
from flink_agents_py.testing import AgentHarness, VirtualClock

LIMITS = {
    "event-log.standard.max-string-length": 12,
    "event-log.standard.max-array-elements": 4,
    "event-log.standard.max-depth": 3,
}
AS_IT_IS = {"event-log.level": "STANDARD", "event-log.destination": "none", "event-log.side-output": True}


def held(agent: Agent, folder, **config) -> AgentHarness:
    """A harness whose log goes to a file, many lines at once."""
    return AgentHarness(agent, {"event-log.level": "STANDARD", "event-log.directory": str(folder), **LIMITS, **config})


def lines_of(harness: AgentHarness) -> list[dict]:
    destination = harness.engine.watch._held._write.__self__
    assert isinstance(destination, FileDestination)
    destination.close()
    return [json.loads(line) for line in destination.path.read_bytes().split(b"\n")[:-1]]


def timeless(line: dict) -> dict:
    upstream = line.get("upstreamAction")
    if upstream is not None:
        line = {**line, "upstreamAction": {**upstream, "ms": 0}}
    return {**line, "timestamp": "", "ms": 0}


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["%s", "100 %", "\ud800", 'a "quoted" one', "back\\slash", "né", "x" * 30, b"\x00"]),
)
names = st.one_of(st.text(max_size=8), st.sampled_from(["%s", "%d%%", "é", "x" * 20]))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.lists(inner, max_size=6).map(tuple),
        st.dictionaries(names, inner, max_size=6),
        st.lists(inner, max_size=6).map(lambda items: Row(*items)),
        st.dictionaries(names, inner, min_size=1, max_size=6).map(lambda fields: Row(**fields)),
    ),
    max_leaves=8,
)


def spoil(value: object) -> None:
    """Change what can be changed, however deep it is."""
    if isinstance(value, Row):
        inner = value._values
    elif isinstance(value, dict):
        inner = list(value.values())
    else:
        inner = value if isinstance(value, (list, tuple)) else []
    for item in inner:
        spoil(item)
    if isinstance(value, Row):
        value._values[:] = ["spoilt"] * len(value._values)
    elif isinstance(value, list):
        value.append("spoilt")
    elif isinstance(value, dict):
        value["spoilt"] = True


class Spoils(Agent):
    @action(InputEvent)
    @staticmethod
    def act(event: InputEvent, ctx) -> None:
        ctx.send_event(OutputEvent(copy.deepcopy(event.input)))
        spoil(event.input)


@settings(max_examples=150, deadline=None)
@given(st.lists(values, min_size=1, max_size=5))
@example([Row(a="x", b=1), Row(a="y", b=2), Row(b="y", a=2), Row("x", 1), ["x", 1], {"a": "x", "b": 1}])
@example([{"a": "x" * 30}, {"a": "\ud800"}, "x" * 30, "\ud800", {"a": "x"}])
@example([Row(a="x", b=1), Row(a="x", b=1, c=2), {}, [], Row(), "", 0])
def test_values_are_shown_as_they_were_when_the_event_was_handled(tmp_path_factory, inputs):
    short = Shortener(12, 4, 3)
    wanted = [json.loads(dumps(short.plain(value, 1))) for value in inputs]
    harness = held(Spoils(), tmp_path_factory.mktemp("log"))
    for value in inputs:
        harness.feed("ann", value)
    lines = lines_of(harness)
    assert [line["eventAttributes"]["input"] for line in lines if line["eventId"] == "0"] == wanted
    assert [line["eventAttributes"]["output"] for line in lines if line["eventId"] != "0"] == wanted
    assert harness.engine.watch.failures == 0


def test_an_integer_that_python_makes_no_text_of_leaves_the_rest_of_the_line(tmp_path):
    harness = held(Spoils(), tmp_path)
    harness.feed("ann", {"huge": 10**5000, "small": 1})
    harness.feed("ann", 2)
    shown = [line["eventAttributes"].get("input") for line in lines_of(harness)]
    assert shown == [{"huge": "<not shown: ValueError>", "small": 1}, None, 2, None]


class Found(Event):
    EVENT_TYPE = "found 100 %s"
    text: str


class Talks(Agent):
    """Does many things, by its input."""

    @action(InputEvent, on_error="dead_letter")
    @staticmethod
    def act(event: InputEvent, ctx) -> None:
        if event.input == "fails":
            raise LookupError("on purpose")
        for text in event.input:
            ctx.send_event(Found(text=text))
        if event.input == "says":
            ctx.observe("remark", {"words": 3})

    @action(Found)
    @staticmethod
    def tell(event: Found, ctx) -> None:
        ctx.send_event(OutputEvent(event.text))


@pytest.mark.parametrize("level", ["STANDARD", "VERBOSE", "OFF"])
def test_lines_are_the_same_and_in_the_same_order_as_if_each_was_written_at_once(tmp_path, level):
    mixed = {} if level == "STANDARD" else {f"event-log.type.{Found.EVENT_TYPE}.level": level}
    later = held(Talks(), tmp_path, **mixed)
    at_once = AgentHarness(Talks(), {**AS_IT_IS, **LIMITS, **mixed})
    for harness in (later, at_once):
        for key in ("ann", 7, ("a", 1), True, "100 %s", 'q"', "né", "\ud800", "long" * 9, 1.5):
            for value in ("", "a", "abc", "says", "fails", "d"):
                harness.feed(key, value)
    wanted = [timeless(json.loads(line)) for line in at_once.side_output("event-log")]
    assert len(wanted) > 100
    assert [timeless(line) for line in lines_of(later)] == wanted
    assert later.engine.watch.truncated == at_once.engine.watch.truncated
    assert later.engine.watch.failures == at_once.engine.watch.failures == 0


def test_what_is_held_is_no_longer_than_what_is_shown(tmp_path):
    harness = held(Spoils(), tmp_path)
    inputs = [
        "x" * 99,
        {"text": "x" * 99},
        ["x" * 99],
        Row(text="x" * 99),
        Row("x" * 99),
        list(range(99)),
        Row(*range(99)),
    ]
    for value in inputs:
        harness.feed("ann", value)
    kept = [value for line in harness.engine.watch._lines for value in line[2:]]
    assert len(kept) == 2 * len(inputs) * 3 + len(
        inputs
    )  # of each line key, number, what is shown; and how long it took
    assert max(len(value) for value in kept if type(value) is str) == 3
    assert len(lines_of(harness)) == 2 * len(inputs)


def test_names_that_are_data_are_not_remembered_without_end(tmp_path):
    harness = held(Spoils(), tmp_path)
    for number in range(1500):
        harness.feed("ann", {f"name {number}": number})
    shown = [line["eventAttributes"]["input"] for line in lines_of(harness) if line["eventId"] == "0"]
    assert shown == [{f"name {number}": number} for number in range(1500)]
    assert len(harness.engine.watch._input._ends) == 1000


def test_a_text_that_is_cut_is_counted(tmp_path):
    harness = held(Spoils(), tmp_path)
    harness.feed("ann", {"text": "x" * 30})
    harness.feed("a key that is longer than a text may be", "y")
    first, _, second, _ = lines_of(harness)
    assert first["eventAttributes"]["input"] == {"text": {"truncatedString": "x" * 12, "omittedChars": 18}}
    assert second["businessKey"] == "a key that is longer than a text may be"
    assert harness.engine.watch.truncated == 2


def test_lines_come_by_themselves_before_there_are_many(tmp_path):
    harness = held(Spoils(), tmp_path)
    harness.feed("ann", "x")
    destination = harness.engine.watch._held._write.__self__
    waited = threading.Event()
    for _ in range(200):
        if destination.path.exists() and len(destination.path.read_text().splitlines()) == 2:
            break
        waited.wait(0.05)
    else:
        pytest.fail("two lines, and nobody wrote them")
    destination.close()


def test_many_lines_are_written_when_there_are_so_many(tmp_path, monkeypatch):
    monkeypatch.setattr(observation, "HOLD", 10)
    harness = held(Spoils(), tmp_path)
    for number in range(12):
        harness.feed("ann", number)
    destination = harness.engine.watch._held._write.__self__
    assert len(harness.engine.watch._lines) < 10
    assert len(lines_of(harness)) == 24
    assert destination.failures == 0


def test_lines_that_are_noted_while_another_thread_writes_are_there_once_and_in_order():
    texts: list[str] = []
    failures: list[BaseException] = []
    lines = HeldLines(lambda text, run: texts.append(text), VirtualClock(), Shortener(99, 9, 9), failures.append)
    done = threading.Event()

    def flush() -> None:
        while not done.is_set():
            lines.flush()

    other = threading.Thread(target=flush)
    other.start()
    for number in range(50_000):
        lines.lines.append(("%.0s%s %s", 1.0, number, Json("x")) if number % 3 else f"{number} x")
        if len(lines.lines) >= 50:
            lines.flush()
    done.set()
    other.join()
    lines.flush()
    assert "\n".join(texts).splitlines() == [f"{number} x" for number in range(50_000)]
    assert not failures


def test_lines_above_what_may_wait_for_the_disk_are_dropped_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(destinations, "_MOST_BYTES", 10)
    monkeypatch.setattr(destinations, "_FLUSH_BYTES", 1 << 30)
    monkeypatch.setattr(destinations, "_FLUSH_S", 1000)
    destination = FileDestination(tmp_path / "events.jsonl")
    for text in ("0123456789", "dropped\nand this", "so is this"):
        destination.write(text)
    assert destination.failures == 3
    destination.flush()
    destination.write("not any more")
    destination.close()
    assert (tmp_path / "events.jsonl").read_text() == "0123456789\nnot any more\n"
