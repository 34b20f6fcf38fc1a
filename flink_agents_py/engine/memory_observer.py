"""Events about memory, made when an action finishes or a run begins (see ``flink_agents_py.memory_events``)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.memory_item import ABSENT, to_value
from flink_agents_py.engine.memory_path import join
from flink_agents_py.errors import DecodeError
from flink_agents_py.events import EventType
from flink_agents_py.memory_events import (
    AgentRunBeginEvent,
    MemoryEvent,
    SensoryReadEvent,
    SensoryWriteEvent,
    ShortTermReadEvent,
    ShortTermWriteEvent,
)

if TYPE_CHECKING:
    from flink_agents_py.config import ConfigOption
    from flink_agents_py.engine.memory import RunMemory, TaskMemory
    from flink_agents_py.engine.memory_item import Item
    from flink_agents_py.engine.run import Run
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.events import Event
    from flink_agents_py.plan.plan import AgentPlan

log = logging.getLogger("flink_agents_py.engine")

OBSERVATIONS = frozenset(
    {
        EventType.ShortTermWriteEvent,
        EventType.ShortTermReadEvent,
        EventType.SensoryWriteEvent,
        EventType.SensoryReadEvent,
        EventType.AgentRunBeginEvent,
    }
)
"""Events of the framework's own accord: it is no mistake if nobody listens to them."""

_RUN_BEGIN_ACTION = "agent_run_begin_action"


class MemoryObserver:
    """What finished actions did to memory, as events. Made where at least one kind of them is wanted."""

    def __init__(self, plan: AgentPlan) -> None:
        def wanted(option: ConfigOption[bool | None], event_type: str) -> bool:
            for switch in (option, AgentOptions.MEMORY_GENERATE_EVENT):
                value = plan.config.get(switch)
                if value is not None:
                    return bool(value)
            return plan.expects(event_type)

        self.writes = {
            "sensory": wanted(AgentOptions.MEMORY_GENERATE_EVENT_SENSORY_WRITE, EventType.SensoryWriteEvent),
            "short_term": wanted(AgentOptions.MEMORY_GENERATE_EVENT_SHORT_TERM_WRITE, EventType.ShortTermWriteEvent),
        }
        self.reads = {
            "sensory": wanted(AgentOptions.MEMORY_GENERATE_EVENT_SENSORY_READ, EventType.SensoryReadEvent),
            "short_term": wanted(AgentOptions.MEMORY_GENERATE_EVENT_SHORT_TERM_READ, EventType.ShortTermReadEvent),
        }

    @staticmethod
    def of(plan: AgentPlan) -> MemoryObserver | None:
        """The observer of an agent, if anybody wants one."""
        observer = MemoryObserver(plan)
        return observer if any((*observer.writes.values(), *observer.reads.values())) else None

    def observe(self, task: ActionTask) -> None:
        """Let an action that is about to finish send the events about its memory, after all it sent itself."""
        if MemoryEvent.is_memory_type(task.event.type):
            return
        key = str(task.run.key)
        memories = [memory for memory in task.memories() if memory is not None]
        for memory in memories:
            if self.writes[memory.run.kind]:
                changed, deleted = memory.changes()
                if changed or deleted:
                    cls = SensoryWriteEvent if memory.run.kind == "sensory" else ShortTermWriteEvent
                    task.send_event(cls(key=key, value=_values(changed), deleted=deleted))
        for memory in memories:
            if self.reads[memory.run.kind]:
                value = _values(_items_read(memory))
                if value:
                    read = SensoryReadEvent if memory.run.kind == "sensory" else ShortTermReadEvent
                    task.send_event(read(key=key, value=value))


def run_begin_event(run: Run, cause: Event) -> AgentRunBeginEvent:
    """All values in the short-term memory of a run that begins."""
    event = AgentRunBeginEvent(key=str(run.key), value=_values(_all_items(run.short_term)))
    event.__dict__["_origin"] = (cause, _RUN_BEGIN_ACTION, 0)
    event.__dict__["_sent"] = True
    return event


def _items_read(memory: TaskMemory) -> dict[str, Item]:
    return {
        path: item
        for path in memory.values_read()
        if (item := memory.item(path)) is not ABSENT and type(item) is not dict
    }


def _all_items(memory: RunMemory) -> dict[str, Item]:
    items: dict[str, Item] = {}
    paths = [""]
    while paths:
        path = paths.pop()
        item = memory.item(path)
        if type(item) is dict:
            paths += [join(path, segment) for segment in reversed(item)]
        elif item is not ABSENT:
            items[path] = item
    return items


def _values(items: dict[str, Item]) -> dict[str, Any]:
    """The items as values; one whose class is gone is left out, because watching must not fail what it watches."""
    values: dict[str, Any] = {}
    for path, item in items.items():
        try:
            values[path] = None if type(item) is dict else to_value(path, item) if type(item) is tuple else item
        except DecodeError as error:
            log.warning("a memory event goes without a value that cannot be read: %s", error)
    return values
