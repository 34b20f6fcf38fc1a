"""Runs the suite of the state port on Flink's state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment

from flink_agents_py.flink.internals import ProcessKeyScope, ThreadKeyScope, in_thread_mode
from flink_agents_py.flink.state import FlinkKeyedState
from tests.flink.programs.sinks import append_to
from tests.support.state_port import CHECKS, KEYS_PER_CHECK, LATER, Ports, run_checks

KEYS = {
    "text": (Types.STRING(), lambda number: f"key {number}"),
    "number": (Types.LONG(), lambda number: number),
    "pickled": (Types.PICKLED_BYTE_ARRAY(), lambda number: ("key", number)),
}


class _KeysOfACheck(Ports):
    def __init__(self, suite: Suite, first: int) -> None:
        self.state = suite.state
        self.scope = suite.scope
        self._handles = suite.handles[first : first + KEYS_PER_CHECK]

    def at(self, number: int) -> FlinkKeyedState:
        self.scope.switch(self._handles[number])
        return self.state


class Suite(KeyedProcessFunction):
    """Collects a handle of each key, then runs the checks, and in another callback their second halves."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def open(self, context: Any) -> None:
        self.state = FlinkKeyedState(context)
        self.scope: Any = ThreadKeyScope(context) if in_thread_mode(context) else ProcessKeyScope(context)
        self.handles: list[Any] = []

    def process_element(self, value: int, ctx: Any) -> Iterator[dict[str, Any]]:
        if value < self._keys:
            self.handles.append(self.scope.current())
            return
        names = list(CHECKS)
        checks = CHECKS if value == self._keys else LATER

        def ports_of(name: str) -> Ports:
            return _KeysOfACheck(self, names.index(name) * KEYS_PER_CHECK)

        yield {"results": run_checks(ports_of, checks)}


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: outputs, keys (what kind)."""
    key_type, key_of = KEYS[spec["keys"]]
    keys = KEYS_PER_CHECK * len(CHECKS)
    stream = env.from_collection(list(range(keys + 2)), Types.LONG())
    result = stream.key_by(key_of, key_type=key_type).process(Suite(keys), Types.PICKLED_BYTE_ARRAY())
    append_to(result, spec["outputs"])
