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

_MOST_GROUPS = 128
_LEAST_LONG = -(2**63)
_LEAST_INT = -(2**31)


class SyntheticKeys:
    """Keys whose groups are spread so that every subtask owns one, at any parallelism up to 128 (or the present one).

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
        # Between a key-by's map and its exchange is the one place where a record can enter with a key of its own.
        with_keys = gateway.jvm.org.apache.flink.streaming.api.datastream.DataStream(
            self._env._j_stream_execution_environment, keyed._j_data_stream.getTransformation().getInputs().get(0)
        )
        together = DataStream(with_keys).union(start)._j_data_stream
        java_key = Types.ROW([self._key_type]).get_java_type_info()
        return KeyedStream(together.keyBy(gateway.jvm.KeyByKeySelector(), java_key), stream.get_type(), stream)

    def _spread(self) -> list[Any]:
        assignment = get_gateway().jvm.org.apache.flink.runtime.state.KeyGroupRangeAssignment
        parallelism = self._env.get_parallelism()
        groups_in_all = self._env.get_max_parallelism()
        if groups_in_all <= 0:
            groups_in_all = assignment.computeDefaultMaxParallelism(parallelism)
        wanted = min(groups_in_all, max(_MOST_GROUPS, parallelism))
        groups = {index * groups_in_all // wanted for index in range(wanted)}
        keys = []
        for candidate in self._candidates():
            group = assignment.assignToKeyGroup(_java_row(self._encoded(candidate)), groups_in_all)
            if group in groups:
                groups.remove(group)
                keys.append(candidate)
                if not groups:
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


def _java_row(value: Any) -> Any:
    gateway = get_gateway()
    fields = gateway.new_array(gateway.jvm.Object, 1)
    fields[0] = value
    return gateway.jvm.org.apache.flink.types.Row.of(fields)
