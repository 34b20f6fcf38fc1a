"""Long-term memory as an action sees it: sets by name, each call of them a durable one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flink_agents_py.errors import EncodeError, LongTermMemoryError
from flink_agents_py.long_term.items import Compaction, MemorySetItem
from flink_agents_py.long_term.scope import Binding, MemoryBackend, Place, Scope
from flink_agents_py.policies import RetryPolicy
from flink_agents_py.resources.base import ResourceType
from flink_agents_py.resources.chat_models import TRANSIENT
from flink_agents_py.resources.filters import parse_filter
from flink_agents_py.serde import encode

if TYPE_CHECKING:
    from flink_agents_py.context import RunnerContext

RESERVED = "~"
"""What names in the metadata of our own begin with, and those of users do not."""

Metadatas = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None

_RETRY = RetryPolicy(max_attempts=4, retry_on=TRANSIENT)
_IDS = "long-term memory takes ids as texts"


class LongTermMemory:
    """The memory sets of one key of one job: ``ctx.long_term_memory``.

    A set belongs to the run it was got in: job, key and name are fixed then, whatever thread uses it later. Sets of
    another key or job cannot be reached, except by an explicit :meth:`shared` scope.
    """

    __slots__ = ("_compaction", "_ctx", "_elsewhere", "_ordinal", "_scope", "_task", "backend")

    def __init__(
        self,
        ctx: RunnerContext,
        scope: Scope,
        task: str,
        backend: MemoryBackend,
        compaction: Compaction | None,
        *,
        ordinal: Callable[[], int],
        elsewhere: Callable[[], bool],
    ) -> None:
        self._ctx = ctx
        self._scope = scope
        self._task = task
        self._compaction = compaction
        self._ordinal = ordinal  # of the action's next durable call
        self._elsewhere = elsewhere  # whether this is not the action's own thread: inside of a durable call
        self.backend = backend

    def get_memory_set(self, name: str, compaction: Compaction | None = None) -> MemorySet:
        """The set of that name; one that nobody has added to is empty.

        Args:
            compaction: in place of what the configuration says.

        Raises:
            UnknownResourceError: nobody declared the chat model that is to write summaries.
        """
        if not name:
            raise LongTermMemoryError(f"{name!r} is no name of a memory set", fix="give it a text that is not empty")
        policy = self._compaction if compaction is None else compaction
        if policy is not None and not policy.possible:
            policy = None
        if policy is not None and policy.chat_model is not None:
            # One that nobody declared is better missed here than in the background.
            self._ctx.get_resource(policy.chat_model, ResourceType.CHAT_MODEL)
        return MemorySet(
            self._ctx,
            Binding(name, self._scope.partition(name), self._task, self._ctx.timestamp, policy),
            self.backend,
            self._ordinal,
            self._elsewhere,
        )

    def shared(self, scope: str) -> LongTermMemory:
        """The memory of everybody who names this scope: other keys, other agents, and other jobs on the same store."""
        return LongTermMemory(
            self._ctx,
            Scope.shared(scope),
            self._task,
            self.backend,
            self._compaction,
            ordinal=self._ordinal,
            elsewhere=self._elsewhere,
        )

    def delete_memory_set(self, name: str) -> bool:
        """Delete a set with all its items, on this thread; whether there were any."""
        return self.get_memory_set(name).delete()

    def adelete_memory_set(self, name: str) -> Awaitable[bool]:
        """The same off the operator thread."""
        return self.get_memory_set(name).adelete()


class MemorySet:
    """Items of one key under one name.

    Each method is a durable call: after a crash, what it returned is returned again, and an item that was added is the
    same item. Those that begin with ``a`` are awaited (or passed to ``ctx.gather``) and belong into an ``async def``
    action; the others block the operator thread while the store works, as ``ctx.durable_execute`` does. In a function
    that is a durable call itself, the blocking ones work directly, for the key of the run that got the set.
    """

    __slots__ = ("_backend", "_binding", "_ctx", "_elsewhere", "_ordinal")

    def __init__(
        self,
        ctx: RunnerContext,
        binding: Binding,
        backend: MemoryBackend,
        ordinal: Callable[[], int],
        elsewhere: Callable[[], bool],
    ) -> None:
        self._ctx = ctx
        self._binding = binding
        self._backend = backend
        self._ordinal = ordinal
        self._elsewhere = elsewhere

    @property
    def name(self) -> str:
        """The name it was got by."""
        return self._binding.set_name

    def add(self, items: Any, metadatas: Metadatas = None, *, idempotency_key: str | None = None) -> list[str]:
        """Add items; returns their ids. They stem from the run, so that adding them again after a crash does nothing.

        Args:
            items: a text or structured value, or a list of them.
            metadatas: for filters: JSON values by name, for all items alike or a list with those of each.
            idempotency_key: stands for this addition; made from the run if not given.

        Raises:
            EncodeError: a value cannot be stored.
            LongTermMemoryError: the metadata do not fit.
        """
        added: list[str] = self._now("add", *_values(items, metadatas), idempotency_key=idempotency_key)
        return added

    def aadd(
        self, items: Any, metadatas: Metadatas = None, *, idempotency_key: str | None = None
    ) -> Awaitable[list[str]]:
        """:meth:`add`, off the operator thread."""
        return self._later("add", *_values(items, metadatas), idempotency_key=idempotency_key)

    def get(
        self,
        ids: str | Sequence[str] | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int = 100,
    ) -> list[MemorySetItem]:
        """Items by id, in that order; or those whose metadata pass a filter, oldest first.

        Raises:
            FilterError: the filter is malformed.
        """
        found: list[MemorySetItem] = self._now("get", _ids(ids), _filter(filters), limit)
        return found

    def aget(
        self,
        ids: str | Sequence[str] | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int = 100,
    ) -> Awaitable[list[MemorySetItem]]:
        """:meth:`get`, off the operator thread."""
        return self._later("get", _ids(ids), _filter(filters), limit)

    def search(
        self, query: str, limit: int = 10, filters: Mapping[str, Any] | None = None, **options: Any
    ) -> list[MemorySetItem]:
        """Items that fit a text, best first.

        Args:
            filters: on metadata, as vector stores take them.
            options: ``mode="semantic" | "keyword" | "hybrid"``.

        Raises:
            FilterError: the filter is malformed.
        """
        found: list[MemorySetItem] = self._now("search", query, limit, _filter(filters), options)
        return found

    def asearch(
        self, query: str, limit: int = 10, filters: Mapping[str, Any] | None = None, **options: Any
    ) -> Awaitable[list[MemorySetItem]]:
        """:meth:`search`, off the operator thread."""
        return self._later("search", query, limit, _filter(filters), options)

    def update(
        self, id: str, value: Any, metadata: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> bool:
        """Give an item another value; other metadata too, if given. ``False`` if it is not (or no longer) there."""
        done: bool = self._now("update", id, *_value(value, metadata), idempotency_key=idempotency_key)
        return done

    def aupdate(
        self, id: str, value: Any, metadata: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> Awaitable[bool]:
        """:meth:`update`, off the operator thread."""
        return self._later("update", id, *_value(value, metadata), idempotency_key=idempotency_key)

    def delete(self, ids: str | Sequence[str] | None = None) -> bool:
        """Delete items by id, all of the set if none are given; whether there were any."""
        done: bool = self._now("delete", _ids(ids))
        return done

    def adelete(self, ids: str | Sequence[str] | None = None) -> Awaitable[bool]:
        """:meth:`delete`, off the operator thread."""
        return self._later("delete", _ids(ids))

    # --- as durable calls ---------------------------------------------------------------------------------------------

    def _now(self, operation: str, *arguments: Any, idempotency_key: str | None = None) -> Any:
        if self._elsewhere():
            return getattr(self._backend, operation)(self._binding, Place(-1, idempotency_key or ""), *arguments)
        return self._ctx.durable_execute(
            self._operation(operation),
            self._binding.partition,
            *arguments,
            name=f"long_term_memory.{operation}",
            idempotency_key=idempotency_key,
        )

    def _later(self, operation: str, *arguments: Any, idempotency_key: str | None = None) -> Awaitable[Any]:
        return self._ctx.durable_execute_async(
            self._operation(operation),
            self._binding.partition,
            *arguments,
            name=f"long_term_memory.{operation}",
            retry=_RETRY,
            idempotency_key=idempotency_key,
        )

    def _operation(self, operation: str) -> Callable[..., Any]:
        method, binding, ordinal = getattr(self._backend, operation), self._binding, self._ordinal()

        # The arguments are the identity of the durable call, the partition is among them; the rest is bound here.
        def run(_partition: str, *arguments: Any, idempotency_key: str) -> Any:
            return method(binding, Place(ordinal, idempotency_key), *arguments)

        return run


def _value(value: Any, metadata: Mapping[str, Any] | None) -> tuple[Any, dict[str, Any] | None]:
    values, described = _values([value], metadata)
    return values[0], None if metadata is None else described[0]


def _values(items: Any, metadatas: Metadatas) -> tuple[list[Any], list[dict[str, Any]]]:
    values = list(items) if isinstance(items, (list, tuple)) else [items]
    for value in values:
        if value is None or (isinstance(value, str) and not value.strip()):
            raise LongTermMemoryError(f"{value!r} is nothing to remember", fix="add texts or values that say something")
        encode(value)  # raises here, where the action can be blamed, and not in a call that is tried again
    if metadatas is None or isinstance(metadatas, Mapping):
        described = [dict(metadatas or {}) for _ in values]
    else:
        described = [dict(metadata) for metadata in metadatas]
    if len(described) != len(values):
        raise LongTermMemoryError(
            f"{len(values)} items, and metadata of {len(described)}", fix="give one for all, or one for each"
        )
    for metadata in described:
        _check(metadata)
    return values, described


def _check(metadata: dict[Any, Any]) -> None:
    for name in metadata:
        if not isinstance(name, str) or name.startswith((RESERVED, "$")) or '"' in name or "\\" in name:
            raise LongTermMemoryError(
                f"{name!r} is no name of a metadata field",
                fix=f"use texts without quotes and backslashes that begin neither with {RESERVED} nor with $",
            )
    try:
        json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise EncodeError(f"metadata {metadata!r} are no JSON: {error}", fix="use texts, numbers, lists, ...") from None


def _ids(ids: str | Sequence[str] | None) -> list[str] | None:
    wanted = [ids] if isinstance(ids, str) else ids
    if wanted is None:
        return None
    if not all(isinstance(one, str) for one in wanted):
        raise LongTermMemoryError(f"{_IDS}, not {ids!r}", fix="pass what add() returned, or item.id")
    return list(wanted)


def _filter(filters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    parse_filter(filters)
    return None if not filters else dict(filters)
