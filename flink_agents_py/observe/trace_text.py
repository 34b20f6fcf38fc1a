"""Traces as text and as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from flink_agents_py.observe.trace import OUTCOMES

if TYPE_CHECKING:
    from flink_agents_py.observe.trace import Trace, TracedAction, TracedCall, TracedEvent, TracedRun

_SHOWN = 160  # characters of attributes in a line of text


def by_urgency(runs: list[TracedRun]) -> list[TracedRun]:
    """Failed ones first, then the slowest."""
    return sorted(runs, key=lambda run: (OUTCOMES.index(run.outcome), -run.ms))


def as_json(trace: Trace) -> str:
    """All that is known, one document."""
    return json.dumps(
        {"runs": [_plain(run) for run in trace.runs], "warnings": trace.warnings}, ensure_ascii=False, indent=1
    )


def _plain(run: TracedRun) -> dict[str, Any]:
    document = asdict(run)
    for unneeded in ("suspended", "ended", "measured_ms"):
        del document[unneeded]
    document["events"] = list(document["events"].values())
    document["attempts"] = sorted(run.attempts)
    return {"outcome": run.outcome, "ms": run.ms, **document}


def as_text(runs: list[TracedRun]) -> Iterator[str]:
    """Lines of text: each run as a tree of its events, the actions that handled them, and their calls."""
    for run in runs:
        began = datetime.fromtimestamp(run.began_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
        attempts = f", attempts {sorted(run.attempts)}" if len(run.attempts) > 1 else ""
        place = f"{run.agent}, key {run.key!r}, sequence {run.sequence}"
        yield f"{run.outcome}: {place}, {run.ms:.1f} ms, {began}{attempts}"
        children: dict[tuple[str | None, str | None], list[TracedEvent]] = defaultdict(list)
        for event in run.events.values():
            known = event.upstream in run.events
            children[event.upstream if known else None, event.action if known else None].append(event)
        actions: dict[str, list[TracedAction]] = defaultdict(list)
        for action in run.actions:
            actions[action.event].append(action)
        for event in children[None, None]:
            yield from _event(event, "  ", children, actions)
        for event_id in actions.keys() - run.events.keys():
            for action in actions[event_id]:  # their event was handled before this log began, or its type is off
                yield from _action(action, "  ", [])
        yield ""


def _event(event: TracedEvent, indent: str, children: Any, actions: dict[str, list[TracedAction]]) -> Iterator[str]:
    seen = f" (handled {event.seen} times)" if event.seen > 1 else ""
    yield f"{indent}{event.type} [{event.id}]{seen} {_short(event.attributes)}"
    for action in actions.get(event.id, []):
        last = action is next(other for other in reversed(actions[event.id]) if other.name == action.name)
        yield from _action(action, indent + "  ", [])
        if last:
            for child in children[event.id, action.name]:
                yield from _event(child, indent + "    ", children, actions)
    handled = {action.name for action in actions.get(event.id, [])}
    for (parent, name), events in list(children.items()):
        if parent == event.id and name not in handled:  # sent by an action whose lines are off
            for child in events:
                yield from _event(child, indent + "    ", children, actions)


def _action(action: TracedAction, indent: str, _: list[Any]) -> Iterator[str]:
    marks = "".join(f" ({mark})" for mark in ("resumed", "replayed") if getattr(action, mark))
    again = f" (attempt {action.attempt})" if action.attempt else ""
    yield f"{indent}-> {action.name}: {action.outcome}{_duration(action.ms)}{marks}{again}{_error(action.error)}"
    for call in action.calls:
        yield f"{indent}   {_call(call)}"
    for note in action.notes:
        fields = ", ".join(f"{name}={value}" for name, value in note.items() if name not in {"kind", "at"})
        yield f"{indent}   {note['kind']}: {fields}"


def _call(call: TracedCall) -> str:
    if call.replayed:
        return f"call {call.number} {call.function}: {call.outcome} (replayed from the journal)"
    attempts = f", attempt {call.attempts}" if call.outcome == "retrying" else f", {call.attempts} attempt(s)"
    return f"call {call.number} {call.function}: {call.outcome}{attempts}{_duration(call.ms)}{_error(call.error)}"


def _duration(ms: float | None) -> str:
    return "" if ms is None else f", {ms:.1f} ms"


def _error(error: dict[str, str] | None) -> str:
    return "" if error is None else f"  {error.get('code')}: {_short(error.get('message'))}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
