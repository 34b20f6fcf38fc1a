"""The event log: which lines there are, what is in them, and that it never fails what it watches."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from flink_agents_py import (
    Agent,
    AgentConfiguration,
    AgentsExecutionEnvironment,
    Event,
    InputEvent,
    OutputEvent,
    RetryPolicy,
    RunnerContext,
    action,
)
from flink_agents_py.engine.failures import message_of
from flink_agents_py.engine.memory import TaskMemory
from flink_agents_py.errors import ActionFailedError, ConfigError
from flink_agents_py.observe.destinations import FileDestination, file_of, parts_of
from flink_agents_py.observe.levels import OFF, STANDARD, VERBOSE, Levels
from flink_agents_py.observe.trace import log_files, read
from flink_agents_py.serde.text import quote
from flink_agents_py.testing import AgentHarness

LOG = {"event-log.level": "STANDARD", "event-log.destination": "none", "event-log.side-output": True}


class Found(Event):
    text: str


class Asker(Agent):
    @action(InputEvent, retry=RetryPolicy(max_attempts=2, initial=1, jitter=0))
    @staticmethod
    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        answer = await ctx.durable_execute_async(look_up, event.input)
        ctx.record_usage("model", 3, 4, cost=0.5)
        ctx.send_event(Found(text=answer))

    @action(Found, on_error="skip")
    @staticmethod
    def tell(event: Found, ctx: RunnerContext) -> None:
        if event.text == "bad":
            raise LookupError("no such thing")
        ctx.send_event(OutputEvent(event.text))


async def look_up(question: str) -> str:
    return question.upper()


def log_of(harness: AgentHarness) -> list[dict]:
    return [json.loads(line) for line in harness.side_output("event-log")]


def brief(lines: list[dict]) -> list[tuple]:
    return [
        (line["kind"], line.get("actionName"), line.get("eventId"), line.get("outcome"))
        if line["kind"] != "event"
        else ("event", line.get("upstreamActionName"), line["eventId"], line.get("upstreamEventId"))
        for line in lines
    ]


def test_a_run_leaves_events_with_lineage_actions_calls_and_its_end():
    harness = AgentHarness(Asker(), LOG)
    harness.feed("ann", "why")
    harness.calls[0].complete("because")
    lines = log_of(harness)
    assert brief(lines) == [
        ("event", None, "0", None),
        ("run", None, None, "suspended"),
        ("call", "ask", "0", "returned"),
        ("usage", "ask", "0", None),
        ("action", "ask", "0", "finished"),
        ("event", "ask", "0/ask.0", "0"),
        ("action", "tell", "0/ask.0", "finished"),
        ("event", "tell", "0/ask.0/tell.0", "0/ask.0"),
        ("run", None, None, "finished"),
    ]
    assert {(line["businessKey"], line["sequence"], line["agentName"], line["attempt"]) for line in lines} == {
        ("ann", 1, "Asker", 0)
    }
    assert all(line["ms"] >= 0 for line in lines if line["kind"] in {"action", "call", "run"})
    assert lines[0]["eventAttributes"] == {"input": "why"}
    assert lines[3]["fields"] == {"model": "model", "prompt_tokens": 3, "completion_tokens": 4, "cost": 0.5}


def test_a_run_that_ends_in_its_first_callback_has_no_line_of_its_own():
    class Echo(Agent):
        @action(InputEvent)
        @staticmethod
        def echo(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(Echo(), LOG)
    harness.feed("ann", 1)
    received, sent = log_of(harness)
    assert (received["kind"], sent["kind"]) == ("event", "event")
    assert "upstreamAction" not in received
    end = sent["upstreamAction"]
    assert (end["outcome"], end["sent"], sent["upstreamActionName"]) == ("finished", 1, "echo")
    assert end["ms"] >= 0


def test_retries_say_the_code_the_attempt_and_the_wait():
    harness = AgentHarness(Asker(), LOG)
    harness.feed("ann", "why")
    harness.calls[0].fail(ConnectionError("refused"))
    (retry,) = [line for line in log_of(harness) if line["kind"] == "retry"]
    assert (retry["attempts"], retry["delayMs"]) == (1, 1000)
    assert retry["error"] == {"code": "ConnectionError", "type": "builtins.ConnectionError", "message": "refused"}


def test_a_failed_action_tells_its_error_and_its_outcome():
    harness = AgentHarness(Asker(), LOG)
    harness.feed("ann", "why")
    harness.calls[0].complete("bad")
    (line,) = [line for line in log_of(harness) if line.get("outcome") == "skipped"]
    assert line["error"] == {"code": "LookupError", "type": "builtins.LookupError", "message": "no such thing"}


def test_the_failure_that_ends_the_job_is_in_the_log_too(tmp_path):
    class Broken(Agent):
        @action(InputEvent)
        @staticmethod
        def act(event: InputEvent, ctx: RunnerContext) -> None:
            raise ValueError("on purpose")

    environment = AgentsExecutionEnvironment.get_execution_environment()
    environment.get_config().set("event-log.level", "VERBOSE")
    environment.get_config().set("event-log.directory", str(tmp_path))
    with pytest.raises(ActionFailedError):
        environment.from_list([{"key": "ann", "value": 1}]).apply(Broken()).to_list()
    (file,) = tmp_path.iterdir()
    last = json.loads(file.read_text().splitlines()[-1])
    assert (last["outcome"], last["error"]["message"]) == ("failed", "on purpose")
    assert "on purpose" in last["error"]["traceback"]


def test_what_the_journal_answers_after_a_crash_is_marked_as_replayed():
    harness = AgentHarness(TwoCalls(), LOG)
    harness.feed("ann", "why")
    harness.calls[0].complete("first")
    before = len(log_of(harness))
    snapshot = harness.snapshot()
    harness.crash()
    harness.restore(snapshot)
    harness.advance(10)
    harness.calls[0].complete("second")
    lines = log_of(harness)[before:]
    assert [(line["kind"], line.get("call"), line.get("replayed"), line.get("resumed")) for line in lines] == [
        ("call", 0, True, None),
        ("call", 1, None, None),
        ("action", None, None, True),
        ("run", None, None, True),
    ]
    assert len({line["inputRunId"] for line in lines}) == 1


class TwoCalls(Agent):
    @action(InputEvent)
    @staticmethod
    async def go(event: InputEvent, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(look_up, "one")
        await ctx.durable_execute_async(look_up, "two")


def test_levels_are_inherited_dot_by_dot():
    levels = Levels(
        AgentConfiguration(
            {
                "event-log.level": "STANDARD",
                "event-log.type.shop.level": "OFF",
                "event-log.type.shop.orders.Placed.level": "VERBOSE",
            }
        )
    )
    assert levels.of("shop.orders.Placed") == VERBOSE
    assert levels.of("shop.orders.Cancelled") == OFF
    assert levels.of("shop") == OFF
    assert levels.of("shopping") == STANDARD
    assert levels.of("_input_event") == STANDARD


def test_a_level_that_is_none_is_refused_with_its_key():
    with pytest.raises(ConfigError, match=r"event-log\.type\.shop\.level"):
        Levels(AgentConfiguration({"event-log.type.shop.level": "LOUD"}))


def test_types_that_are_off_leave_nothing_and_their_actions_neither():
    harness = AgentHarness(Asker(), {**LOG, f"event-log.type.{Found.EVENT_TYPE}.level": "OFF"})
    harness.feed("ann", "why")
    harness.calls[0].complete("because")
    assert not [line for line in log_of(harness) if line.get("eventType") == Found.EVENT_TYPE]
    assert [line["eventId"] for line in log_of(harness) if line["kind"] == "event"] == ["0", "0/ask.0/tell.0"]


def test_an_event_without_repr_is_counted_and_the_run_goes_on():
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("not even this")

    class Passes(Agent):
        @action(InputEvent)
        @staticmethod
        def act(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(Passes(), LOG)
    harness.feed("ann", Hostile())
    assert len(harness.outputs) == 1
    assert harness.engine.watch.failures == 2
    assert ends_of(log_of(harness)) == [("action", "0", "act", 1)]


def test_a_disk_that_refuses_is_counted_and_the_job_goes_on(tmp_path):
    (tmp_path / "file").write_text("in the way")
    destination = FileDestination(tmp_path / "file" / "below.jsonl")
    destination.write("a line", None)
    destination.flush()
    assert destination.failures == 1
    destination.close()


def test_a_key_that_is_no_unicode_does_not_end_the_writing(tmp_path):
    destination = FileDestination(tmp_path / "events.jsonl")
    destination.write(f'{{"businessKey":{quote(chr(0xD800))}}}', None)
    destination.close()
    assert json.loads((tmp_path / "events.jsonl").read_text()) == {"businessKey": chr(0xD800)}


def test_lines_of_several_attempts_go_to_one_file(tmp_path):
    path = file_of(str(tmp_path), "my agent/x", "0123456789abcdef", 3)
    assert path == Path(tmp_path, "events-my_agent_x-01234567-3.jsonl")
    for attempt in range(2):
        destination = FileDestination(path)
        destination.write(f'{{"attempt":{attempt}}}', None)
        destination.close()
    assert path.read_text() == '{"attempt":0}\n{"attempt":1}\n'


def test_files_that_are_full_are_put_aside_and_the_trace_reads_the_newest_of_them_in_order(tmp_path):
    def runs(config: dict, inputs: int) -> None:
        environment = AgentsExecutionEnvironment.get_execution_environment()
        for name, value in {"event-log.level": "STANDARD", "event-log.directory": str(tmp_path), **config}.items():
            environment.get_config().set(name, value)
        environment.from_list([{"key": "ann", "value": "x"} for _ in range(inputs)]).apply(Steps()).to_list()

    path = file_of(str(tmp_path), "Steps", f"local-{os.getpid()}", 0)
    for _ in range(5):
        runs({"event-log.max-file-size": "1 b", "event-log.max-files": 3}, 2)
    assert [part.name for part in parts_of(path)] == [f"{path.stem}.00000{number}.jsonl" for number in (4, 5)]
    assert not path.exists()
    runs({}, 1)
    wanted = [*parts_of(path), path]
    assert log_files([tmp_path]) == log_files([path]) == log_files(wanted[::-1]) == wanted
    trace = read(wanted)
    assert [len(run.actions) for run in trace.runs] == [6, 4]  # each job began at sequence 1
    assert {run.outcome for run in trace.runs} == {"finished"}


def test_message_of_an_error_without_str_does_not_fail_the_log():
    class OddError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "RuntimeError" in message_of(OddError())


class Steps(Agent):
    """Sends nothing, one event, or several, by its input."""

    @action(InputEvent)
    @staticmethod
    def split(event: InputEvent, ctx: RunnerContext) -> None:
        if event.input == "fails":
            raise LookupError("on purpose")
        for text in event.input:
            ctx.send_event(Found(text=text))

    @action(Found)
    @staticmethod
    def tell(event: Found, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(event.text))


def ends_of(lines: list[dict]) -> list[tuple]:
    """Ends of actions, with the kind of the line that tells them."""
    return [
        ("action", line["eventId"], line["actionName"], line.get("sent"))
        if line["kind"] == "action"
        else ("event", line["upstreamEventId"], line["upstreamActionName"], line["upstreamAction"]["sent"])
        for line in lines
        if line["kind"] == "action" or "upstreamAction" in line
    ]


def test_the_end_of_each_action_is_told_once_by_the_next_event_or_by_itself():
    harness = AgentHarness(Steps(), LOG)
    harness.feed("ann", "")
    harness.feed("ann", "ab")
    lines = log_of(harness)
    assert ends_of(lines) == [
        ("action", "0", "split", None),
        ("event", "0", "split", 2),
        ("action", "0/split.0", "tell", 1),  # another event came before the one it sent
        ("action", "0/split.1", "tell", 1),
    ]
    assert [line["eventId"] for line in lines if line["kind"] == "event" and line["sequence"] == 2] == [
        "0",
        "0/split.0",
        "0/split.1",
        "0/split.0/tell.0",
        "0/split.1/tell.0",
    ]


def test_an_end_is_not_told_by_an_event_of_another_level():
    harness = AgentHarness(Steps(), {**LOG, f"event-log.type.{Found.EVENT_TYPE}.level": "OFF"})
    harness.feed("ann", "a")
    assert ends_of(log_of(harness)) == [("action", "0", "split", 1)]


def test_an_end_is_told_at_once_where_the_next_event_has_to_wait_for_another_callback():
    class Slow(Steps):
        @action(InputEvent)
        @staticmethod
        def split(event: InputEvent, ctx: RunnerContext) -> None:
            harness.clock.budget_used_s += 1
            ctx.send_event(Found(text=event.input))

    harness = AgentHarness(Slow(), LOG)
    harness.feed("ann", "a")
    assert [line["kind"] for line in log_of(harness)][:4] == ["event", "action", "run", "event"]
    assert harness.outputs == ["a"]
    assert ends_of(log_of(harness)) == [("action", "0", "split", 1), ("action", "0/split.0", "tell", 1)]


@pytest.mark.parametrize("waits", [False, True])
def test_an_action_whose_memory_cannot_be_committed_has_one_end_and_it_is_the_failure(waits, monkeypatch):
    class Writer(Agent):
        @action(InputEvent, on_error="skip")
        @staticmethod
        async def write(event: InputEvent, ctx: RunnerContext) -> None:
            if event.input:
                await ctx.durable_execute_async(look_up, "why")
            ctx.short_term_memory.set("seen", 1)

    def refuses(_: TaskMemory) -> None:
        raise OSError("state is not there")

    monkeypatch.setattr(TaskMemory, "commit", refuses)
    harness = AgentHarness(Writer(), LOG)
    harness.feed("ann", waits)
    for call in harness.calls:
        call.complete("because")
    ends = [line["outcome"] for line in log_of(harness) if line["kind"] == "action"]
    assert ends == ["skipped"]
