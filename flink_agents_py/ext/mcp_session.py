"""Sessions with an MCP server: opened when needed, opened anew when lost, closed by the task that opened them.

The SDK wants a session entered and left in one task (its cancel scopes belong to tasks), while calls come from the
tasks of durable calls. So a task of its own keeps each session, and calls are made beside it.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar

from flink_agents_py.errors import McpUnavailableError
from flink_agents_py.resources.secrets import redact

T = TypeVar("T")

Open = Callable[[], AbstractAsyncContextManager[Any]]

_CLOSE_S = 5.0
_CONNECTION_CLOSED = -32000
_TRANSPORTS = ("anyio", "httpx", "httpcore")

_keepers: set[asyncio.Task[None]] = set()  # the loop itself holds its tasks weakly only


class McpSession:
    """An open session, or one being opened. Made in the loop it belongs to.

    Args:
        open: enters a session; run in the keeper's task.
        where: how errors call the server.
        patience_s: for the opening.
    """

    def __init__(self, open: Open, where: str, patience_s: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.memo: dict[str, Any] = {}
        """What was learnt in this session and stays true as long as it lasts."""
        self._where = where
        self._stop = asyncio.Event()
        self._client: asyncio.Future[Any] = self.loop.create_future()
        self._lost = False
        self._keeper = self.loop.create_task(self._keep(open))
        _keepers.add(self._keeper)
        self._keeper.add_done_callback(_keepers.discard)
        self._patience = self.loop.call_later(patience_s, self._keeper.cancel)

    @property
    def usable(self) -> bool:
        """Whether a call is worth trying."""
        return not self._lost and not self._keeper.done() and not self._stop.is_set()

    async def use(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Make a call on the session's client.

        Raises:
            McpUnavailableError: the server cannot be reached, or was lost before it answered.
        """
        # Shielded: one call's timeout is no reason to give up the opening that others wait for.
        client = await asyncio.shield(self._client)
        calling = asyncio.ensure_future(call(client))
        try:
            await asyncio.wait({calling, self._keeper}, return_when=asyncio.FIRST_COMPLETED)
            if calling.done() and not calling.cancelled():
                return calling.result()
        except Exception as error:
            if not _says_lost(error):
                raise
            self._give_up()
            raise self._unavailable(error) from error
        finally:
            calling.cancel()
        self._give_up()
        raise self._unavailable(None)

    def stop(self) -> None:
        """Let the keeper close the session; from any thread."""
        with suppress(RuntimeError):  # the loop is closed: so is the session
            self.loop.call_soon_threadsafe(self._stop.set)

    async def close(self) -> None:
        """Close the session and wait for it, a few seconds at most."""
        self._stop.set()
        await asyncio.wait({self._keeper}, timeout=_CLOSE_S)

    def _give_up(self) -> None:
        self._lost = True
        self._stop.set()

    async def _keep(self, open: Open) -> None:
        try:
            async with open() as client:
                self._patience.cancel()
                self._client.set_result(client)
                await self._stop.wait()
        except BaseException as error:  # noqa: BLE001 - whatever ended it, whoever waits must hear of it
            if not self._client.done():
                self._client.set_exception(self._unavailable(error))
                self._client.exception()  # told to whoever waits; nobody may
            # The transport's error comes out here when a session is lost; the calls on it have said so.
        finally:
            self._patience.cancel()
            self._lost = True

    def _unavailable(self, error: BaseException | None) -> McpUnavailableError:
        if self._client.done() and not self._client.cancelled() and self._client.exception() is None:
            what = "the connection to the MCP server was lost"
        else:
            what = "the MCP server cannot be reached"
        return McpUnavailableError(
            f"{what}: {_words(error)}" if error is not None else what,
            where=self._where,
            fix="it is contacted again at the next attempt; check that it runs where the workers are",
        )


class McpConnection:
    """The session of one event loop: the one there is, or the next."""

    def __init__(self, open: Open, where: str, patience_s: float) -> None:
        self._open = open
        self._where = where
        self._patience_s = patience_s
        self._session: McpSession | None = None

    def session(self) -> McpSession:
        """The session, opened anew if the last one was lost."""
        if self._session is None or not self._session.usable:
            self._session = McpSession(self._open, self._where, self._patience_s)
            # Flink does not always close what it has opened (S15): the session goes when nobody can use it any more.
            weakref.finalize(self, self._session.stop).atexit = False
        return self._session

    async def close(self) -> None:
        """Close the session, if there is one."""
        if self._session is not None:
            await self._session.close()


def _says_lost(error: Exception) -> bool:
    # -32000 is also what servers may answer for reasons of their own; the SDK's client uses it with this text.
    if getattr(error, "code", None) == _CONNECTION_CLOSED:
        return "connection closed" in str(error).lower() or "session terminated" in str(error).lower()
    return isinstance(error, OSError) or type(error).__module__.startswith(_TRANSPORTS)


def _words(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "it did not answer in time"
    inner = _innermost(error)
    return redact(f"{type(inner).__name__}: {inner}")


def _innermost(error: BaseException | None) -> BaseException | None:
    while True:
        inner = getattr(error, "exceptions", None)  # an exception group
        if not inner:
            return error
        error = inner[0]
