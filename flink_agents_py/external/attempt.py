"""One attempt of a call as the executor runs it: the handler called, its result kept, its failure made a code."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import inspect
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from flink_agents_py.errors import EncodeError
from flink_agents_py.external.classify import action_error
from flink_agents_py.external.failures import ActionError, NotExecuted
from flink_agents_py.external.handler import ActionSession, Shared
from flink_agents_py.external.records import ActionCall, Oversized
from flink_agents_py.serde import encode

if TYPE_CHECKING:
    from flink_agents_py.external.bindings import Binding
    from flink_agents_py.external.pace import Pace


@dataclass(frozen=True)
class Returned:
    """What a handler returned, within the limit: size and digest are those of the whole."""

    value: Any
    size: int
    digest: str
    truncated: bool = False


class _Attempt:
    """Calls a handler. It has the name of the action, as functions have theirs."""

    def __init__(self, binding: Binding, key: str, shared: Shared, pace: Pace | None, *, reconcile: bool) -> None:
        self.__qualname__ = binding.spec.name
        self.__module__ = __name__
        self.binding = binding
        self.reconcile = reconcile
        self._key = key
        self._shared = shared
        self._pace = pace

    def _session(self, attempt: int, seconds: float) -> ActionSession:
        return ActionSession(self.binding.spec, self._key, attempt, seconds, self._shared)


class AsyncAttempt(_Attempt):
    """Of an ``async def`` handler, on the loop."""

    async def __call__(self, call: ActionCall, *, attempt: int, seconds: float) -> Returned:
        """Do it.

        Raises:
            ActionError: it failed; the code is the error's.
        """
        binding = self.binding
        call = _own(call)
        session = self._session(attempt, seconds)
        if self._pace is not None:
            await self._pace.wait()
        try:
            if self.reconcile and binding.reconcile is not None:
                try:
                    return keep(await binding.reconcile(call, session), binding.spec.max_result_bytes)
                except NotExecuted:
                    pass
            return keep(await binding.handle(call, session), binding.spec.max_result_bytes)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise action_error(error) from error


class SyncAttempt(_Attempt):
    """Of a plain function, on a thread."""

    def __call__(self, call: ActionCall, *, attempt: int, seconds: float) -> Returned:
        """Do it.

        Raises:
            ActionError: it failed; the code is the error's.
        """
        binding = self.binding
        call = _own(call)
        session = self._session(attempt, seconds)
        if self._pace is not None:
            self._pace.wait_on_thread()
        try:
            if self.reconcile and binding.reconcile is not None:
                try:
                    return keep(binding.reconcile(call, session), binding.spec.max_result_bytes)
                except NotExecuted:
                    pass
            value = binding.handle(call, session)
            if inspect.iscoroutine(value):
                value.close()
                raise ActionError("the handler returned a coroutine; declare it async def")
            return keep(value, binding.spec.max_result_bytes)
        except Exception as error:
            raise action_error(error) from error


def _own(call: ActionCall) -> ActionCall:
    """A copy: what a handler does to the parameters must not reach the next attempt or the dead letter."""
    return dataclasses.replace(call, params=copy.deepcopy(call.params))


def attempt_of(
    binding: Binding, key: str, shared: Shared, pace: Pace | None, *, reconcile: bool
) -> AsyncAttempt | SyncAttempt:
    """The attempt for a handler, sync or async."""
    kind = AsyncAttempt if binding.is_async else SyncAttempt
    return kind(binding, key, shared, pace, reconcile=reconcile)


def keep(value: Any, limit: int) -> Returned:
    """The value if it is within ``limit`` bytes, else the first part of it as text, with a mark.

    A value that has no JSON form was an outcome all the same: it is kept as its ``repr``, marked as truncated.
    """
    if isinstance(value, Returned):
        return value
    if isinstance(value, Oversized):
        head = value.head if isinstance(value.head, bytes) else value.head.encode(errors="replace")
        return Returned(_cut(head, limit, value.size, value.digest), value.size, value.digest, truncated=True)
    whole = True
    if isinstance(value, str):
        data = value.encode(errors="replace")
    elif isinstance(value, (bytes, bytearray)):
        data = bytes(value)
    else:
        try:
            data = encode(value, allow_pickle=False).encode()
        except EncodeError:
            data, whole = repr(value).encode(errors="replace"), False
    digest = blake2b(data, digest_size=16).hexdigest()
    if whole and len(data) <= limit:
        return Returned(value, len(data), digest)
    return Returned(_cut(data, limit, len(data), digest), len(data), digest, truncated=True)


def _cut(data: bytes, limit: int, size: int, digest: str) -> str:
    return f"{data[:limit].decode(errors='ignore')}... [truncated: {size} bytes, blake2b {digest}]"
