"""Puts together what one attempt of one subtask is watched with, as its options say."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentOptions
from flink_agents_py.observe.destinations import HOLD, FileDestination, LoggerDestination, SideOutput, file_of
from flink_agents_py.observe.event_log import EventLog
from flink_agents_py.observe.levels import Levels

if TYPE_CHECKING:
    from flink_agents_py.config import AgentConfiguration
    from flink_agents_py.engine.calls import DurableCall
    from flink_agents_py.engine.engine import Engine
    from flink_agents_py.engine.ports import Clock, RunObserver
    from flink_agents_py.engine.run import Run
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.events import Event
    from flink_agents_py.plan.plan import AgentPlan


def logs_events(config: AgentConfiguration) -> bool:
    """Whether there is an event log at all.

    Raises:
        ConfigError: a level is none.
    """
    return Levels(config).any


def side_output_of_log(config: AgentConfiguration) -> bool:
    """Whether its lines leave the operator in a side output.

    Raises:
        ConfigError: a level is none.
    """
    return bool(logs_events(config) and config.get(AgentOptions.EVENT_LOG_SIDE_OUTPUT))


class Observation:
    """Event log and spans of one attempt of one subtask; :attr:`observer` is ``None`` if neither is wanted.

    Args:
        submission: the same in all attempts of an operator, another one for each time the job is submitted.
    """

    def __init__(
        self, plan: AgentPlan, clock: Clock, *, submission: str = "local", subtask: int = 0, attempt: int = 0
    ) -> None:
        config = plan.config
        self.log: EventLog | None = None
        self._destination: FileDestination | LoggerDestination | SideOutput | None = None
        observers: list[RunObserver] = []
        if logs_events(config):
            self._destination = _destination(config, plan.agent_name, submission, subtask)
        if self._destination is not None:
            destination = self._destination
            hold = HOLD if isinstance(destination, FileDestination) else 1
            self.log = EventLog(
                config, plan.agent_name, destination.write, clock, subtask=subtask, attempt=attempt, hold=hold
            )
            if isinstance(destination, FileDestination):
                destination.pull = self.log.flush
            observers.append(self.log)
        if config.get(AgentOptions.OTEL_SPANS):
            from flink_agents_py.observe.otel import SpanObserver

            observers.append(SpanObserver(plan.agent_name, subtask=subtask, attempt=attempt))
        self.observer = observers[0] if len(observers) == 1 else _Several(observers) if observers else None

    def attach(self, engine: Engine) -> None:
        """Give the side output its way out, and tell the log whether there will be several plans."""
        if self.log is not None:
            self.log.shows_plans = engine.updates is not None
        if isinstance(self._destination, SideOutput):
            self._destination.effects = engine.effects

    @property
    def write_failures(self) -> int:
        """Lines of the event log that could not be made or written."""
        if self.log is None or self._destination is None:
            return 0
        return self.log.failures + self._destination.failures

    def close(self) -> None:
        """Write what is held back."""
        with suppress(Exception):  # it must not hide why the job ends
            if self._destination is not None:
                self._destination.close()


def _destination(
    config: AgentConfiguration, agent: str, submission: str, subtask: int
) -> FileDestination | LoggerDestination | SideOutput | None:
    kind = config.get(AgentOptions.EVENT_LOG_DESTINATION)
    chosen: FileDestination | LoggerDestination | None = None
    if kind == "file":
        chosen = FileDestination(
            file_of(config.get(AgentOptions.EVENT_LOG_DIRECTORY), agent, submission, subtask),
            max_bytes=config.get(AgentOptions.EVENT_LOG_MAX_FILE_SIZE),
            keep=config.get(AgentOptions.EVENT_LOG_MAX_FILES),
        )
    elif kind == "logger":
        chosen = LoggerDestination()
    return SideOutput(chosen) if config.get(AgentOptions.EVENT_LOG_SIDE_OUTPUT) else chosen


class _Several:
    """Observers one after the other."""

    def __init__(self, observers: list[RunObserver]) -> None:
        self._observers = observers
        self.whole_runs = any(observer.whole_runs for observer in observers)

    def run_began(self, run: Run, *, resumed: bool) -> None:
        for observer in self._observers:
            observer.run_began(run, resumed=resumed)

    def run_suspended(self, run: Run) -> None:
        for observer in self._observers:
            observer.run_suspended(run)

    def run_ended(self, run: Run) -> None:
        for observer in self._observers:
            observer.run_ended(run)

    def event(self, run: Run, event: Event, ended: ActionTask | None = None, begins: ActionTask | None = None) -> None:
        for observer in self._observers:
            observer.event(run, event, ended, begins)

    def action_began(self, task: ActionTask) -> None:
        for observer in self._observers:
            observer.action_began(task)

    def action_ended(self, task: ActionTask, outcome: str, error: BaseException | None = None) -> None:
        for observer in self._observers:
            observer.action_ended(task, outcome, error)

    def call_attempted(self, call: DurableCall) -> None:
        for observer in self._observers:
            observer.call_attempted(call)

    def call_retried(self, call: DurableCall, error: BaseException, delay_s: float) -> None:
        for observer in self._observers:
            observer.call_retried(call, error, delay_s)

    def call_ended(self, call: DurableCall, *, replayed: bool) -> None:
        for observer in self._observers:
            observer.call_ended(call, replayed=replayed)

    def noted(self, task: ActionTask, kind: str, fields: dict[str, Any]) -> None:
        for observer in self._observers:
            observer.noted(task, kind, fields)
