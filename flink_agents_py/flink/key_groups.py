"""Synthetic keys: one in each of many key groups, so that every subtask has a key to hang its timers on.

A Python operator gets callbacks only under keys. A subtask that never sees an input would never hear of a watermark and
hold back the whole pipeline. So a few records with synthetic keys enter the keyed stream when the job starts for the
first time; their timers are part of the state and follow their key groups through every rescaling.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import cloudpickle
from pyflink.common import Row, Types
from pyflink.common.typeinfo import PickledBytesTypeInfo, TypeInformation
from pyflink.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway

from flink_agents_py.errors import PipelineError

MARK = "\0flink-agents-py\0"
"""How synthetic text keys begin."""

_MOST_SUBTASKS = 64
_LEAST_LONG = -(2**63)
_LEAST_INT = -(2**31)
_MOST_TRIED = 2**24

_spreads: dict[tuple[str, str, int, int], list[Any]] = {}  # finding keys takes some thousand calls of the JVM


class SyntheticKeys:
    """Keys whose groups are spread so that every subtask owns one, at any parallelism up to 64 (or the present one).

    Args:
        threaded: the execution mode; pickled keys have different bytes, hence other groups, in the two.

    Raises:
        PipelineError: keys of that type cannot be made up.
    """

    def __init__(self, env: StreamExecutionEnvironment, key_type: TypeInformation, *, threaded: bool) -> None:
        self._env = env
        self._key_type = key_type
        self._pickle: Callable[[Any], bytes] = pickle.dumps if threaded else cloudpickle.dumps
        self.keys = self._spread()

    def key(self, stream: DataStream, key_selector: Any, uid: str) -> KeyedStream:
        """``stream`` keyed by ``key_selector``, with one record ``None`` under each synthetic key before all else.

        No watermark passes before they are through: their source holds the combined watermark back until it ends.
        """
        keyed = stream.key_by(key_selector, key_type=self._key_type)
        row_type = Types.ROW([self._key_type, stream.get_type()])
        start = self._env.from_collection([Row(self._encoded(key), None) for key in self.keys], type_info=row_type)
        start.name("agent start").uid(uid).set_parallelism(1)
        gateway = get_gateway()
        keyed._j_data_stream.getTransformation().getInputs().get(0).setUid(f"{uid}:key")
        # Between a key-by's map and its exchange is the one place where a record can enter with a key of its own.
        with_keys = gateway.jvm.org.apache.flink.streaming.api.datastream.DataStream(
            self._env._j_stream_execution_environment, keyed._j_data_stream.getTransformation().getInputs().get(0)
        )
        together = DataStream(with_keys).union(start)._j_data_stream
        java_key = Types.ROW([self._key_type]).get_java_type_info()
        return KeyedStream(together.keyBy(gateway.jvm.KeyByKeySelector(), java_key), stream.get_type(), stream)

    def _spread(self) -> list[Any]:
        """One key in each of so many equal ranges of key groups that no subtask's own range is without one."""
        assignment = get_gateway().jvm.org.apache.flink.runtime.state.KeyGroupRangeAssignment
        parallelism = self._env.get_parallelism()
        groups = self._env.get_max_parallelism()
        if groups <= 0:
            groups = assignment.computeDefaultMaxParallelism(parallelism)
        ranges = min(groups, 2 * max(_MOST_SUBTASKS, parallelism))
        known = (str(self._key_type), self._pickle.__module__, groups, ranges)
        if known in _spreads:
            return _spreads[known]
        found: dict[int, Any] = {}
        for candidate in self._candidates():
            group = assignment.assignToKeyGroup(_java_row(self._encoded(candidate)), groups)
            found.setdefault(group * ranges // groups, candidate)
            if len(found) == ranges:
                _spreads[known] = keys = list(found.values())
                return keys
        raise PipelineError(
            f"event time cannot be held for keys of type {self._key_type}",
            where="from_datastream(..., key_type=...)",
            fix="use a STRING, LONG, INT or pickled key, or pass event_time=False",
        )

    def _candidates(self) -> Iterator[Any]:
        """An endless supply of keys; none for types that have none to spare."""
        if self._key_type == Types.STRING() or isinstance(self._key_type, PickledBytesTypeInfo):
            return (f"{MARK}{number}" for number in count())
        # Far out, where no counter or id gets; a real input with such a key would still be handled as it should.
        if self._key_type == Types.LONG():
            return (_LEAST_LONG + number for number in count())
        if self._key_type == Types.INT():
            return (_LEAST_INT + number for number in count())
        return iter(())

    def _encoded(self, key: Any) -> Any:
        return self._pickle(key) if isinstance(self._key_type, PickledBytesTypeInfo) else key


def may_be_synthetic(key: Any) -> bool:
    """Whether ``key`` looks like one that was made up; state tells for sure."""
    kind = type(key)
    if kind is str:
        return bool(key.startswith(MARK))
    return kind is int and (key < _LEAST_LONG + _MOST_TRIED or _LEAST_INT <= key < _LEAST_INT + _MOST_TRIED)


def _java_row(value: Any) -> Any:
    gateway = get_gateway()
    fields = gateway.new_array(gateway.jvm.Object, 1)
    fields[0] = value
    return gateway.jvm.org.apache.flink.types.Row.of(fields)
