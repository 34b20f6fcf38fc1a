"""Keyed state and timers of the operator. The state names and types below are the savepoint contract."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyflink.common import Types
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

from flink_agents_py.engine.archive import PLANS
from flink_agents_py.flink.internals import ProcessMap, ThreadMap, ThreadValue, in_thread_mode
from flink_agents_py.flink.packed_state import PackedMap, PackedNumber, PackedText

if TYPE_CHECKING:
    from pyflink.datastream import RuntimeContext, TimerService

    from flink_agents_py.engine.ports import MapPort, ValuePort


class FlinkKeyedState:
    """See :class:`flink_agents_py.engine.ports.KeyedState`.

    Text everywhere: STRING was the fastest type measured in thread mode, and unlike pickled bytes it survives a
    renamed class.

    In thread mode each part is a state of its own. In process mode all of them are entries of one map, because PyFlink
    does there, whenever the key changes, some work for each state that has been opened: with six of them that was two
    thirds of what a record cost, used or not.
    """

    def __init__(self, context: RuntimeContext) -> None:
        self._context = context
        if in_thread_mode(context):
            self._packed = None
        else:
            self._packed = ProcessMap(context, _text_map("agent.state"))
        self.sequence = self._number("agent.seq")
        self.run = self._text("agent.run")
        self.pending = self._map("agent.pending")
        self.memory = self._map("agent.stm")

    # The engine asks for these while it is opened, and only if it needs them: other agents have no such states.

    @cached_property
    def idem(self) -> MapPort:
        return self._map("agent.idem")

    @cached_property
    def audit(self) -> MapPort:
        return self._map("agent.audit")

    @cached_property
    def beat(self) -> ValuePort:
        """State of the synthetic keys that carry the watermark; 1 under each of them."""
        return self._number("agent.beat")

    @cached_property
    def unfinished(self) -> MapPort:
        """State of the synthetic keys in process mode: the unfinished keys of their key group."""
        return self._map("agent.unfinished")

    @cached_property
    def plans(self) -> MapPort:
        """State of the synthetic keys: the plans that interrupted runs of their key group may be under."""
        return self._map(PLANS)

    def _number(self, name: str) -> ValuePort:
        if self._packed is None:
            return ThreadValue(self._context, ValueStateDescriptor(name, Types.LONG()))
        return PackedNumber(self._packed, name)

    def _text(self, name: str) -> ValuePort:
        if self._packed is None:
            return ThreadValue(self._context, ValueStateDescriptor(name, Types.STRING()))
        return PackedText(self._packed, name)

    def _map(self, name: str) -> MapPort:
        if self._packed is None:
            return ThreadMap(self._context, _text_map(name))
        return PackedMap(self._packed, f"{name}:")


def _text_map(name: str) -> MapStateDescriptor:
    return MapStateDescriptor(name, Types.STRING(), Types.STRING())


class FlinkTimers:
    """Timers under the current key; the service is that of the callback that runs."""

    service: TimerService

    def processing_time(self, timestamp: int) -> None:
        self.service.register_processing_time_timer(timestamp)

    def event_time(self, timestamp: int) -> None:
        self.service.register_event_time_timer(timestamp)

    def delete_event_time(self, timestamp: int) -> None:
        self.service.delete_event_time_timer(timestamp)
