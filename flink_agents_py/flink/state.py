"""Keyed state and timers of the operator. The state names and types below are the savepoint contract."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyflink.common import Types
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

from flink_agents_py.flink.internals import ProcessMap, ProcessValue, ThreadMap, ThreadValue, in_thread_mode

if TYPE_CHECKING:
    from pyflink.datastream import RuntimeContext, TimerService

    from flink_agents_py.engine.ports import MapPort, ValuePort


class FlinkKeyedState:
    """See :class:`flink_agents_py.engine.ports.KeyedState`.

    Text everywhere: STRING was the fastest type measured in thread mode, and unlike pickled bytes it survives a
    renamed class.
    """

    def __init__(self, context: RuntimeContext) -> None:
        value: Any = ThreadValue if in_thread_mode(context) else ProcessValue
        text_map: Any = ThreadMap if in_thread_mode(context) else ProcessMap
        self.sequence = value(context, ValueStateDescriptor("agent.seq", Types.LONG()))
        self.run = value(context, ValueStateDescriptor("agent.run", Types.STRING()))
        self.pending = text_map(context, MapStateDescriptor("agent.pending", Types.STRING(), Types.STRING()))
        self.memory = text_map(context, MapStateDescriptor("agent.stm", Types.STRING(), Types.STRING()))
        # Made when the engine asks for them, while it is opened: agents without external actions have no such state.
        self._later = lambda name: text_map(context, MapStateDescriptor(name, Types.STRING(), Types.STRING()))

    @cached_property
    def idem(self) -> MapPort:
        port: MapPort = self._later("agent.idem")  # type: ignore[no-untyped-call]
        return port

    @cached_property
    def audit(self) -> MapPort:
        port: MapPort = self._later("agent.audit")  # type: ignore[no-untyped-call]
        return port


def beat_state(context: RuntimeContext) -> ValuePort:
    """State of the synthetic keys that carry the watermark; 1 under each of them."""
    value: Any = ThreadValue if in_thread_mode(context) else ProcessValue
    port: ValuePort = value(context, ValueStateDescriptor("agent.beat", Types.LONG()))
    return port


def unfinished_state(context: RuntimeContext) -> MapPort:
    """State of the synthetic keys in process mode: the unfinished keys of their key group."""
    text_map: Any = ThreadMap if in_thread_mode(context) else ProcessMap
    descriptor = MapStateDescriptor("agent.unfinished", Types.STRING(), Types.STRING())
    port: MapPort = text_map(context, descriptor)
    return port


class FlinkTimers:
    """Timers under the current key; the service is that of the callback that runs."""

    service: TimerService

    def processing_time(self, timestamp: int) -> None:
        self.service.register_processing_time_timer(timestamp)

    def event_time(self, timestamp: int) -> None:
        self.service.register_event_time_timer(timestamp)

    def delete_event_time(self, timestamp: int) -> None:
        self.service.delete_event_time_timer(timestamp)
