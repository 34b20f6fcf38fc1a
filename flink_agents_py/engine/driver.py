"""The drive loop of one run: events become tasks, tasks are stepped, finished tasks apply their effects."""

from __future__ import annotations

import inspect
import logging
import re
from operator import length_hint
from typing import TYPE_CHECKING, Any

from flink_agents_py.engine.calls import DurableCall, Gathering
from flink_agents_py.engine.failures import dead_letter, failure_of, message_of
from flink_agents_py.engine.memory_observer import OBSERVATIONS
from flink_agents_py.engine.task import ActionTask, describe_awaitable
from flink_agents_py.engine.tracebacks import trim
from flink_agents_py.errors import AwaitError, JournalMismatchError, MissingActionError
from flink_agents_py.events import OutputEvent, active, encode_event

if TYPE_CHECKING:
    from flink_agents_py.engine.conditions import Conditions
    from flink_agents_py.engine.engine import Engine
    from flink_agents_py.engine.routes import Route
    from flink_agents_py.engine.run import Run
    from flink_agents_py.events import Event

log = logging.getLogger("flink_agents_py.engine")

DEAD_LETTERS = "dead-letters"

_OUTPUT = OutputEvent.EVENT_TYPE
_OUTCOMES = {"skip": "skipped", "dead_letter": "dead-letter"}
_NO_LOOP = re.compile("no (running|current) event loop")


class RunDriver:
    """Steps the tasks of runs; knows nothing of keys, state or timers."""

    __slots__ = (
        "_by_event",
        "_conditions",
        "_engine",
        "_monotonic",
        "_observer",
        "_recorder",
        "_warned",
        "_watch",
        "direct",
    )

    def __init__(self, engine: Engine, by_event: dict[str, list[Route]], conditions: Conditions | None = None) -> None:
        self._engine = engine
        self._by_event = by_event
        self._conditions = conditions
        self._monotonic = engine.monotonic_s
        self._observer = engine.observer
        self._recorder = engine.recorder
        self._watch = engine.watch
        self._warned: set[str] = set()
        self.direct = self._observer is None and self._recorder is None
        """Whether runs may begin with :meth:`start`."""

    def start(self, run: Run, event: Event, deadline: float) -> bool:  # noqa: C901, PLR0912, PLR0915 - one frame
        """:meth:`drive` for a run that begins with ``event`` and that nobody records.

        Most runs are a few actions that wait for nothing, one after the other. This is what :meth:`drive` does with
        those, in one frame and without queues. Whatever else an event or an action turns out to need is left to it.
        """
        engine = self._engine
        stats, outputs, slot, watch = engine.stats, engine.effects.outputs, engine.slot, self._watch
        conditions = self._conditions
        if watch is not None and watch.whole_runs:
            watch.run_began(run, resumed=False)
        ended: ActionTask | None = None  # the one that sent the event, if the observer has not been told of its end
        events = [event]
        coming = iter(events)  # sees what is appended
        stepped = False
        try:
            for event in coming:  # noqa: PLR1704 - the first one is among them
                event_type = event.type
                if event_type == _OUTPUT:
                    stats.events += 1
                    if watch is not None:
                        watch.event(run, event, ended)
                        ended = None
                    output = event.attributes["output"] if type(event) is OutputEvent else event.get_attr("output")
                    outputs.append((output, run))
                    continue
                routes = self._by_event.get(event_type) if conditions is None else conditions.routes(event, run)
                if routes is None:
                    stats.events += 1
                    if watch is not None:
                        watch.event(run, event, ended)
                        ended = None
                    self._unhandled(event)
                    continue
                late = stepped and self._monotonic() > deadline
                if late or len(routes) > 1:
                    if ended is not None and watch is not None:
                        watch.action_ended(ended, "finished")
                    if late:
                        run.open(event, *coming)
                        return False
                    run.open(*coming)
                    self._handle(run, event, routes)
                    return self.drive(run, deadline)
                stepped = True
                stats.events += 1
                route = routes[0]
                slot.source = task = ActionTask(engine, run, route, event)
                if watch is not None:
                    watch.event(run, event, ended, task)
                    ended = None
                try:
                    cls = route.event_class
                    typed = event if cls is None or isinstance(event, cls) else cls.from_event(event)
                    result = route.call(typed, task)
                    waits = result is not None and inspect.iscoroutine(result)
                    if waits:
                        task.coroutine = result
                        encode_event(event)  # as in _step
                    elif task.journal is None:
                        task.closed = True
                        task.commit_memory()
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001 - as in _step
                    self._fail(run, task, error)
                    continue
                if not task.closed:
                    run.open(*coming)
                    if waits:
                        self._step(run, task)
                    else:
                        self._finish_or_fail(run, task)
                    return self.drive(run, deadline)
                if watch is not None:
                    if task.sent and not length_hint(coming):  # what it sent is what comes next
                        ended = task
                    else:
                        watch.action_ended(task, "finished")
                events += task.sent
                if task.side_outputs:
                    side_outputs = engine.effects.side_outputs
                    for tag, value in task.side_outputs:
                        side_outputs.append((tag, value, run))
                stats.actions += 1
                route.executed += 1
        finally:
            slot.source = None
        return True

    def drive(self, run: Run, deadline: float) -> bool:
        """Move the run on until it is done, waits for calls, or the time budget of the callback is used up.

        Returns:
            whether the run is done. If not, and something is ready or queued, the budget was used up.
        """
        events, ready = run.events, run.ready
        if run.replaying:
            self._replay(run)
        stepped = False
        while True:
            while events and not ready:
                self._handle(run, events.popleft())
            if not ready:
                return not run.tasks
            if stepped and self._monotonic() > deadline:
                return False
            stepped = True
            self._step(run, ready.popleft())

    def _handle(self, run: Run, event: Event, routes: list[Route] | None = None) -> None:
        """Make tasks of an event, or an output; ``routes`` if it is known what it triggers."""
        engine = self._engine
        engine.stats.events += 1
        if self._watch is not None:
            self._watch.event(run, event)
        event_type = event.type
        if event_type == _OUTPUT:
            output = event.attributes["output"] if type(event) is OutputEvent else event.get_attr("output")
            engine.effects.outputs.append((output, run))
            return
        if routes is None:
            conditions = self._conditions
            routes = self._by_event.get(event_type) if conditions is None else conditions.routes(event, run)
        if routes is None:
            self._unhandled(event)
            return
        for route in routes:
            run.ready.append(ActionTask(engine, run, route, event))

    def _replay(self, run: Run) -> None:
        """Apply what actions did that had finished, in the order in which they had (S9).

        Where several of a run write one field, the last has it. All events are handled first: the next action in that
        order is then ready, as what sent its event had finished before it.
        """
        run.replaying = False
        while True:
            while run.events:
                self._handle(run, run.events.popleft())
            task = None if self._recorder is None else self._recorder.next_finished(run.ready)
            if task is None:
                return
            run.ready.remove(task)
            self._step(run, task)

    def _step(self, run: Run, task: ActionTask) -> None:
        """Start the task, or resume its coroutine, until it finishes, fails or suspends."""
        active.source = task
        try:
            coroutine = task.coroutine
            if coroutine is None:
                if self._recorder is not None and self._recorder.recall(task):
                    if self._engine.external is not None:
                        self._engine.external.recalled(task)
                    self._finish(run, task, recalled=True)
                    return
                route = task.route
                event = task.event
                if self._watch is not None:
                    self._watch.action_began(task)
                cls = route.event_class
                if cls is not None and not isinstance(event, cls):
                    event = cls.from_event(event)
                result = route.call(event, task)
                if result is None or not inspect.iscoroutine(result):
                    self._finish(run, task)
                    return
                coroutine = task.coroutine = result
                # As it is before the action runs: a replay must not begin with what the action made of it.
                encode_event(task.event)
            try:
                suspension = coroutine.send(None)
                while not self._suspend(run, task, suspension):
                    suspension = coroutine.throw(self._foreign(task, suspension))
            except StopIteration:
                self._finish(run, task)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit of a library must not leave the key stuck
            self._fail(run, task, error)
        finally:
            active.source = None

    def _suspend(self, run: Run, task: ActionTask, suspension: Any) -> bool:
        """Note what the task waits for; False if it is nothing the engine can wait for."""
        if not isinstance(suspension, (DurableCall, Gathering)) or suspension.task is not task:
            return False
        self._refuse_if_left(task)
        self._engine.start_calls(task)
        if suspension.done:
            run.ready.append(task)
        else:
            task.waiting_on = suspension
            run.tasks.append(task)
        return True

    def _foreign(self, task: ActionTask, awaited: Any) -> AwaitError:
        thing = "asyncio.sleep(0) or a bare yield" if awaited is None else describe_awaitable(awaited)
        return AwaitError(
            f"an action cannot wait for {thing}: there is no asyncio loop on the operator thread",
            where=task.place(),
            fix="await ctx.durable_execute_async(your_function, ...), ctx.gather(...) or ctx.sleep(seconds)",
        )

    def _refuse_if_left(self, task: ActionTask) -> None:
        """Raise again that the replay has left the journal: an ``except`` in the action may have hidden it."""
        if task.journal is not None and task.journal.left is not None:
            raise task.journal.left

    def _finish(self, run: Run, task: ActionTask, *, recalled: bool = False) -> None:
        self._refuse_if_left(task)
        if task.calls and self._engine.external is not None:
            self._engine.external.finish(task)
        if self._observer is not None:
            self._observer.observe(task)
        self._close(task, report=True)
        if self._recorder is not None and not recalled:
            self._recorder.finished(task)
        task.commit_memory()
        if self._watch is not None:  # not before: an action whose memory cannot be committed has failed
            self._watch.action_ended(task, "recalled" if recalled else "finished")
        if task.sent:
            run.events.extend(task.sent)
        if task.side_outputs:
            side_outputs = self._engine.effects.side_outputs
            for tag, value in task.side_outputs:
                side_outputs.append((tag, value, run))
        self._engine.stats.actions += 1
        task.route.executed += 1

    def _finish_or_fail(self, run: Run, task: ActionTask) -> None:
        try:
            self._finish(run, task)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - as in _step
            self._fail(run, task, error)

    def _close(self, task: ActionTask, *, report: bool) -> None:
        task.closed = True
        if task.calls:
            for call in task.calls:
                if report and not call.awaited:
                    self._engine.stats.never_awaited += 1
                    log.warning(
                        "the durable call %s was created and never awaited (%s); await it, or pass it to ctx.gather",
                        call.record.function,
                        task.place(),
                    )
                if not call.done:
                    self._engine.cancel_call(call)
        # What refers to each other is let go by hand: millions of runs must not wait for the garbage collector.
        task.calls = task.coroutine = None

    def routes_of(self, run: Run, event: Event) -> list[Route]:
        """The actions that an event triggers; it is counted if nobody listens."""
        conditions = self._conditions
        routes = self._by_event.get(event.type) if conditions is None else conditions.routes(event, run)
        if routes is None:
            self._unhandled(event)
            return []
        return routes

    def drop(self, run: Run) -> None:
        """Let go of all the run has left to do; what its external actions have done is done."""
        external = self._engine.external
        for task in (*run.tasks, *run.ready):
            if external is not None:
                self._leave(run, external.outputs_of(task))
            task.abandon()
            self._close(task, report=False)
        run.tasks.clear()
        run.ready.clear()
        run.events.clear()

    def _fail(self, run: Run, task: ActionTask, error: BaseException) -> None:
        if isinstance(error, RuntimeError) and _NO_LOOP.search(message_of(error)):
            cause = error
            error = self._foreign(task, None)
            error.what = f"an action used asyncio directly ({cause}): there is no asyncio loop on the operator thread"
            error.args = (error._render(),)  # noqa: SLF001 - our own exception
            error.__cause__ = cause
        if not self._engine.keeps_frames:
            trim(error)
        external = self._engine.external
        # What its external actions have done is done, whatever becomes of the action.
        left = external.outputs_of(task) if external is not None else []
        task.abandon()  # its coroutine is still suspended, or was never started, where the engine refused to go on
        self._close(task, report=False)
        policy: str = task.route.on_error
        if isinstance(error, MissingActionError) and policy != "dead_letter":
            if self._watch is not None:
                self._watch.action_ended(task, "failed" if policy == "fail" else "restarted", error)
            raise error
        if self._watch is not None:
            fails = policy == "fail" or isinstance(error, JournalMismatchError)
            self._watch.action_ended(task, "failed" if fails else _OUTCOMES[policy], error)
        if policy == "fail" or isinstance(error, JournalMismatchError):
            raise failure_of(task, error) from error
        if policy == "skip":
            self._engine.stats.skipped += 1
            if self._recorder is not None:
                self._recorder.failed(task, left)
            self._leave(run, left)
            log.warning("skipped a failed action (%s): %r", task.place(), error)
            return
        self._engine.stats.dead_letters += 1
        log.error("dead letter (%s): %r", task.place(), error)
        letter = dead_letter(self._engine.plan.agent_name, task, error)
        left.append((DEAD_LETTERS, letter))
        if self._recorder is not None:
            self._recorder.failed(task, left)
        self._leave(run, left)

    def _leave(self, run: Run, side_outputs: list[tuple[str, Any]]) -> None:
        for tag, value in side_outputs:
            self._engine.effects.side_outputs.append((tag, value, run))

    def _unhandled(self, event: Event) -> None:
        if event.type in OBSERVATIONS:
            return
        if self._conditions is not None and self._conditions.weigh(event.type):
            self._engine.stats.unmatched += 1
            return
        self._engine.stats.unhandled += 1
        if event.type not in self._warned:
            self._warned.add(event.type)
            log.warning(
                "no action of agent %s listens to events of type %r; they are counted and dropped (said once per type)",
                self._engine.plan.agent_name,
                event.type,
            )
