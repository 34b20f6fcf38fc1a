"""The event log: what runs did, as JSON lines.

Five kinds of lines: ``event`` (one is handled), ``action`` (one has ended), ``call`` (a durable call has its outcome),
``retry``, ``run`` (one has ended); at ``VERBOSE`` also ``attempt``, and whatever ``ctx.observe`` adds. Each has the
run, key and sequence it belongs to, and the attempt of the job. Names are those of Apache Flink Agents' event log where
it has the same thing. The level of a line is that of the event type it is about.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.failures import message_of
from flink_agents_py.engine.journal import RAISED
from flink_agents_py.engine.stats import code_of
from flink_agents_py.events import InputEvent, OutputEvent
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

_INPUT, _OUTPUT = InputEvent.EVENT_TYPE, OutputEvent.EVENT_TYPE


class EventLog:
    """An observer of runs that writes lines.

    Args:
        write: where lines go.
        subtask, attempt: of the operator, from 0.
    """

    def __init__(
        self, config: AgentConfiguration, agent: str, write: Write, clock: Clock, *, subtask: int = 0, attempt: int = 0
    ) -> None:
        self.lines = 0
        self.truncated = 0
        """Lines of which something was cut."""
        self.failures = 0
        """Lines that could not be made or written."""
        self._write = write
        self._clock = clock
        self._monotonic = clock.monotonic_s
        self._levels = Levels(config)
        self._level_of = self._levels.of
        self._input_level = self._level_of(_INPUT)
        self._short = Shortener(
            config.get(AgentOptions.EVENT_LOG_MAX_STRING_LENGTH),
            config.get(AgentOptions.EVENT_LOG_MAX_ARRAY_ELEMENTS),
            config.get(AgentOptions.EVENT_LOG_MAX_DEPTH),
        )
        self._whole = Shortener.endless()
        self._head = f',"agentName":{quote(agent)},"subtask":{subtask},"attempt":{attempt},"inputRunId":"'
        self._second = -1
        self._second_text = ""

    # --- what the engine tells ------------------------------------------------------------------------------------

    def run_began(self, run: Run, *, resumed: bool) -> None:
        try:
            key = run.key
            text = quote(key) if type(key) is str else dumps(self._short.plain(key))
            prefix = f'{self._head}{run.id_bytes.hex()}","businessKey":{text},"sequence":{run.sequence}'
            run.observed = (self._monotonic(), prefix, resumed)
        except Exception as error:  # noqa: BLE001 - see _failed
            self._failed(error)

    def run_ended(self, run: Run) -> None:
        if self._input_level == OFF:
            return
        try:
            began, prefix, resumed = run.observed
            more = ',"resumed":true' if resumed else ""
            self._line("run", self._input_level, prefix, f',"ms":{(self._monotonic() - began) * 1000:.3f}{more}', run)
        except Exception as error:  # noqa: BLE001
            self._failed(error)

    def event(self, run: Run, event: Event) -> None:
        event_type = event.type
        level = self._level_of(event_type)
        if level == OFF:
            return
        try:
            short = self._short if level == STANDARD else self._whole
            attributes = dumps(short.attributes(event.all_attributes()))
            lineage = ""
            if event_type != _INPUT:
                upstream, action = event.upstream_event_id, event.upstream_action_name
                if upstream is not None and action is not None:
                    lineage = f',"upstreamEventId":"{upstream.hex}","upstreamActionName":{quote(action)}'
            body = (
                f',"eventId":"{event.id_bytes.hex()}","eventType":{quote(event_type)}{lineage},'
                f'"eventAttributes":{attributes}'
            )
            if short.cut:
                short.cut = False
                self.truncated += 1
            self._line("event", level, run.observed[1], body, run)
        except Exception as error:  # noqa: BLE001
            self._failed(error)

    def action_began(self, task: ActionTask) -> None:
        task.observed = (self._monotonic(), task.journal is not None)

    def action_ended(self, task: ActionTask, outcome: str, error: BaseException | None = None) -> None:
        level = self._level_of(task.event.type)
        if level == OFF:
            return
        try:
            began, resumed = getattr(task, "observed", (None, False))
            more = "" if began is None else f',"ms":{(self._monotonic() - began) * 1000:.3f}'
            if resumed:
                more += ',"resumed":true'
            if error is not None:
                more += f',"error":{self._error(error, level)}'
            elif task.sent:
                more += f',"sent":{len(task.sent)}'
            self._line("action", level, task.run.observed[1], f'{self._of(task)},"outcome":"{outcome}"{more}', task.run)
        except Exception as problem:  # noqa: BLE001
            self._failed(problem)

    def call_attempted(self, call: DurableCall) -> None:
        if self._level_of(call.task.event.type) == VERBOSE:
            self._call("attempt", call, f',"attempts":{call.record.attempts}')

    def call_retried(self, call: DurableCall, error: BaseException, delay_s: float) -> None:
        if self._level_of(call.task.event.type) != OFF:
            failure = self._error(error, STANDARD)
            self._call("retry", call, f',"attempts":{call.record.attempts},"delayMs":{delay_s * 1000:.0f},"error":{failure}')

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
            self._line(kind, level, task.run.observed[1], f'{self._of(task)},"fields":{body}', task.run)
        except Exception as error:  # noqa: BLE001
            self._failed(error)

    # --- lines ------------------------------------------------------------------------------------------------------

    def _call(self, kind: str, call: DurableCall, body: str) -> None:
        try:
            task = call.task
            function = f',"call":{call.ordinal},"function":{quote(call.record.function)}'
            level = self._level_of(task.event.type)
            self._line(kind, level, task.run.observed[1], f"{self._of(task)}{function}{body}", task.run)
        except Exception as error:  # noqa: BLE001
            self._failed(error)

    def _line(self, kind: str, level: int, prefix: str, body: str, run: Run) -> None:
        second, ms = divmod(self._clock.now_ms(), 1000)
        if second != self._second:
            self._second = second
            self._second_text = datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        self._write(
            f'{{"timestamp":"{self._second_text}.{ms:03d}Z","kind":"{kind}","logLevel":"{NAMES[level]}"{prefix}{body}}}',
            run,
        )
        self.lines += 1

    @staticmethod
    def _of(task: ActionTask) -> str:
        event = task.event
        return (
            f',"actionName":{quote(task.route.name)},"eventId":"{event.id_bytes.hex()}","eventType":{quote(event.type)}'
        )

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
