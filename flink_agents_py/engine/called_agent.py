"""An agent that is called by an action of another one, within the same run.

Its actions run inside of the action that calls it. So its durable calls are in that action's journal, in order, and a
restart replays them as it does the action's own (S5, S12); and what it writes becomes visible when the action finishes
(S3). It has its own events, resources and configuration of actions, and memory of its own: an object inside the
caller's memory of the key, and one inside sensory memory that is gone when the call is over.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from flink_agents_py.context import RunnerContext
from flink_agents_py.errors import WrongThreadError
from flink_agents_py.events import Event, InputEvent, OutputEvent
from flink_agents_py.memory import MemoryObject

if TYPE_CHECKING:
    from flink_agents_py.config import AgentConfiguration
    from flink_agents_py.engine.routes import Route
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.engine.versions import PlanVersion
    from flink_agents_py.external.records import ActionResult
    from flink_agents_py.long_term import LongTermMemory
    from flink_agents_py.metrics import MetricGroup
    from flink_agents_py.policies import RetryPolicy, Timeouts
    from flink_agents_py.resources.base import ResourceType

AGENTS = "__agents__"
"""Where in the caller's memory that of called agents is, by name."""


class AgentCall:
    """One call of an agent.

    Args:
        caller: the context of the action that calls it.
        task: the task of the run that this is part of; the caller's own, or that of the agent around it.
    """

    def __init__(self, caller: RunnerContext, task: ActionTask, version: PlanVersion, name: str) -> None:
        self.caller = caller
        self.task = task
        self.version = version
        self.name = name
        self.scope = f"{AGENTS}.{MemoryObject.escape(name)}"
        self.sensory_scope = ""

    async def run(self, value: Any) -> list[Any]:
        """Give it its input; the values of its outputs, once nothing is left to do."""
        first = InputEvent(value)
        self.task.claim(first)
        self.sensory_scope = f"{AGENTS}.{first.id.hex}"
        try:
            outputs = await self._events(deque([first]))
        except Exception:
            self._forget()
            raise
        self._forget()
        self.task.observe("agent", name=self.name, outputs=len(outputs))
        return outputs

    async def _events(self, events: deque[Event]) -> list[Any]:
        outputs: list[Any] = []
        while events:
            event = events.popleft()
            if event.type == OutputEvent.EVENT_TYPE:
                outputs.append(event.get_attr("output"))
                continue
            routes = self.version.driver.routes_of(self.task.run, event)
            for route in routes:
                context = CalledContext(self, route, event)
                cls = route.event_class
                typed = event if cls is None or isinstance(event, cls) else cls.from_event(event)
                result = route.call(typed, context)
                if inspect.iscoroutine(result):
                    await result
                context.closed = True
                route.executed += 1
                events.extend(context.sent)
        return outputs

    def _forget(self) -> None:
        """What it kept for this call alone."""
        if self.caller.sensory_memory.is_exist(AGENTS):
            self.caller.sensory_memory.delete(self.sensory_scope)


class CalledContext(RunnerContext):
    """The context of one action of a called agent."""

    __slots__ = ("_call", "_route", "_sensory", "_short_term", "closed", "event", "sent")

    def __init__(self, call: AgentCall, route: Route, event: Event) -> None:
        self._call = call
        self._route = route
        self.event = event
        self.sent: list[Event] = []
        self.closed = False
        self._short_term: MemoryObject | None = None
        self._sensory: MemoryObject | None = None

    # --- its own ----------------------------------------------------------------------------------------------------

    @property
    def action_config(self) -> dict[str, Any]:
        return self._route.config

    def get_action_config_value(self, key: str) -> Any:
        return self._route.config.get(key)

    def get_resource(self, name: str, type: ResourceType) -> Any:
        return self._call.version.plan.get_resource(name, type)

    @property
    def short_term_memory(self) -> MemoryObject:
        if self._short_term is None:
            self._short_term = self._call.caller.short_term_memory.new_object(self._call.scope)
        return self._short_term

    @property
    def sensory_memory(self) -> MemoryObject:
        if self._sensory is None:
            self._sensory = self._call.caller.sensory_memory.new_object(self._call.sensory_scope)
        return self._sensory

    def send_event(self, event: Event) -> None:
        self._call.task.check()
        if self.closed:
            raise WrongThreadError(
                "the context was used after its action had finished",
                where=f"agent {self._call.name}, action {self._route.name}",
                fix="do not keep ctx; each action gets its own",
            )
        if not isinstance(event, Event):
            raise TypeError(f"send_event takes an Event, got {type(event).__name__}; wrap a result in OutputEvent(...)")
        if "_sent" in event.__dict__ or event is self.event:
            event = event.model_copy()
            for name in ("_id", "_origin", "_lineage", "_encoded", "_sent"):
                event.__dict__.pop(name, None)
        if "_origin" not in event.__dict__:
            self._call.task.claim(event)
        event.__dict__["_sent"] = True
        self.sent.append(event)

    def call_agent(self, name: str, value: Any = None) -> Awaitable[list[Any]]:
        return AgentCall(self, self._call.task, self._call.version.agent(name), name).run(value)

    @property
    def agent_metric_group(self) -> MetricGroup:
        return self._call.caller.agent_metric_group.get_sub_group("agent", self._call.name)

    @property
    def action_metric_group(self) -> MetricGroup:
        return self.agent_metric_group.get_sub_group("action", self._route.name)

    # --- of the run it is part of -----------------------------------------------------------------------------------

    @property
    def key(self) -> Any:
        return self._call.task.key

    @property
    def timestamp(self) -> int | None:
        return self._call.task.timestamp

    @property
    def watermark(self) -> int | None:
        return self._call.task.watermark

    @property
    def sequence(self) -> int:
        return self._call.task.sequence

    @property
    def plan_version(self) -> str:
        return self._call.task.plan_version

    @property
    def config(self) -> AgentConfiguration:
        return self._call.task.config

    @property
    def long_term_memory(self) -> LongTermMemory:
        return self._call.task.long_term_memory

    @property
    def replaying(self) -> bool:
        return self._call.task.replaying

    def observe(self, kind: str, **fields: Any) -> None:
        self._call.task.observe(kind, agent=self._call.name, **fields)

    def side_output(self, tag: str, value: Any) -> None:
        self._call.task.side_output(tag, value)

    def durable_execute(
        self,
        func: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        reconciler: Callable[[], Any] | None = None,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> Any:
        return self._call.task.durable_execute(
            func, *args, name=name, reconciler=reconciler, idempotency_key=idempotency_key, **kwargs
        )

    def durable_execute_async(
        self,
        func: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        timeouts: Timeouts | float | None = None,
        retry: RetryPolicy | None = None,
        reconciler: Callable[[], Any] | None = None,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> Awaitable[Any]:
        return self._call.task.durable_execute_async(
            func,
            *args,
            name=name,
            timeouts=self._route.timeouts if timeouts is None else timeouts,
            retry=self._route.retry if retry is None else retry,
            reconciler=reconciler,
            idempotency_key=idempotency_key,
            **kwargs,
        )

    def gather(self, *calls: Awaitable[Any], return_exceptions: bool = False) -> Awaitable[list[Any]]:
        return self._call.task.gather(*calls, return_exceptions=return_exceptions)

    def call(
        self, name: str, params: Any = None, *, trace_id: str | None = None, sequence: int = 0
    ) -> Awaitable[ActionResult]:
        return self._call.task.call(name, params, trace_id=trace_id, sequence=sequence)

    def sleep(self, seconds: float) -> Awaitable[None]:
        return self._call.task.sleep(seconds)
