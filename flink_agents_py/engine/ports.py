"""What the engine needs from its host, as small protocols.

The same engine runs on Flink keyed state, on dictionaries (``local``) and under a virtual clock (``testing``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from flink_agents_py.engine.calls import DurableCall
    from flink_agents_py.engine.run import Run
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.events import Event


class ValuePort(Protocol):
    """One value under the current key."""

    def get(self) -> Any: ...  # None when absent

    def put(self, value: Any) -> None: ...

    def clear(self) -> None: ...


class MapPort(Protocol):
    """A map of text to text under the current key."""

    def get(self, key: str) -> str | None: ...

    def put(self, key: str, value: str) -> None: ...

    def remove(self, key: str) -> None: ...

    def keys(self) -> Iterable[str]: ...


class KeyedState(Protocol):
    """All state of one key. The names in the comments are the state names of the savepoint contract."""

    sequence: ValuePort  # agent.seq: int, twice the last sequence number, plus one while a run is unfinished
    run: ValuePort  # agent.run: text, the suspended run
    pending: MapPort  # agent.pending: arrival number -> waiting input
    memory: MapPort  # agent.stm: path -> item

    # Asked for only where the plan has external actions:
    @property
    def idem(self) -> MapPort:
        """agent.idem: idempotency key -> success that is remembered."""

    @property
    def audit(self) -> MapPort:
        """agent.audit: the last calls of external actions."""


class KeyScope(Protocol):
    """The key that state and timers refer to."""

    def current(self) -> Any:
        """An opaque handle of the current key, good for :meth:`switch` later in the same attempt."""

    def switch(self, handle: Any) -> None: ...


class Moment(Protocol):
    """Event time of the input that is being processed, asked for only if somebody needs it."""

    def timestamp(self) -> int | None: ...

    def watermark(self) -> int | None: ...


class Timers(Protocol):
    """Timers under the current key; timestamps in ms since the epoch."""

    def processing_time(self, timestamp: int) -> None: ...

    def event_time(self, timestamp: int) -> None: ...

    def delete_event_time(self, timestamp: int) -> None: ...


class Clock(Protocol):
    """Processing time."""

    def now_ms(self) -> int: ...

    def monotonic_s(self) -> float:
        """For time budgets only; never stored."""


Completion = tuple[int, BaseException | None, Any]
"""Call number, error (or None), result."""


class CallExecutor(Protocol):
    """Runs calls off the operator thread. Numbers are the engine's and unique within an attempt."""

    threads: int
    """How many threaded calls it can run at once."""
    real_time: bool
    """Whether its calls take time by the clock on the wall; under a virtual clock they do not."""

    def submit(
        self, number: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, threaded: bool
    ) -> None:
        """Start a call: on a thread, or (``func`` is a coroutine function) on the asyncio loop."""

    def cancel(self, number: int) -> None:
        """Ask the call to stop. Its completion still arrives: only then has it let go of its thread or task."""

    def background(self, job: Callable[[Callable[[], bool]], None]) -> None:
        """Run what nobody waits for off the operator thread; it is given a function that says whether it shall stop."""

    def completions(self) -> list[Completion]:
        """What has finished since the last call, in order of finishing; never blocks."""

    def wait(self, timeout_s: float) -> None:
        """Block until a completion is there, or until the timeout."""


class RunObserver(Protocol):
    """Is told what runs do, while they do it: event log, spans. It must not raise, and changes nothing.

    An engine without one pays an attribute test at each of these places.
    """

    whole_runs: bool
    """Whether it is told of the beginning and end of runs that begin and end in one callback, as most do."""

    def run_began(self, run: Run, *, resumed: bool) -> None: ...

    def run_suspended(self, run: Run) -> None:
        """It did not end in the callback it began in."""

    def run_ended(self, run: Run) -> None: ...

    def event(self, run: Run, event: Event, ended: ActionTask | None = None, begins: ActionTask | None = None) -> None:
        """An event is handled; outputs are events too.

        Args:
            ended: the action that sent it, if that has ``finished`` a moment ago; :meth:`action_ended` does not say so.
            begins: the action that handles it, if it is about to run; :meth:`action_began` does not say so.
        """

    def action_began(self, task: ActionTask) -> None:
        """Its body is about to run, for the first time in this attempt of the job."""

    def action_ended(self, task: ActionTask, outcome: str, error: BaseException | None = None) -> None:
        """``finished``, ``recalled`` (its effects came from the store), ``failed``, ``skipped`` or ``dead-letter``."""

    def call_attempted(self, call: DurableCall) -> None: ...

    def call_retried(self, call: DurableCall, error: BaseException, delay_s: float) -> None: ...

    def call_ended(self, call: DurableCall, *, replayed: bool) -> None:
        """It has its outcome; ``replayed`` from the journal."""

    def noted(self, task: ActionTask, kind: str, fields: dict[str, Any]) -> None:
        """What an action says of itself: ``ctx.observe``."""
