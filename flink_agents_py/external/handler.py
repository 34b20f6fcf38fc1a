"""What does the work of an external action, and what it is given to do it with."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from flink_agents_py.external.http import HttpClient
    from flink_agents_py.external.records import ActionCall
    from flink_agents_py.external.spec import ActionSpec

T = TypeVar("T")


class ActionHandler(Protocol):
    """Does one action. A plain function ``(call, session)`` is a handler too, sync or async.

    A handler returns what the action gave, as JSON-like data, or raises: an :class:`ActionError` to say which code it
    is, anything else for ``UNKNOWN`` (network errors and timeouts of Python's own are recognised). It is called from
    many tasks or threads at once. It may also have::

        def reconcile(self, call, session) -> Any

    sync or async, called instead of ``handle`` for a call that was in flight when the job died. It returns what
    ``handle`` would have returned, or raises as ``handle`` does; :class:`NotExecuted` says that the target never did
    it, and ``handle`` is called. Without it, ``handle`` is called again with the same idempotency key.
    """

    def handle(self, call: ActionCall, session: ActionSession) -> Any:
        """Do it; off the operator thread. An ``async def`` runs on the asyncio loop of the process."""


class Shared:
    """What the handlers of one subtask share (connection pools); closed when the subtask ends."""

    def __init__(self) -> None:
        self._things: dict[str, tuple[Any, Callable[[Any], Any] | None]] = {}
        self._lock = threading.Lock()

    def get(self, name: str, make: Callable[[], T], close: Callable[[T], Any] | None = None) -> T:
        """The thing of that name, made at the first call. ``close`` may be sync or async."""
        with self._lock:
            if name not in self._things:
                self._things[name] = (make(), close)
            thing: T = self._things[name][0]
            return thing

    async def aclose(self) -> None:
        """Close everything, on the loop; what fails to close is left behind."""
        with self._lock:
            things = list(self._things.values())
            self._things.clear()
        for thing, close in reversed(things):
            if close is not None:
                with suppress(Exception):
                    closing = close(thing)
                    if isinstance(closing, Awaitable):
                        await closing


class ActionSession:
    """One attempt, as its handler sees it.

    Args:
        spec: the spec in force.
        idempotency_key: to send along: the same in every attempt, after restarts and rescaling too.
        attempt: number of the attempt, from 1.
        seconds: what is left of the total timeout.
        shared: see :meth:`share`.
    """

    __slots__ = ("_deadline", "_http", "_shared", "attempt", "idempotency_key", "spec")

    def __init__(self, spec: ActionSpec, idempotency_key: str, attempt: int, seconds: float, shared: Shared) -> None:
        self.spec = spec
        self.idempotency_key = idempotency_key
        self.attempt = attempt
        self._deadline = time.monotonic() + seconds
        self._shared = shared
        self._http: HttpClient | None = None

    def remaining_s(self) -> float:
        """Seconds left of the total timeout, not below 0."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def http(self) -> HttpClient:
        """An HTTP client with the connect and read timeouts of the spec and the deadline of the call (aiohttp).

        For async handlers. Its errors are those of :mod:`flink_agents_py.external.failures` already.
        """
        if self._http is None:
            from flink_agents_py.external.http import HttpClient

            self._http = HttpClient(self)
        return self._http

    def share(self, name: str, make: Callable[[], T], close: Callable[[T], Any] | None = None) -> T:
        """Something all handlers of this subtask share, made once; closed (sync or async) when the subtask ends."""
        return self._shared.get(name, make, close)
