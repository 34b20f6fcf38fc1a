"""What the user holds of a memory: the object at a path, as one action sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flink_agents_py.engine.memory_item import ABSENT, SCALARS, VALUES, Item, from_value, to_value
from flink_agents_py.engine.memory_path import join, split, unescape
from flink_agents_py.errors import MemoryPathError
from flink_agents_py.memory import MemoryObject, MemoryRef, MemoryType

if TYPE_CHECKING:
    from flink_agents_py.engine.memory import RunMemory, TaskMemory

_UNKNOWN = object()
# References are kept: most agents use the same few paths for every record. The bound is for those that do not.
_MAX_REFS = 4096


class MemoryView(MemoryObject):
    """A view of one object of the tree, by its path."""

    __slots__ = ("_path", "_task")

    def __init__(self, task: TaskMemory, path: str) -> None:
        self._task = task
        self._path = path

    def __repr__(self) -> str:
        return f"<{self._task.run.kind} memory object {self._path!r}>"

    # `get` and `set` are most of what a record costs here: the usual case runs in one frame.

    def get(self, path_or_ref: str | MemoryRef) -> Any:
        task = self._task
        if task.guard is not None:
            task.guard()
        if type(path_or_ref) is str:
            path = f"{self._path}.{path_or_ref}" if self._path else path_or_ref
        else:
            path = self._target(path_or_ref)
        run = task.run
        if task.shape != run.shape:
            task.rebase()
        item = task.writes.get(path, _UNKNOWN)
        if item is _UNKNOWN:
            item = run.items.get(path, _UNKNOWN)
            if item is _UNKNOWN:
                item = run.fetch(path)
        if type(item) in SCALARS:
            return item
        return self._open(path, item)

    def set(self, path: str, value: Any, overwrite: bool = False) -> MemoryRef:
        task = self._task
        if task.guard is not None:
            task.guard()
        if self._path or type(path) is not str:
            path = self._absolute(path)
        item = from_value(path, value)
        run = task.run
        if task.shape != run.shape:
            task.rebase()
        writes = task.writes
        old = writes.get(path, _UNKNOWN)
        if old is _UNKNOWN:
            old = run.items.get(path, _UNKNOWN)
        if type(old) in VALUES or type(task.item(path)) in VALUES:
            writes[path] = item
        else:
            task.place(path, item, overwrite=overwrite)
        return run.refs.get(path) or _new_ref(run, path)

    def new_object(self, path: str, overwrite: bool = False) -> MemoryObject:
        task = self._enter()
        path = self._absolute(path)
        task.make(path, overwrite=overwrite)
        return type(self)(task, path)

    def is_exist(self, path: str) -> bool:
        return self._enter().item(self._absolute(path)) is not ABSENT

    def delete(self, path: str) -> bool:
        return self._enter().remove(self._absolute(path))

    def get_field_names(self) -> list[str]:
        item = self._enter().item(self._path)
        return [unescape(segment) for segment in item] if type(item) is dict else []

    def get_fields(self) -> dict[str, Any]:
        task = self._enter()
        children = task.item(self._path)
        fields: dict[str, Any] = {}
        if type(children) is dict:
            for segment in children:
                path = join(self._path, segment)
                item = task.item(path)
                if item is not ABSENT:  # a child may have expired before its parent
                    fields[unescape(segment)] = self._open(path, item)
        return fields

    def _enter(self) -> TaskMemory:
        task = self._task
        if task.guard is not None:
            task.guard()
        if task.shape != task.run.shape:
            task.rebase()
        return task

    def _open(self, path: str, item: Item) -> Any:
        """What the user gets for an item."""
        kind = type(item)
        if kind is tuple:
            value = to_value(path, item)
            if type(value) in SCALARS:  # only items as read from state; a change of ours is a scalar itself then
                self._task.run.items[path] = value
            return value
        if kind is dict:
            split(path)  # the root has no path that could be asked for
            return type(self)(self._task, path)
        return None if item is ABSENT else item

    def _absolute(self, path: str) -> str:
        if not isinstance(path, str):
            raise MemoryPathError(
                f"a memory path is a string, not {type(path).__name__}",
                where=repr(path)[:80],
                fix="join names by dots, and write a dot inside one as \\. (MemoryObject.escape)",
            )
        path = join(self._path, str.__str__(path))  # an enum of strings means its value
        split(path)
        return path

    def _target(self, reference: Any) -> str:
        """The path of a reference, given as such or as the dictionary it is in an event from elsewhere."""
        own_kind = self._task.run.kind
        if isinstance(reference, MemoryRef):
            path, kind = reference.path, reference.memory_type.value
        elif isinstance(reference, dict) and isinstance(reference.get("path"), str):
            path, kind = reference["path"], reference.get("memory_type", own_kind)
        else:
            return self._absolute(reference)
        if kind != own_kind:
            raise MemoryPathError(
                f"a reference to {kind} memory was given to {own_kind} memory",
                where=f"memory path {path!r}",
                fix="use reference.resolve(ctx), which asks the right one",
            )
        split(path)
        return path


def _new_ref(run: RunMemory, path: str) -> MemoryRef:
    if len(run.refs) >= _MAX_REFS:
        run.refs.clear()
    reference = run.refs[path] = MemoryRef(path, MemoryType(run.kind))
    return reference
