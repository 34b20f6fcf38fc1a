"""Rebuilds what each run did from the lines of event logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from flink_agents_py.errors import ConfigError
from flink_agents_py.observe.destinations import parts_of
from flink_agents_py.observe.ids import ids_of_paths

OUTCOMES = ("failed", "dead-letter", "skipped", "unfinished", "finished")
"""Outcomes of runs, the most urgent first."""


_MOST_WARNINGS = 100  # a file of something else would fill the screen


@dataclass
class TracedEvent:
    """An event of a run."""

    id: str
    type: str
    at_ms: int
    attributes: Any
    upstream: str | None
    action: str | None
    seen: int = 1
    """How often it was handled; more than once after a crash."""


@dataclass
class TracedCall:
    """A durable call that has ended, or (``outcome`` is ``retrying``) an attempt that failed."""

    number: int
    function: str
    at_ms: int
    outcome: str
    attempts: int
    ms: float | None
    replayed: bool
    error: dict[str, str] | None
    attempt: int


@dataclass
class TracedAction:
    """One execution of an action for an event."""

    event: str
    name: str
    at_ms: int
    """When it ended, or what is known of it last."""
    attempt: int
    """Of the job."""
    outcome: str = "unfinished"
    ms: float | None = None
    resumed: bool = False
    replayed: bool = False
    error: dict[str, str] | None = None
    calls: list[TracedCall] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class TracedRun:
    """One input and what it caused."""

    agent: str
    key: Any
    sequence: int
    began_ms: int
    ended_ms: int
    events: dict[str, TracedEvent] = field(default_factory=dict)
    actions: list[TracedAction] = field(default_factory=list)
    attempts: set[int] = field(default_factory=set)
    suspended: bool = False
    ended: bool = False
    resumed: bool = False
    measured_ms: float | None = None
    run_id: str | None = None

    @property
    def outcome(self) -> str:
        """One of :data:`OUTCOMES`."""
        found = {action.outcome for action in self.actions}
        if "failed" in found and not self.ended:
            return "failed"
        for outcome in ("dead-letter", "skipped"):
            if outcome in found:
                return outcome
        return "unfinished" if self.suspended and not self.ended else "finished"

    @property
    def ms(self) -> float:
        """From its first line to its last; where it ended in one attempt and callback, as it was measured."""
        if self.measured_ms is not None and len(self.attempts) == 1:
            return self.measured_ms
        between = float(self.ended_ms - self.began_ms)
        return max(between, sum(action.ms or 0.0 for action in self.actions)) if not self.suspended else between


@dataclass
class Trace:
    """Runs in order of their beginning, and what could not be read."""

    runs: list[TracedRun]
    warnings: list[str]


def log_files(paths: Iterable[Path]) -> list[Path]:
    """The files themselves, each behind what was put aside of it, and those ending in ``.jsonl`` in folders.

    Raises:
        ConfigError: one does not exist.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.glob("*.jsonl"))
        elif path.exists():
            files += [*parts_of(path), path]
        else:
            raise ConfigError(f"there is no {path}", fix="give event log files, or the folder they are in")
    return list(dict.fromkeys(files))


def read(files: Iterable[Path]) -> Trace:
    """The runs in some files, each of which may hold part of a run."""
    warnings: list[str] = []
    return build(_records(files, warnings), warnings)


def _records(files: Iterable[Path], warnings: list[str]) -> Iterator[dict[str, Any]]:
    for path in files:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                    if record["kind"] and "businessKey" in record:
                        yield record
                except (ValueError, KeyError, TypeError):
                    if len(warnings) < _MOST_WARNINGS:
                        warnings.append(f"{path}:{number} is no line of an event log")


def build(records: Iterable[dict[str, Any]], warnings: list[str] | None = None) -> Trace:
    """The runs that lines tell of. Lines of one run are in order of time, others may stand between them."""
    runs: dict[tuple[str, str, int], TracedRun] = {}
    times = _Times()
    for record in records:
        key = record["businessKey"]
        identity = (record["agentName"], key if type(key) is str else json.dumps(key), record["sequence"])
        at = times.ms(record["timestamp"])
        run = runs.get(identity)
        if run is None:
            run = runs[identity] = TracedRun(record["agentName"], key, record["sequence"], at, at)
        run.ended_ms = max(run.ended_ms, at)
        run.began_ms = min(run.began_ms, at)
        run.attempts.add(record.get("attempt", 0))
        run.run_id = run.run_id or record.get("inputRunId")
        _add(run, record, at)
    for run in runs.values():
        if run.run_id is not None:
            _join_ids(run)
    return Trace(sorted(runs.values(), key=lambda run: (run.began_ms, run.sequence)), warnings or [])


def _add(run: TracedRun, record: dict[str, Any], at: int) -> None:
    kind = record["kind"]
    if kind == "event":
        own = record["eventId"]
        known = run.events.get(own)
        if known is not None:
            known.seen += 1
        else:
            run.events[own] = TracedEvent(
                own,
                record["eventType"],
                at,
                record.get("eventAttributes"),
                record.get("upstreamEventId"),
                record.get("upstreamActionName"),
            )
        sender = record.get("upstreamAction")
        if sender is not None:  # the end of the action that sent it, which then has no line of its own
            _end(_action(run, record["upstreamEventId"], record["upstreamActionName"], record, at), sender)
    elif kind == "run":
        run.resumed = run.resumed or record.get("resumed", False)
        if record["outcome"] == "suspended":
            run.suspended = True
        else:
            run.ended = True
            run.measured_ms = record.get("ms")
    else:
        action = _action(run, record["eventId"], record["actionName"], record, at)
        if kind == "action":
            _end(action, record)
        elif kind in {"call", "retry"}:
            action.calls.append(
                TracedCall(
                    record["call"],
                    record["function"],
                    at,
                    record.get("outcome", "retrying"),
                    record["attempts"],
                    record.get("ms"),
                    record.get("replayed", False),
                    record.get("error"),
                    record.get("attempt", 0),
                )
            )
        elif kind != "attempt":
            action.notes.append({"kind": kind, "at": record["timestamp"], **(record.get("fields") or {})})


def _end(action: TracedAction, fields: dict[str, Any]) -> None:
    """What a line says of the end of an action."""
    action.outcome = fields["outcome"]
    action.ms = fields.get("ms")
    action.resumed = fields.get("resumed", False)
    action.replayed = fields.get("replayed", False)
    action.error = fields.get("error")


def _action(run: TracedRun, event: str, name: str, record: dict[str, Any], at: int) -> TracedAction:
    """The execution a line is about: the one that has not ended, in the same attempt of the job."""
    attempt = record.get("attempt", 0)
    for action in reversed(run.actions):
        if (action.event, action.name, action.attempt) == (event, name, attempt) and action.outcome == "unfinished":
            action.at_ms = at
            return action
    action = TracedAction(event, name, at, attempt)
    run.actions.append(action)
    return action


def _join_ids(run: TracedRun) -> None:
    """In a run that was resumed, events go by their ids; say which of those are known by their path."""
    paths = {
        path: None if event.upstream is None or event.action is None else (event.upstream, event.action)
        for path, event in run.events.items()
    }
    names = {own: path for path, own in ids_of_paths(run.run_id or "", paths).items() if own != path}
    if not names:
        return
    events: dict[str, TracedEvent] = {}
    for event in run.events.values():
        event.id = names.get(event.id, event.id)
        event.upstream = names.get(event.upstream or "", event.upstream)
        if event.id in events:
            events[event.id].seen += event.seen
        else:
            events[event.id] = event
    run.events = events
    for action in run.actions:
        action.event = names.get(action.event, action.event)


class _Times:
    """Timestamps as ms since 1970; those of one second are parsed once."""

    def __init__(self) -> None:
        self._text = ""
        self._ms = 0

    def ms(self, text: str) -> int:
        second, _, rest = text.partition(".")
        if second != self._text:
            self._text = second
            self._ms = int(datetime.fromisoformat(f"{second}+00:00").timestamp() * 1000)
        return self._ms + int(rest[:3])
