"""The memory of a run: a write-back cache over the map of the key, and one overlay for each running action.

A :class:`RunMemory` reads each path once, collects what the actions of the run committed, and writes it out in
``flush``. A :class:`TaskMemory` holds what one action has changed and not committed (S3): dropping it undoes the
action. Two actions of a run that are suspended at once see each other's changes when those are committed; where they
touch the same field, the last commit wins.

The tree stays a tree whoever wins. An overlay is made of changes that can be made again on another tree: fields
removed, objects created, values set. If another action commits a change of the tree's shape in between, the overlay is
made again on the new tree before it is next used. So a field set in an object that somebody else removed brings the
object back with that field alone, and an object removed takes along what others committed into it before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from flink_agents_py.engine.memory_item import ABSENT, SCALARS, Item, from_text, to_text
from flink_agents_py.engine.memory_path import join, split
from flink_agents_py.engine.memory_view import MemoryView
from flink_agents_py.engine.ports import MapPort
from flink_agents_py.errors import MemoryOverwriteError, MemoryPathError
from flink_agents_py.memory import MemoryObject, MemoryRef
from flink_agents_py.serde import encode

_UNKNOWN = object()
_CLEAN: dict[str, Any] = {}  # stands for a dictionary of nothing, until there is something; nobody writes into it
_NOTHING_NEW: set[str] = set()  # likewise
_LARGE = 1000  # characters
_SMALL = 1 << 63
_refs: dict[str, dict[str, MemoryRef]] = {"sensory": {}, "short_term": {}}  # by kind, shared by all runs: memory_view


class RunMemory:
    """One memory during one run.

    Args:
        backing: the map of the key; ``None`` keeps everything here (sensory memory).
        kind: which memory it is (a value of :class:`~flink_agents_py.memory.MemoryType`).
        known: items of the map that need not be read any more; the memory may change the dictionary.
    """

    __slots__ = ("_backing", "_own", "dirty", "items", "kind", "large", "refs", "shape")

    def __init__(
        self, backing: MapPort | None, kind: Literal["sensory", "short_term"], known: dict[str, Item] | None = None
    ) -> None:
        self._backing = backing
        self._own: dict[str, str] = {} if backing is None else _CLEAN
        self.kind = kind
        self.refs = _refs[kind]
        self.items: dict[str, Item] = {} if known is None else known  # all that was read or committed
        self.dirty: dict[str, Item] = _CLEAN  # committed since the last flush
        self.shape = 0  # counts commits that created or removed anything
        self.large: list[str] | None = None  # paths whose text is too long to be kept between runs

    def begin(self, guard: Callable[[], None] | None = None) -> TaskMemory:
        """What one action works on; ``guard`` is called on every access and may refuse it by raising."""
        return TaskMemory(self, guard)

    def item(self, path: str) -> Item:
        """The committed item at ``path``."""
        item = self.items.get(path, _UNKNOWN)
        return self.fetch(path) if item is _UNKNOWN else item

    def fetch(self, path: str) -> Item:
        """Read an item that is not in the cache."""
        if path:
            split(path)  # refuses what is no path
        text = self._own.get(path) if self._backing is None else self._backing.get(path)
        if text is not None:
            if len(text) > _LARGE:
                self._note_large(path)
            item = from_text(path, text)
        elif path:
            item = ABSENT
        else:
            item = {}  # a root without fields is not stored
        self.items[path] = item
        return item

    def flush(self) -> None:
        """Write what was committed since the last flush, each path once."""
        dirty = self.dirty
        backing = self._backing
        if not dirty or backing is None:
            return
        for path, item in dirty.items():
            kind = type(item)
            if kind is int and -_SMALL < item < _SMALL:
                backing.put(path, f"v{item}")  # as `encode` has it
                continue
            if kind in SCALARS:
                text = "v" + encode(item)
            elif item is ABSENT or (not path and not item):
                backing.remove(path)
                continue
            else:
                text = to_text(item)
            if len(text) > _LARGE:
                self._note_large(path)
            backing.put(path, text)
        self.dirty = _CLEAN

    def dump(self) -> dict[str, str]:
        """All that was committed, path -> item, for the run's record; only of a memory without backing."""
        own = self._own
        for path, item in self.dirty.items():
            if item is ABSENT or (not path and not item):
                own.pop(path, None)
            else:
                own[path] = to_text(item)
        self.dirty = _CLEAN
        return dict(own)

    def load(self, items: dict[str, str]) -> None:
        """Start from what :meth:`dump` returned."""
        self._own.update(items)

    def _note_large(self, path: str) -> None:
        if self.large is None:
            self.large = []
        self.large.append(path)


class TaskMemory:
    """What one action sees: the memory of its run under its own changes. :attr:`root` is for the user."""

    __slots__ = ("_created", "_removed", "_reshaped", "guard", "opened", "run", "shape", "writes")

    def __init__(self, run: RunMemory, guard: Callable[[], None] | None) -> None:
        self.run = run
        self.guard = guard
        self.writes: dict[str, Item] = {}
        self.shape = run.shape  # of the tree that `writes` was made on
        # Paths this action removed, as far as the run's tree had them; True: to put an object in its place.
        self._removed: dict[str, bool] = _CLEAN
        self._created = _NOTHING_NEW  # objects in `writes` that are new, not just changed in their child list
        self._reshaped = False
        self.opened: MemoryView | None = None  # the root, once it was asked for

    @property
    def root(self) -> MemoryObject:
        """The object the user starts from."""
        root = self.opened
        if root is None:
            root = self.opened = self.view()
        return root

    def view(self) -> MemoryView:
        """A new view of the root."""
        return MemoryView(self, "")

    def values_read(self) -> Iterable[str]:
        """Paths of the fields whose values the action got; known to watched memories alone."""
        return ()

    def changes(self) -> tuple[dict[str, Item], list[str]]:
        """What a commit would do: values set and objects made, by path, and paths removed with all below them."""
        if self.shape != self.run.shape:
            self.rebase()
        changed = {
            path: item
            for path, item in self.writes.items()
            if item is not ABSENT and (type(item) is not dict or (path in self._created and not item))
        }
        return changed, [path for path in self._removed if self.item(path) is ABSENT]

    def commit(self) -> None:
        """Make the changes part of the run."""
        self.opened = None  # the view refers to us: left in place, only the cycle collector would free the two
        if not self.writes and not self._removed:
            return
        run = self.run
        if self.shape != run.shape:
            self.rebase()
        writes, self.writes = self.writes, {}
        run.items.update(writes)
        if run.dirty:
            run.dirty.update(writes)
        else:
            run.dirty = writes
        if self._reshaped:
            run.shape += 1
            self.shape = run.shape
            self._removed, self._created, self._reshaped = _CLEAN, _NOTHING_NEW, False

    def export(self) -> list[list[Any]]:
        """What the action has changed: ``[path]`` is removed, ``[path, null]`` an object, ``[path, item]`` a value."""
        if self.shape != self.run.shape:
            self.rebase()
        # Removed, a field that an object replaces would lose its place among its siblings.
        changes: list[list[Any]] = [[path] for path, in_place in self._removed.items() if not in_place]
        for path, item in self.writes.items():
            if type(item) is not dict:
                if item is not ABSENT:
                    changes.append([path, to_text(item)])
            elif path in self._created:
                changes.append([path, None])
        return changes

    def apply(self, changes: list[list[Any]]) -> None:
        """Make the changes again that :meth:`export` of another action told."""
        for path, *change in changes:
            if not change:
                if self.item(path) is not ABSENT:
                    self.remove(path)
            elif change[0] is None:
                self.make(path, overwrite=True, force=True)
            else:
                self.place(path, from_text(path, change[0]), overwrite=True, force=True)

    def item(self, path: str) -> Item:
        """The item at ``path`` as this action sees it."""
        item = self.writes.get(path, _UNKNOWN)
        return self.run.item(path) if item is _UNKNOWN else item

    def place(self, path: str, item: Item, *, overwrite: bool, force: bool = False) -> None:
        """Put a value where there is none yet; ``force`` makes objects of the values on the way."""
        split(path)  # the root is an object that nothing can replace
        old = self.item(path)
        if type(old) is dict:
            if not overwrite:
                raise MemoryOverwriteError(
                    f"{path!r} is an object, setting it would lose its fields",
                    where=f"memory path {path!r}",
                    fix="pass overwrite=True to replace it, or set a field of it",
                )
            self._erase(path)
        elif old is ABSENT:
            self._attach(path, force)
        self.writes[path] = item

    def make(self, path: str, *, overwrite: bool, force: bool = False) -> None:
        """Put an object where there is none yet."""
        old = self.item(path)
        if type(old) is dict:
            if force:  # somebody else has created it as well: it stays a change of ours
                self._children(path)
                self._note_created(path)
            return
        if old is ABSENT:
            self._attach(path, force)
        elif not overwrite:
            raise MemoryOverwriteError(
                f"{path!r} is a plain value, an object would replace it",
                where=f"memory path {path!r}",
                fix="pass overwrite=True to replace it",
            )
        elif not force:
            # Made again on another tree (`force`), the object only gets out of the way of a value there; noting that as
            # a removal would take along, at the next rebase, what a third action has put under the object since.
            self._remember_removal(path, in_place=True)
        self._create(path)

    def remove(self, path: str) -> bool:
        """Remove a field with all below it."""
        if self.item(path) is ABSENT:
            return False
        self._remember_removal(path)
        self._detach(path)
        return True

    def rebase(self) -> None:
        """Make the changes again on the tree as others have committed it meanwhile; ours win."""
        changes, created = self.writes, self._created
        self.shape = self.run.shape
        self.writes, self._created = {}, _NOTHING_NEW
        for path in self._removed:
            if self.item(path) is not ABSENT:
                self._detach(path)
        for path, change in changes.items():
            if type(change) is not dict:
                if change is not ABSENT:
                    self.place(path, change, overwrite=True, force=True)
            elif path in created:  # else only its child list changed, by changes that come by themselves
                self.make(path, overwrite=True, force=True)

    # --- changing the tree ------------------------------------------------------------------------------------------

    def _children(self, path: str) -> dict[str, None]:
        """The child list of an object, ours to change."""
        children: dict[str, None] = self.item(path)
        if path not in self.writes:
            self.writes[path] = children = children.copy()
            self._reshaped = True
        return children

    def _create(self, path: str) -> dict[str, None]:
        children: dict[str, None] = {}
        self.writes[path] = children
        self._note_created(path)
        self._reshaped = True
        return children

    def _note_created(self, path: str) -> None:
        if not self._created:
            self._created = set()
        self._created.add(path)

    def _attach(self, path: str, force: bool) -> None:
        """Add an absent path to its parent's child list, creating the objects missing on the way.

        A plain value on the way is an error, or becomes an object if ``force``.
        """
        segments = []
        above = path
        while True:
            above, segment = split(above)
            segments.append(segment)
            item = self.item(above)
            if type(item) is dict:
                break
            if item is not ABSENT and not force:
                raise MemoryPathError(
                    f"{path!r} leads through {above!r}, which is a plain value",
                    where=f"memory path {path!r}",
                    fix=f"choose another path, or make it an object first: new_object({above!r}, overwrite=True)",
                )
        children = self._children(above)
        while True:
            segment = segments.pop()
            children.pop(segment, None)  # one that has expired is still listed, and comes last when it is made anew
            children[segment] = None
            above = join(above, segment)
            if not segments:
                break
            children = self._create(above)
        # Out of the way of an earlier removal: the order of `writes` is the order in which children are made again.
        self.writes.pop(path, None)

    def _detach(self, path: str) -> None:
        """Remove an existing path, all below it, and its name in the parent's child list."""
        self._erase(path)
        parent, segment = split(path)
        if type(self.item(parent)) is dict:
            self._children(parent).pop(segment, None)

    def _erase(self, path: str) -> None:
        """Leave nothing at ``path`` and below; child lists say what there is."""
        self._reshaped = True
        paths = [path]
        while paths:
            path = paths.pop()
            item = self.item(path)
            if type(item) is dict:
                paths += [join(path, segment) for segment in item]
            self.writes.pop(path, None)
            if self.run.item(path) is not ABSENT:
                self.writes[path] = ABSENT

    def _remember_removal(self, path: str, *, in_place: bool = False) -> None:
        if self.run.item(path) is not ABSENT:
            if not self._removed:
                self._removed = {}
            self._removed[path] = in_place and self._removed.get(path, True)
