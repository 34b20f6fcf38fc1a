"""The keyed input of an agent, with the records that make callbacks under synthetic keys.

A Python operator is called for records and timers, and both come under a key. So records of ours join the input between
the key-by and its exchange, the one place where a record can enter with a key of its own. They carry ``None``.

*Start records* come first of all, once per job: each makes its synthetic key, whose timers then stay in the state.

*Beats* are for process mode, where timers are not safe: PyFlink registers those of the bundle that a checkpoint flushes
only behind this checkpoint, so a restored subtask may be without any. Beats come out of two window operators of
Flink's own, in Java, whose timers are safe: every second under each synthetic key, at once after a restore, and once
more when the input has ended, before the last watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyflink.common import Row, Types
from pyflink.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway

from flink_agents_py.flink.key_groups import KeyGroups, check_assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyflink.common.typeinfo import TypeInformation

_MOST_SUBTASKS = 64
_BEAT_MS = 1000
_ENDLESS_MS = 2**63 - 1
_MS_PER_GROUP = 4  # with very many key groups, beats are fewer


class KeyedInput:
    """Keys a stream and adds the records of ours.

    Args:
        groups: of the key's type and the operator's maximum parallelism.
        uid: what the uids of the operators added here begin with.
    """

    def __init__(self, env: StreamExecutionEnvironment, key_type: TypeInformation, groups: KeyGroups, uid: str) -> None:
        check_assignment(groups)
        self._env = env
        self._key_type = key_type
        self._groups = groups
        self._uid = uid
        self._java = get_gateway().jvm

    @property
    def start_keys(self) -> list[Any]:
        """The synthetic keys that get a start record."""
        return self._groups.spread(max(_MOST_SUBTASKS, self._env.get_parallelism()))

    def key(self, stream: DataStream, selector: Callable[[Any], Any], *, starts: bool, beats: bool) -> KeyedStream:
        """``stream`` keyed by ``selector``, with start records, beats or both.

        No watermark passes before the start records are through: their source holds the combined watermark back until
        it ends.
        """
        keyed = stream.key_by(selector, key_type=self._key_type)
        row_type = Types.ROW([self._key_type, stream.get_type()])
        mapped = keyed._j_data_stream.getTransformation().getInputs().get(0)
        mapped.setUid(f"{self._uid}:start:key")
        together = self._stream(mapped)
        if starts:
            source = self._source(self.start_keys, row_type)
            together = together.union(source.name("agent start").uid(f"{self._uid}:start"))
        if beats:
            together = together.union(*self._beats(mapped, row_type))
        return KeyedStream(self._exchange(together), stream.get_type(), stream)

    def _source(self, keys: Iterable[Any], row_type: TypeInformation) -> DataStream:
        rows = [Row(self._groups.encoded(key), None) for key in keys]
        return self._env.from_collection(rows, type_info=row_type).set_parallelism(1)

    def _beats(self, mapped: Any, row_type: TypeInformation) -> tuple[DataStream, DataStream]:
        """The beats of the second, and those of the end."""
        java = self._java
        source = self._source(self._groups.synthetic, row_type).name("agent beat keys").uid(f"{self._uid}:beat-keys")
        # A side output nobody writes to: it brings no record, but lives as long as the input, and has its watermark.
        tag = java.org.apache.flink.util.OutputTag("flink-agents-py-beats", row_type.get_java_type_info())
        silent = self._stream(java.org.apache.flink.streaming.api.transformations.SideOutputTransformation(mapped, tag))
        keyed = self._exchange(silent.union(source))
        triggers = java.org.apache.flink.streaming.api.windowing.triggers
        interval = java.java.time.Duration.ofMillis(max(_BEAT_MS, self._groups.groups * _MS_PER_GROUP))
        every = self._window(keyed, triggers.ContinuousProcessingTimeTrigger.of(interval), row_type)
        # It fires at the end of the window, which is the last watermark, and at multiples of its interval. The greatest
        # there is makes these 0 and the end itself; any other would overflow behind the last one, and fire forever.
        never = java.java.time.Duration.ofMillis(_ENDLESS_MS)
        last = self._window(keyed, triggers.ContinuousEventTimeTrigger.of(never), row_type)
        return every.name("agent beat").uid(f"{self._uid}:beat"), last.name("agent end").uid(f"{self._uid}:end")

    def _window(self, keyed: Any, trigger: Any, row_type: TypeInformation) -> DataStream:
        """What came under each key, again and again, whenever the trigger fires."""
        streaming = self._java.org.apache.flink.streaming.api
        window = keyed.window(streaming.windowing.assigners.GlobalWindows.create()).trigger(trigger)
        passing = streaming.functions.windowing.PassThroughWindowFunction()
        return DataStream(window.apply(passing, row_type.get_java_type_info()))

    def _stream(self, transformation: Any) -> DataStream:
        env = self._env._j_stream_execution_environment
        return DataStream(self._java.org.apache.flink.streaming.api.datastream.DataStream(env, transformation))

    def _exchange(self, stream: DataStream) -> Any:
        java_key = Types.ROW([self._key_type]).get_java_type_info()
        return stream._j_data_stream.keyBy(self._java.KeyByKeySelector(), java_key)
