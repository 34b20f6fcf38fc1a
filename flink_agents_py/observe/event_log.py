"""The event log: what runs did, as JSON lines.

Five kinds of lines: ``event`` (one is handled), ``action`` (one has ended), ``call`` (a durable call has its outcome),
``retry``, ``run`` (one has ended); at ``VERBOSE`` also ``attempt``, and whatever ``ctx.observe`` adds. Each has the
run, key and sequence it belongs to, and the attempt of the job. Where an action has ended as ``finished`` and the event
it sent first is handled at once, the line of that event tells the end too, as ``upstreamAction``. Names are those of
Apache Flink Agents' event log where it has the same thing. The level of a line is that of the event type it is about.

Events are named by their place in the run: ``0`` is the input, ``0/score.1`` the second event that the action ``score``
sent for it. That is cheap to say, and :func:`flink_agents_py.observe.ids.ids_of_paths` makes the ids of it that dead
letters and resumed runs have; at ``VERBOSE`` the id is in the line, as ``eventUuid``.
"""

from __future__ import annotations

import logging
import re
import traceback
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.failures import message_of
from flink_agents_py.engine.journal import RAISED
from flink_agents_py.engine.stats import code_of
from flink_agents_py.events import InputEvent, OutputEvent
from flink_agents_py.observe.event_lines import ENDED, ID, LEVEL_TEXTS, QUICK, EventKind
from flink_agents_py.observe.held_lines import HeldLines, Json, Write
from flink_agents_py.observe.levels import OFF, STANDARD, VERBOSE, Levels
from flink_agents_py.observe.lineage import lineage_of, path_of, place_of, recorded_lineage
from flink_agents_py.observe.shorten import Shortener
from flink_agents_py.observe.stamps import Stamps
from flink_agents_py.serde.text import dumps, quote

if TYPE_CHECKING:
    from flink_agents_py.config import AgentConfiguration
    from flink_agents_py.engine.calls import DurableCall
    from flink_agents_py.engine.ports import Clock
    from flink_agents_py.engine.run import Run
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.events import Event

log = logging.getLogger("flink_agents_py.observe")

_INPUT = InputEvent.EVENT_TYPE
_MOST_TEMPLATES = 1000
_NOT_IN_KIND = re.compile(r"[^A-Za-z0-9_.-]")


class EventLog:
    """An observer of runs that writes lines.

    Args:
        write: where lines go.
        subtask, attempt: of the operator, from 0.
        hold: so many lines are gathered before they are written; who wants them earlier calls :meth:`flush`, from any
            thread.
    """

    whole_runs = False
    """The lines of their events say all."""

    def __init__(
        self,
        config: AgentConfiguration,
        agent: str,
        write: Write,
        clock: Clock,
        *,
        subtask: int = 0,
        attempt: int = 0,
        hold: int = 1,
    ) -> None:
        self.failures = 0
        """Lines that could not be made or written."""
        self.shows_plans = False
        """Whether runs may be under different plans, and their lines say which."""
        self._truncated = 0
        self._clock = clock
        self._stamp = Stamps(clock).at
        self._monotonic = clock.monotonic_s
        self._levels = Levels(config)
        self._level_of = self._levels.of
        self._mixed = self._levels.mixed
        self._input_level = self._level_of(_INPUT)
        limits = (
            config.get(AgentOptions.EVENT_LOG_MAX_STRING_LENGTH),
            config.get(AgentOptions.EVENT_LOG_MAX_ARRAY_ELEMENTS),
            config.get(AgentOptions.EVENT_LOG_MAX_DEPTH),
        )
        self._most_characters, self._most_items, _ = limits
        self._short = Shortener(*limits)
        self._whole = Shortener.endless()
        self._head = f',"agentName":{quote(agent)},"subtask":{subtask},"attempt":{attempt},"businessKey":'
        self._kinds: dict[str, EventKind] = {}
        self._input = EventKind(_INPUT, self._input_level, "input", self._short, mixed=self._mixed)
        output = OutputEvent.EVENT_TYPE
        self._output = EventKind(output, self._level_of(output), "output", self._short, mixed=self._mixed)
        self._row: type | None = None  # PyFlink's, once one has come
        self._templates: dict[tuple[str, str, str, int, int], tuple[str, str]] = {}
        self._held = HeldLines(write, clock, Shortener(*limits), self._failed)
        self._lines = self._held.lines
        self._hold = hold

    @property
    def truncated(self) -> int:
        """Lines of which something was cut."""
        return self._truncated + self._held.truncated

    def flush(self) -> None:
        """Write what is held back."""
        self._held.flush()

    # --- what the engine tells ------------------------------------------------------------------------------------

    def run_began(self, run: Run, *, resumed: bool) -> None:
        # What lines say of the run is put together with them later, where it is a quick key and a number and no more.
        if resumed or self.shows_plans or type(run.key) not in QUICK:
            now = self._monotonic()
            try:
                run.observed = (now, self._about(run, resumed=resumed), resumed)
            except Exception as error:  # noqa: BLE001 - see _failed
                self._failed(error)
                run.observed = (now, f'{self._head}"<not shown>","sequence":{run.sequence}', resumed)

    def _about(self, run: Run, *, resumed: bool = False) -> str:
        key = run.key
        text = quote(key) if type(key) is str else dumps(self._short.plain(key))
        about = f'{self._head}{text},"sequence":{run.sequence}'
        if self.shows_plans:
            about += f',"planVersion":"{run.version.digest}"'
        return f'{about},"inputRunId":"{run.id_bytes.hex()}"' if resumed else about

    def run_suspended(self, run: Run) -> None:
        self._run("suspended", run)

    def run_ended(self, run: Run) -> None:
        # A run that began and ended in one callback is one whose actions have ended: no line says it again.
        if run.entry is not None:
            self._run("finished", run)

    def _run(self, outcome: str, run: Run) -> None:
        if self._input_level == OFF:
            return
        try:
            prefix = self._prefix(run)
            began, _, resumed = run.observed
            now = self._monotonic()
            more = ',"resumed":true' if resumed else ""
            self._write(
                f'{self._stamp(now)}run{LEVEL_TEXTS[self._input_level]}{prefix},"outcome":"{outcome}",'
                f'"ms":{(now - began) * 1000:.3f}{more}}}',
                run,
            )
        except Exception as error:  # noqa: BLE001
            self._failed(error)

    def event(  # noqa: C901, PLR0912, PLR0915 - one frame for what is done for each record
        self, run: Run, event: Event, ended: ActionTask | None = None, begins: ActionTask | None = None
    ) -> None:
        try:
            cls = type(event)
            values = event.__dict__
            if cls is InputEvent:
                kind = self._input
                shown = values["attributes"]["input"]
            elif cls is OutputEvent:
                kind = self._output
                shown = values["attributes"]["output"]
            else:
                kind = self._kinds.get(event.type) or self._kind_of(event.type)
                shown = event
            now = self._monotonic()
            origin = values.get("_origin")
            began = run.observed
            if began is None:
                if self.shows_plans or type(run.key) not in QUICK:
                    self.run_began(run, resumed=False)
                    began = run.observed
                else:
                    run.observed = now
            if not kind.quick or type(began) is tuple or origin is None:
                self._event_at_once(run, event, kind, shown, now, ended, begins)
                return
            # The values as they are now: the action may change them before the line is made. Long ones are not kept.
            cls = type(shown)
            end = ""
            items: Any
            if cls is self._row:
                fields = shown.__dict__
                items = fields["_values"]
            elif cls is dict:
                items = shown.values()
            elif cls is list or cls is tuple:
                items = shown
            else:
                items = (shown,)
            if len(items) <= self._most_items:
                most = self._most_characters
                for item in items:
                    of = type(item)
                    if of is str:
                        if len(item) > most:
                            break
                    elif of is not int:
                        break
                else:
                    if cls is self._row:
                        names = fields.get("_fields")
                        if names and names == kind.names and len(names) == len(items):
                            end = kind.names_end
                        else:
                            end = kind.end_of_row(names, len(items))
                    elif cls is dict:
                        end = kind.end_of((*shown,))
                    elif items is shown:
                        end = kind.end_of(len(items))
                    else:
                        end = kind.end
            if not end:
                items = (Json(self._text(kind, shown)),)
                end = kind.end
            parent, action, ordinal = origin
            upstream = (parent.__dict__.get("_path") or path_of(parent)) if action else ""
            place = end, upstream, action, ordinal, -1 if ended is None else len(ended.sent)
            path, template = self._templates.get(place) or self._template_of(kind, *place)
            if begins is not None:
                values["_path"] = path
                begins.observed = now
            lines = self._lines
            if ended is None:
                lines.append((template, now, run.key, run.sequence, *items))
            else:
                lines.append((template, now, run.key, run.sequence, (now - ended.observed) * 1000, *items))
            if len(lines) >= self._hold:
                self._held.flush(run)
        except Exception as error:  # noqa: BLE001
            self._failed(error)
            if ended is not None:
                self.action_ended(ended, "finished")
            if begins is not None:
                self.action_began(begins)

    def _kind_of(self, event_type: str) -> EventKind:
        level = self._level_of(event_type)
        kind = self._kinds[event_type] = EventKind(event_type, level, "", self._short, mixed=self._mixed)
        return kind

    def _text(self, kind: EventKind, shown: Any) -> str:
        """What an event shows at ``STANDARD``, as JSON."""
        short = self._short
        text = kind.shown(shown, short)
        self._row = short.row
        if short.cut:
            short.cut = False
            self._truncated += 1
        return text

    def _template_of(
        self, kind: EventKind, end: str, upstream: str, action: str, ordinal: int, sent: int
    ) -> tuple[str, str]:
        """Path of an event, and how its line is made. Runs of an agent have the same."""
        path, lineage = lineage_of(upstream, action, ordinal)
        head, lineage = (text.replace("%", "%%") for text in (kind.head + self._head, lineage))
        ended = f'{ENDED}{sent},"ms":%.3f}}' if sent >= 0 else ""
        if len(self._templates) >= _MOST_TEMPLATES:
            self._templates.clear()
        known = path, f'%s{head}%s,"sequence":%s{ID}{lineage}{ended}{end}'
        self._templates[end, upstream, action, ordinal, sent] = known
        return known

    def _event_at_once(
        self,
        run: Run,
        event: Event,
        kind: EventKind,
        shown: Any,
        now: float,
        ended: ActionTask | None,
        begins: ActionTask | None,
    ) -> None:
        """The line of an event that has more to say than most, or of one among several levels."""
        if ended is not None and self._mixed and kind.level != self._level_of(ended.event.type):
            self.action_ended(ended, "finished")
            ended = None
        if kind.level == OFF:
            return
        text = self._text(kind, shown) if kind.level == STANDARD else kind.shown(shown, self._whole)
        values = event.__dict__
        origin = values.get("_origin")
        if origin is None:
            lineage = recorded_lineage(event)
        else:
            parent, action, ordinal = origin
            values["_path"], lineage = lineage_of(path_of(parent) if action else "", action, ordinal)
        if kind.level == VERBOSE:
            lineage += f',"eventUuid":"{event.id}"'
        if begins is not None:
            begins.observed = now
        if ended is not None:
            lineage += f'{ENDED}{len(ended.sent)},"ms":{(now - ended.observed) * 1000:.3f}}}'
        self._write(f"{self._stamp(now)}{kind.head}{self._prefix(run)}{ID}{lineage}{kind.tail}{text}}}}}", run)

    def action_began(self, task: ActionTask) -> None:
        task.observed = now = self._monotonic()
        if task.journal is not None:
            task.observed = (now, True)

    def action_ended(self, task: ActionTask, outcome: str, error: BaseException | None = None) -> None:
        event = task.event
        level = self._level_of(event.type)
        if level == OFF:
            return
        try:
            more = f',"sent":{len(task.sent)}' if task.sent else ""
            now = self._monotonic()
            if outcome == "recalled":
                more += ',"replayed":true'
            else:
                resumed = type(task.observed) is tuple
                began = task.observed[0] if resumed else task.observed
                more += f',"ms":{(now - began) * 1000:.3f}'
                if resumed:
                    more += ',"resumed":true'
            if error is not None:
                more += f',"error":{self._error(error, level)}'
            self._write(
                f'{self._stamp(now)}action{LEVEL_TEXTS[level]}{self._prefix(task.run)},"actionName":'
                f"{quote(task.route.name)}{ID}"
                f'{event.__dict__.get("_path") or path_of(event)}","eventType":{quote(event.type)},'
                f'"outcome":"{outcome}"{more}}}',
                task.run,
            )
        except Exception as problem:  # noqa: BLE001
            self._failed(problem)

    def call_attempted(self, call: DurableCall) -> None:
        if self._level_of(call.task.event.type) == VERBOSE:
            self._call("attempt", call, f',"attempts":{call.record.attempts}')

    def call_retried(self, call: DurableCall, error: BaseException, delay_s: float) -> None:
        if self._level_of(call.task.event.type) != OFF:
            failure = self._error(error, STANDARD)
            self._call(
                "retry", call, f',"attempts":{call.record.attempts},"delayMs":{delay_s * 1000:.0f},"error":{failure}'
            )

    def call_ended(self, call: DurableCall, *, replayed: bool) -> None:
        level = self._level_of(call.task.event.type)
        if level == OFF:
            return
        record = call.record
        more = f',"outcome":"{"raised" if record.status == RAISED else "returned"}","attempts":{record.attempts}'
        if replayed:
            more += ',"replayed":true'
        elif record.started_ms:
            more += f',"ms":{self._clock.now_ms() - record.started_ms}'
        if call.error is not None:
            more += f',"error":{self._error(call.error, level)}'
        if level == VERBOSE:
            more += f',"arguments":{self._plain([list(call.args), call.kwargs])},"result":{self._plain(call.value)}'
        self._call("call", call, more)

    def noted(self, task: ActionTask, kind: str, fields: dict[str, Any]) -> None:
        level = self._level_of(task.event.type)
        if level == OFF:
            return
        try:
            short = self._short if level == STANDARD else self._whole
            body = dumps(short.attributes(fields))
            self._line(_NOT_IN_KIND.sub("_", kind), level, f',"fields":{body}', task)
        except Exception as error:  # noqa: BLE001
            self._failed(error)

    # --- lines ------------------------------------------------------------------------------------------------------

    def _call(self, kind: str, call: DurableCall, body: str) -> None:
        try:
            task = call.task
            function = f',"call":{call.ordinal},"function":{quote(call.record.function)}'
            level = self._level_of(task.event.type)
            self._line(kind, level, f"{function}{body}", task)
        except Exception as error:  # noqa: BLE001
            self._failed(error)

    def _line(self, kind: str, level: int, body: str, task: ActionTask) -> None:
        prefix = self._prefix(task.run)
        line = f"{self._stamp(self._monotonic())}{kind}{LEVEL_TEXTS[level]}{prefix}{place_of(task)}{body}}}"
        self._write(line, task.run)

    def _write(self, line: str, run: Run) -> None:
        lines = self._lines
        lines.append(line)
        if len(lines) >= self._hold:
            self._held.flush(run)

    def _prefix(self, run: Run) -> str:
        """What a line says of the run, between its level and what it is about."""
        if type(run.observed) is not tuple:
            began = self._monotonic() if run.observed is None else run.observed
            run.observed = (began, self._about(run), False)
        return str(run.observed[1])

    def _plain(self, value: Any) -> str:
        try:
            return dumps(self._whole.plain(value))
        except Exception as error:  # noqa: BLE001 - a value that cannot be shown leaves the rest of the line
            return quote(f"<not shown: {type(error).__name__}>")

    def _error(self, error: BaseException, level: int) -> str:
        message = self._short.plain(message_of(error))
        self._short.cut = False
        fields = {"code": code_of(error), "type": f"{type(error).__module__}.{type(error).__qualname__}"}
        if level == VERBOSE:
            fields["traceback"] = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        return dumps(self._whole.plain({**fields, "message": message}))

    def _failed(self, error: BaseException) -> None:
        """Watching must not fail what it watches: a line that cannot be made or written is counted (and told once)."""
        self.failures += 1
        if self.failures == 1:
            log.warning("a line of the event log could not be written; further ones are only counted: %r", error)
