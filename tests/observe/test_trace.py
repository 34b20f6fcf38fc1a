"""Traces rebuilt from event logs: trees, retries, replays, filters, and the page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from flink_agents_py import Agent, Event, InputEvent, OutputEvent, RetryPolicy, RunnerContext, action
from flink_agents_py.cli import main
from flink_agents_py.observe.trace import build
from flink_agents_py.observe.trace_html import as_html
from flink_agents_py.observe.trace_text import as_text, by_urgency
from flink_agents_py.testing import AgentHarness

LOG = {"event-log.level": "STANDARD", "event-log.destination": "none", "event-log.side-output": True}


class Found(Event):
    text: str


class Asker(Agent):
    @action(InputEvent, retry=RetryPolicy(max_attempts=2, initial=1, jitter=0), on_error="dead_letter")
    @staticmethod
    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        first = await ctx.durable_execute_async(look_up, event.input)
        second = await ctx.durable_execute_async(look_up, first)
        ctx.send_event(Found(text=second))

    @action(Found)
    @staticmethod
    def tell(event: Found, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(event.text))


async def look_up(question: str) -> str:
    return question


def lines_of(harness):
    return harness.side_output("event-log")


def trace_of(harness):
    return build(map(json.loads, lines_of(harness)))


def test_a_run_is_a_tree_of_events_actions_and_calls_with_their_retries():
    harness = AgentHarness(Asker(), LOG)
    harness.feed("ann", "why")
    harness.calls[0].fail(ConnectionError("refused"))
    harness.advance(1.5)
    harness.calls[0].complete("because")
    harness.calls[0].complete("of that")
    (run,) = trace_of(harness).runs
    assert run.outcome == "finished"
    assert [(event.id, event.upstream, event.action) for event in run.events.values()] == [
        ("0", None, None),
        ("0/ask.0", "0", "ask"),
        ("0/ask.0/tell.0", "0/ask.0", "tell"),
    ]
    ask, tell = run.actions
    assert [(call.number, call.outcome, call.attempts) for call in ask.calls] == [
        (0, "retrying", 1),
        (0, "returned", 2),
        (1, "returned", 1),
    ]
    assert tell.outcome == "finished"
    text = "\n".join(as_text([run]))
    assert "call 0" in text
    assert "retrying, attempt 1  ConnectionError: refused" in text
    assert text.index("-> ask") < text.index("Found") < text.index("-> tell") < text.index("_output_event")


def test_a_run_that_crashed_and_went_on_is_one_run_with_what_was_replayed_marked():
    harness = AgentHarness(Asker(), LOG)
    harness.feed("ann", "why")
    harness.calls[0].complete("first")
    snapshot = harness.snapshot()
    harness.crash()
    harness.restore(snapshot)
    harness.advance(10)
    harness.calls[0].complete("second")
    (run,) = trace_of(harness).runs
    assert run.outcome == "finished"
    assert run.resumed
    before, found, output = run.events.values()
    assert (before.id, before.upstream) == ("0", None)
    assert (found.upstream, found.action, output.upstream, output.action) == ("0", "ask", found.id, "tell")
    assert {action.event for action in run.actions} == {"0", found.id}
    replayed = [call.number for action in run.actions for call in action.calls if call.replayed]
    assert replayed == [0]
    assert "replayed from the journal" in "\n".join(as_text([run]))


def test_a_run_without_end_is_unfinished_and_failed_ones_come_first():
    harness = AgentHarness(Asker(), LOG)
    harness.feed("waits", "why")
    harness.feed("fails", "why")
    harness.calls[1].complete("x")
    harness.calls[-1].fail(ValueError("no"))
    harness.advance(2)
    if len(harness.calls) > 1:
        harness.calls[-1].fail(ValueError("no"))
    harness.feed("fine", "why")
    harness.calls[-1].complete("a")
    harness.calls[-1].complete("b")
    ordered = by_urgency(trace_of(harness).runs)
    assert [(run.key, run.outcome) for run in ordered] == [
        ("fails", "dead-letter"),
        ("waits", "unfinished"),
        ("fine", "finished"),
    ]


@pytest.fixture
def log(tmp_path):
    harness = AgentHarness(Asker(), LOG)
    for key in ("ann", "</script><b>ben", "eve"):
        harness.feed(key, "why")
        harness.calls[0].complete("one")
        harness.calls[0].complete("two")
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join([*lines_of(harness), "not json", "{}"]) + "\n")
    return path


def test_the_command_filters_and_says_what_it_could_not_read(log, capsys):
    assert main(["trace", str(log), "--key", "ann", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert [run["key"] for run in json.loads(out)["runs"]] == ["ann"]
    assert err.count("is no line of an event log") == 2
    assert main(["trace", str(log.parent), "--action", "nobody"]) == 0
    assert capsys.readouterr().out.strip() == ""
    assert main(["trace", str(log.parent / "absent")]) == 1
    assert "FA501" in capsys.readouterr().err


def test_the_page_needs_nothing_else_and_keys_cannot_break_out_of_its_data(log, tmp_path):
    out = tmp_path / "page.html"
    assert main(["trace", str(log), "--format", "html", "--out", str(out)]) == 0
    page = out.read_text()
    assert "</script><b>ben" not in page

    found = []

    class Loads(HTMLParser):
        def handle_starttag(self, tag, attrs):
            found.extend(value for name, value in attrs if name in {"src", "href"})

    Loads().feed(page)
    assert not found


@pytest.mark.skipif(shutil.which("chromium") is None and os.environ.get("CI") != "true", reason="left out: no chromium")
def test_a_browser_draws_the_runs(log, tmp_path):
    page = tmp_path / "page.html"
    main(["trace", str(log), "--format", "html", "--out", str(page)])
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"]
    drawn = subprocess.run(
        [*command, f"--user-data-dir={tmp_path}/profile", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "3 of 3 runs" in drawn
    assert drawn.count('class="row') == 3
    assert "&lt;/script&gt;&lt;b&gt;ben #1" in drawn


def test_an_empty_log_makes_an_empty_page():
    assert "0" in as_html(build([]))


def test_an_action_whose_end_the_next_event_tells_is_one_like_any_other():
    class Relay(Agent):
        @action(InputEvent)
        @staticmethod
        def relay(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.observe("seen", text=event.input)
            ctx.send_event(Found(text=event.input))

        @action(Found)
        @staticmethod
        def tell(event: Found, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(event.text))

    harness = AgentHarness(Relay(), LOG)
    harness.feed("ann", "why")
    assert not [line for line in lines_of(harness) if json.loads(line)["kind"] == "action"]
    (run,) = trace_of(harness).runs
    assert run.outcome == "finished"
    assert [(action.event, action.name, action.outcome, len(action.notes)) for action in run.actions] == [
        ("0", "relay", "finished", 1),
        ("0/relay.0", "tell", "finished", 0),
    ]
    assert all(action.ms >= 0 for action in run.actions)
