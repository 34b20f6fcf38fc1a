"""The two execution modes of PyFlink behind one face, and every use of PyFlink internals we make.

Measured on apache-flink 1.20.5, 2.2.1 and 2.3.0; a test per version holds these:

* the current key can be switched inside a callback, for state and for timers (Flink sets it again before each one);
* thread mode hides some values of the runtime context behind Flink 2's ``TaskInfo``;
* in thread mode the state wrappers convert STRING and LONG by identity, so the Java object can be called directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyflink.datastream import RuntimeContext


def in_thread_mode(context: RuntimeContext) -> bool:
    """Whether the operator runs inside the JVM (``python.execution-mode: thread``)."""
    return ".embedded." in type(context).__module__


class ThreadKeyScope:
    """Key switching through the Java state backend; handles are Java keys."""

    def __init__(self, context: Any) -> None:
        backend = context.get_keyed_state_backend()._keyed_state_backend
        self.current = backend.getCurrentKey
        self.switch = backend.setCurrentKey


class ProcessKeyScope:
    """Key switching through the worker's state backend; handles are Python keys."""

    def __init__(self, context: Any) -> None:
        backend = context._keyed_state_backend
        self.current = backend.get_current_key
        self.switch = backend.set_current_key


class ThreadValue:
    """A LONG or STRING value, read and written without the identity converters in between."""

    def __init__(self, context: Any, descriptor: ValueStateDescriptor) -> None:
        state = context.get_state(descriptor)._state
        self.get = state.value
        self.put = state.update
        self.clear = state.clear


class ThreadMap:
    """A STRING to STRING map without the identity converters in between."""

    def __init__(self, context: Any, descriptor: MapStateDescriptor) -> None:
        state = context.get_map_state(descriptor)
        java = state._state
        self.get = java.get
        self.put = java.put
        self.remove = java.remove
        self._keys = state.keys

    def keys(self) -> Iterable[str]:
        return list(self._keys())


class ProcessMap:
    """A STRING to STRING map in the worker's state cache."""

    def __init__(self, context: Any, descriptor: MapStateDescriptor) -> None:
        state = context.get_map_state(descriptor)
        self.get = state.get
        self.put = state.put
        self.remove = state.remove
        self._keys = state.keys

    def keys(self) -> Iterable[str]:
        return list(self._keys())


def java_key(value: Any) -> Any:
    """In thread mode: a key with that value, text, bytes or a LONG, as the Java state backend has it."""
    from pemja import findClass

    row = findClass("org.apache.flink.types.Row")(1)
    row.setField(0, value)
    return row


def key_group_layout(context: Any) -> tuple[int, int, int]:
    """Number of this subtask, parallelism, and number of key groups."""
    if in_thread_mode(context):
        java = context._runtime_context
        try:
            groups = java.getTaskInfo().getMaxNumberOfParallelSubtasks()
        except AttributeError:  # Flink 1.20 reached through the older getter
            groups = java.getMaxNumberOfParallelSubtasks()
        return subtask_index(context), parallelism_of(context), int(groups)
    return (
        int(context.get_index_of_this_subtask()),
        int(context.get_number_of_parallel_subtasks()),
        int(context.get_max_number_of_parallel_subtasks()),
    )


def subtask_index(context: Any) -> int:
    """Number of this subtask, from 0."""
    if in_thread_mode(context):
        java = context._runtime_context
        try:
            return int(java.getTaskInfo().getIndexOfThisSubtask())
        except AttributeError:  # Flink 1.20 reached through the older getter
            return int(java.getIndexOfThisSubtask())
    return int(context.get_index_of_this_subtask())


def parallelism_of(context: Any) -> int:
    """Number of subtasks of the operator."""
    if in_thread_mode(context):
        java = context._runtime_context
        try:
            return int(java.getTaskInfo().getNumberOfParallelSubtasks())
        except AttributeError:  # Flink 1.20 reached through the older getter
            return int(java.getNumberOfParallelSubtasks())
    return int(context.get_number_of_parallel_subtasks())


def attempt_number(context: Any) -> int:
    """Number of the attempt, from 0."""
    if in_thread_mode(context):
        java = context._runtime_context
        try:
            return int(java.getTaskInfo().getAttemptNumber())
        except AttributeError:  # Flink 1.20 reached through the older getter
            return int(java.getAttemptNumber())
    return int(context.get_attempt_number())
