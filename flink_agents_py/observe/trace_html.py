"""Traces as one page of HTML that needs nothing else: no server, no network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.observe.trace import OUTCOMES

if TYPE_CHECKING:
    from flink_agents_py.observe.trace import Trace, TracedAction, TracedCall, TracedRun

_SHOWN = 2000  # characters of an event's attributes


def as_html(trace: Trace, title: str = "Runs") -> str:
    """The page.

    Raises:
        EnvironmentSetupError: Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError:
        raise EnvironmentSetupError(
            "a page of HTML needs Jinja2", fix="pip install 'flink-agents-py[trace]', or use --format text or json"
        ) from None
    pages = Environment(loader=PackageLoader("flink_agents_py.observe"), autoescape=True)
    data = json.dumps(_Packer().pack(trace), ensure_ascii=False, separators=(",", ":"))
    # JSON inside a script element: the one thing that could end it is `</script`, or begin a comment `<!--`.
    safe = _Raw(data.replace("<", "\\u003c"))
    return pages.get_template("trace.html.j2").render(title=title, data=safe)


class _Raw(str):
    """Text the template takes as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


class _Packer:
    """Runs as arrays of arrays, names by number; ``trace.js`` says what stands where."""

    def __init__(self) -> None:
        self._agents = _Names()
        self._actions = _Names()
        self._types = _Names()
        self._functions = _Names()

    def pack(self, trace: Trace) -> dict[str, Any]:
        runs = [self._run(run) for run in trace.runs]
        return {
            "outcomes": [*OUTCOMES, "recalled"],
            "agents": self._agents.names,
            "actions": self._actions.names,
            "types": self._types.names,
            "functions": self._functions.names,
            "runs": runs,
        }

    def _run(self, run: TracedRun) -> list[Any]:
        places = {event_id: index for index, event_id in enumerate(run.events)}
        events = [
            [
                event.id,
                self._types.number(event.type),
                event.at_ms - run.began_ms,
                _text(event.attributes),
                places.get(event.upstream or "", -1),
                -1 if event.action is None else self._actions.number(event.action),
                event.seen,
            ]
            for event in run.events.values()
        ]
        key = run.key if isinstance(run.key, str) else json.dumps(run.key, ensure_ascii=False)
        return [
            self._agents.number(run.agent),
            key,
            run.sequence,
            OUTCOMES.index(run.outcome),
            run.began_ms,
            round(run.ms, 3),
            sorted(run.attempts),
            events,
            [self._action(run, action, places) for action in run.actions],
        ]

    def _action(self, run: TracedRun, action: TracedAction, places: dict[str, int]) -> list[Any]:
        marks = [mark for mark in ("resumed", "replayed") if getattr(action, mark)]
        return [
            places.get(action.event, -1),
            self._actions.number(action.name),
            action.at_ms - run.began_ms,
            action.ms,
            len(OUTCOMES) if action.outcome == "recalled" else OUTCOMES.index(action.outcome),
            marks,
            action.error,
            [self._call(run, call) for call in action.calls],
            [_text(note) for note in action.notes],
            action.attempt,
        ]

    def _call(self, run: TracedRun, call: TracedCall) -> list[Any]:
        at = call.at_ms - run.began_ms
        return [
            self._functions.number(call.function),
            at,
            call.ms,
            call.outcome,
            call.attempts,
            int(call.replayed),
            call.error,
        ]


class _Names:
    """Each name once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        return list(self._numbers)

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
