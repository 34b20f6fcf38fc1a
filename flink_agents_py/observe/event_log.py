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
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.failures import message_of
from flink_agents_py.engine.journal import RAISED
from flink_agents_py.engine.stats import code_of
from flink_agents_py.events import InputEvent, OutputEvent
from flink_agents_py.observe.destinations import FLUSH_LINES
from flink_agents_py.observe.levels import NAMES, OFF, STANDARD, VERBOSE, Levels
from flink_agents_py.observe.shorten import Shortener
from flink_agents_py.serde.text import dumps, quote

if TYPE_CHECKING:
    from flink_agents_py.config import AgentConfiguration
    from flink_agents_py.engine.calls import DurableCall
    from flink_agents_py.engine.ports import Clock
    from flink_agents_py.engine.run import Run
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.events import Event

log = logging.getLogger("flink_agents_py.observe")

Write = Callable[[str, "Run"], None]
"""Takes a line without its line feed; may raise, which is counted."""

_INPUT = InputEvent.EVENT_TYPE
_LEVELS = tuple(f'","logLevel":"{name}"' for name in NAMES)
_ID = ',"eventId":"'
_FIRST = "0", '0"'  # path and lineage of an input
_ENDED = ',"upstreamAction":{"outcome":"finished","sent":'
_MOST_LINEAGES = 1000
_NOT_IN_KIND = re.compile(r"[^A-Za-z0-9_.-]")


class EventLog:
    """An observer of runs that writes lines.

    Args:
        write: where lines go.
        subtask, attempt: of the operator, from 0.
        lines: to put them into without asking ``write``, as long as there are fewer than :data:`FLUSH_LINES` in it.
    """

    def __init__(
        self,
        config: AgentConfiguration,
        agent: str,
        write: Write,
        clock: Clock,
        *,
        subtask: int = 0,
        attempt: int = 0,
        lines: list[str] | None = None,
    ) -> None:
        self.truncated = 0
        """Lines of which something was cut."""
        self.failures = 0
        """Lines that could not be made or written."""
        self.shows_plans = False
        """Whether runs may be under different plans, and their lines say which."""
        self._write = write
        self._lines = lines
        self._clock = clock
        self._monotonic = clock.monotonic_s
        self._levels = Levels(config)
        self._level_of = self._levels.of
        self._mixed = self._levels.mixed
        self._input_level = self._level_of(_INPUT)
        self._short = Shortener(
            config.get(AgentOptions.EVENT_LOG_MAX_STRING_LENGTH),
            config.get(AgentOptions.EVENT_LOG_MAX_ARRAY_ELEMENTS),
            config.get(AgentOptions.EVENT_LOG_MAX_DEPTH),
        )
        self._whole = Shortener.endless()
        self._head = f',"agentName":{quote(agent)},"subtask":{subtask},"attempt":{attempt},"businessKey":'
        self._parts: dict[str, tuple[int, str, str]] = {}
        self._input = self._parts_of(_INPUT, '"input":')
        self._output = self._parts_of(OutputEvent.EVENT_TYPE, '"output":')
        self._lineages: dict[tuple[str, str, int], tuple[str, str]] = {}
        self._offset_ms = 0
        self._second = -1
        self._stamp_end = 0.0  # of the millisecond that the text is about
        self._stamp_text = ""
        self._second_text = ""

    # --- what the engine tells ------------------------------------------------------------------------------------

    def run_began(self, run: Run, *, resumed: bool) -> None:
        try:
            key = run.key
            text = quote(key) if type(key) is str else dumps(self._short.plain(key))
            prefix = f'{self._head}{text},"sequence":{run.sequence}'
            if self.shows_plans:
                prefix += f',"planVersion":"{run.version.digest}"'
            if resumed:
                prefix += f',"inputRunId":"{run.id_bytes.hex()}"'
            run.observed = (self._monotonic(), prefix, resumed)
        except Exception as error:  # noqa: BLE001 - see _failed
            self._failed(error)

    def run_suspended(self, run: Run) -> None:
        if self._input_level != OFF:
            self._run("suspended", run)

    def run_ended(self, run: Run) -> None:
        # A run that began and ended in one callback is one whose actions have ended: no line says it again.
        if self._input_level != OFF and (run.entry is not None or run.observed[2]):
            self._run("finished", run)

    def _run(self, outcome: str, run: Run) -> None:
        try:
            began, prefix, resumed = run.observed
            now = self._monotonic()
            more = ',"resumed":true' if resumed else ""
            self._write(
                f'{self._stamp(now)}run{_LEVELS[self._input_level]}{prefix},"outcome":"{outcome}",'
                f'"ms":{(now - began) * 1000:.3f}{more}}}',
                run,
            )
        except Exception as error:  # noqa: BLE001
            self._failed(error)

    def event(  # noqa: C901, PLR0912 - one frame for what is done for each record
        self, run: Run, event: Event, ended: ActionTask | None = None, begins: ActionTask | None = None
    ) -> None:
        cls = type(event)
        if cls is InputEvent:
            level, head, tail = self._input
            name = "input"
        elif cls is OutputEvent:
            level, head, tail = self._output
            name = "output"
        else:
            level, head, tail = self._parts.get(event.type) or self._parts_of(event.type)
            name = ""
        if ended is not None and self._mixed and level != self._level_of(ended.event.type):
            self.action_ended(ended, "finished")
            ended = None
        if level == OFF:
            return
        try:
            short = self._short if level == STANDARD else self._whole
            values = event.__dict__
            if name:
                shown = short.text(values["attributes"][name], 1)
            else:
                shown = dumps(short.attributes(event.all_attributes()))[1:-1]
            origin = values.get("_origin")
            if origin is None:
                lineage = _recorded_lineage(event)
            elif origin[1]:
                parent, action, ordinal = origin
                place = parent.__dict__.get("_path") or path_of(parent), action, ordinal
                values["_path"], lineage = self._lineages.get(place) or self._lineage_of(place)
            else:
                ordinal = origin[2]
                values["_path"], lineage = (str(ordinal), f'{ordinal}"') if ordinal else _FIRST
            if level == VERBOSE:
                lineage += f',"eventUuid":"{event.id}"'
            if short.cut:
                short.cut = False
                self.truncated += 1
            now = self._monotonic()
            stamp = self._stamp_text if now < self._stamp_end else self._stamp(now)
            if begins is not None:
                begins.observed = (now, False)
            if ended is None:
                line = f"{stamp}{head}{run.observed[1]}{_ID}{lineage}{tail}{shown}}}}}"
            else:
                line = (
                    f"{stamp}{head}{run.observed[1]}{_ID}{lineage}{_ENDED}{len(ended.sent)}"
                    f',"ms":{(now - ended.observed[0]) * 1000:.3f}}}{tail}{shown}}}}}'
                )
            lines = self._lines
            if lines is not None and len(lines) < FLUSH_LINES:
                lines.append(line)  # what the destination does, without its frame
            else:
                self._write(line, run)
        except Exception as error:  # noqa: BLE001
            self._failed(error)
            if ended is not None:
                self.action_ended(ended, "finished")
            if begins is not None:
                self.action_began(begins)

    def _parts_of(self, event_type: str, attribute: str = "") -> tuple[int, str, str]:
        """Level of an event type, and what its lines have in common."""
        level = self._level_of(event_type)
        parts = level, f"event{_LEVELS[level]}", f',"eventType":{quote(event_type)},"eventAttributes":{{{attribute}'
        if not attribute:
            self._parts[event_type] = parts
        return parts

    def _lineage_of(self, place: tuple[str, str, int]) -> tuple[str, str]:
        """Path of an event, and the path and what lines say of its origin. Runs of an agent have the same."""
        upstream, name, ordinal = place
        action = quote(name)
        path = f"{upstream}/{action[1:-1]}.{ordinal}"
        known = path, f'{path}","upstreamEventId":"{upstream}","upstreamActionName":{action}'
        if len(self._lineages) >= _MOST_LINEAGES:
            self._lineages.clear()
        self._lineages[place] = known
        return known

    def action_began(self, task: ActionTask) -> None:
        task.observed = (self._monotonic(), task.journal is not None)

    def action_ended(self, task: ActionTask, outcome: str, error: BaseException | None = None) -> None:
        event = task.event
        level = (self._parts.get(event.type) or self._parts_of(event.type))[0]
        if level == OFF:
            return
        try:
            more = f',"sent":{len(task.sent)}' if task.sent else ""
            now = self._monotonic()
            if outcome == "recalled":
                more += ',"replayed":true'
            else:
                began, resumed = task.observed
                more += f',"ms":{(now - began) * 1000:.3f}'
                if resumed:
                    more += ',"resumed":true'
            if error is not None:
                more += f',"error":{self._error(error, level)}'
            stamp = self._stamp_text if now < self._stamp_end else self._stamp(now)
            self._write(
                f'{stamp}action{_LEVELS[level]}{task.run.observed[1]},"actionName":{quote(task.route.name)}{_ID}'
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
        prefix = task.run.observed[1]
        self._write(f"{self._stamp(self._monotonic())}{kind}{_LEVELS[level]}{prefix}{_place(task)}{body}}}", task.run)

    def _stamp(self, monotonic: float) -> str:
        """The beginning of a line: the time, and the name of what follows it, ``kind``."""
        if monotonic < self._stamp_end:
            return self._stamp_text
        ms = int(monotonic * 1000)
        second, rest = divmod(ms + self._offset_ms, 1000)
        if second != self._second:
            self._offset_ms = self._clock.now_ms() - ms  # again each second, as the clock of the machine may be set
            second, rest = divmod(ms + self._offset_ms, 1000)
            self._second = second
            self._second_text = datetime.fromtimestamp(second, timezone.utc).strftime(
                '{"timestamp":"%Y-%m-%dT%H:%M:%S.'
            )
        self._stamp_end = (ms + 1) / 1000
        self._stamp_text = f'{self._second_text}{rest:03d}Z","kind":"'
        return self._stamp_text

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


def path_of(event: Event) -> str:
    """Where an event stands in its run; its id in hexadecimal, if it came back from state."""
    values = event.__dict__
    path: str | None = values.get("_path")
    if path is None:
        origin = values.get("_origin")
        if origin is None:
            path = event.id_bytes.hex()
        else:
            parent, action, ordinal = origin
            path = f"{path_of(parent)}/{quote(action)[1:-1]}.{ordinal}" if action else str(ordinal)
        values["_path"] = path
    return path


def _recorded_lineage(event: Event) -> str:
    upstream, action = event.upstream_event_id, event.upstream_action_name
    own = event.id_bytes.hex()
    if upstream is None or action is None:
        return f'{own}"'
    return f'{own}","upstreamEventId":"{upstream.hex}","upstreamActionName":{quote(action)}'


def _place(task: ActionTask) -> str:
    event = task.event
    return f',"actionName":{quote(task.route.name)},"eventId":"{path_of(event)}","eventType":{quote(event.type)}'
