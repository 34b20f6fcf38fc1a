"""PyFlink internals put to the test: state and timers of other keys than the one a callback is for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment

from flink_agents_py.config import AgentConfiguration
from flink_agents_py.engine.unfinished import END_OF_INPUT
from flink_agents_py.flink.internals import ProcessKeyScope, ThreadKeyScope, in_thread_mode, subtask_index
from flink_agents_py.flink.settings import apply_settings
from flink_agents_py.flink.state import FlinkKeyedState, FlinkTimers
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import key_of, numbers

TIMER = END_OF_INPUT - 10


class Meddler(KeyedProcessFunction):
    """Each input is noted under every other key seen so far: in a value, in a map and by a timer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        threaded = in_thread_mode(runtime_context)
        self._scope = (ThreadKeyScope if threaded else ProcessKeyScope)(runtime_context)
        self._state = FlinkKeyedState(runtime_context)
        self._timers = FlinkTimers()
        self._subtask = subtask_index(runtime_context)
        self._handles: dict[str, Any] = {}

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        key, number = value
        self._timers.service = ctx.timer_service()
        assert ctx.get_current_key() == key
        self._handles[key] = self._scope.current()
        for other, handle in self._handles.items():
            if other != key:
                self._scope.switch(handle)
                state = self._state
                state.sequence.put((state.sequence.get() or 0) + 1)
                state.memory.put(str(number), key)
                if number % 3 == 0:
                    state.run.put(f"run {number}")
                else:
                    state.run.clear()
                if number % 2:
                    state.memory.remove(str(number - 1))
                self._timers.event_time(TIMER)
                self._timers.event_time(TIMER + 1)
                self._timers.delete_event_time(TIMER + 1)
        # The scope stays where it is: Flink sets the key again for the next callback.
        return ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        key = ctx.get_current_key()
        state = self._state
        names = sorted(state.memory.keys(), key=int)
        yield {
            "key": key,
            "subtask": self._subtask,
            "timer": timestamp - TIMER,
            "count": state.sequence.get() or 0,
            "run": state.run.get(),
            "memory": {name: state.memory.get(name) for name in names},
        }


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: count, keys, outputs."""
    apply_settings(env, AgentConfiguration(), {})
    stream = numbers(env, spec["count"], spec["keys"])
    append_to(stream.key_by(key_of, Types.STRING()).process(Meddler()), spec["outputs"])
