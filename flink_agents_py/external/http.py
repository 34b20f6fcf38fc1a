"""The HTTP client a handler gets: timeouts set, errors already sorted into codes, bodies bounded.

::

    async def open_ticket(call: ActionCall, session: ActionSession) -> Any:
        response = await session.http.post("/tickets", json=call.params)
        return response.result()

It is aiohttp underneath (extra ``http``), one session for all calls of a process. aiohttp is imported with the first
request, or by :func:`warm_up`.
"""

from __future__ import annotations

import asyncio
import json as json_text
from collections.abc import AsyncGenerator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from flink_agents_py.external.classify import action_error, error_of_status
from flink_agents_py.external.failures import ActionError, TotalTimeout
from flink_agents_py.external.records import Oversized

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

    from flink_agents_py.external.handler import ActionSession

KEPT_BYTES = 1024 * 1024
"""Of a body at least so much is kept, even if results may be but short: handlers often take only a part of it."""

MOST_READ_BYTES = 64 * 1024 * 1024
"""A body is read on for its size and digest up to here; then the connection is closed."""

_NO_SUCCESS = 300
_SHOWN_BYTES = 500
# Of each loop its session, and the generator that keeps it open.
_sessions: dict[asyncio.AbstractEventLoop, tuple[ClientSession, AsyncGenerator[ClientSession, None]]] = {}


class HttpResponse:
    """An answer that has been read, up to the limit.

    Attributes:
        status: such as 200.
        headers: names in lower case.
        body: the bytes, or as many of them as the limit allows.
        size: bytes of the whole body as far as it was read.
        digest: hex blake2b-128 of those.
        complete: whether ``body`` is all of it.
        exact: whether ``size`` and ``digest`` are of all of it (above ``MOST_READ_BYTES`` they are not).
    """

    __slots__ = ("body", "complete", "digest", "exact", "headers", "size", "status")

    def __init__(
        self, status: int, headers: Mapping[str, str], body: bytes, *, size: int, digest: str, exact: bool = True
    ) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.size = size
        self.digest = digest
        self.exact = exact
        self.complete = size == len(body) and exact

    def text(self) -> str:
        """The body as text; bytes that are none are replaced."""
        return self.body.decode(self._charset(), errors="replace")

    def json(self) -> Any:
        """The body as JSON, whatever type the server says it has; ``None`` if it is empty.

        Raises:
            ActionError: it is no JSON, or was cut off.
        """
        if not self.complete:
            raise ActionError(f"the body has {self.size:,} bytes and was cut off at {len(self.body):,}")
        if not self.body:
            return None
        try:
            return json_text.loads(self.body)
        except ValueError as error:
            raise ActionError(f"HTTP {self.status}, but the body is no JSON ({error}): {self._shown()}") from None

    def result(self) -> Any:
        """What a handler may return: the JSON, or the text, or what is left of a body above the limit.

        Raises:
            ActionError: the server says it is JSON, and it is not.
        """
        if not self.complete:
            return Oversized(head=self.text(), size=self.size, digest=self.digest)
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type == "application/json" or media_type.endswith("+json") or not self.body:
            return self.json()
        return self.text()

    def _charset(self) -> str:
        _, _, charset = self.headers.get("content-type", "").partition("charset=")
        charset = charset.partition(";")[0].strip(" \"'")
        try:
            b"".decode(charset or "utf-8")
        except LookupError:
            return "utf-8"
        return charset or "utf-8"

    def _shown(self) -> str:
        return self.body[:_SHOWN_BYTES].decode(errors="replace")


class HttpClient:
    """The client of one attempt: its requests share what is left of the total timeout.

    Relative URLs are below the spec's target, if that is a URL. Requests carry the header ``Idempotency-Key``, unless
    they bring their own.
    """

    __slots__ = ("_base", "_session")

    def __init__(self, session: ActionSession) -> None:
        self._session = session
        target = session.spec.target
        self._base = target.rstrip("/") if "://" in target else ""

    async def get(self, url: str = "", **options: Any) -> HttpResponse:
        """``GET``; see :meth:`request`."""
        return await self.request("GET", url, **options)

    async def post(self, url: str = "", **options: Any) -> HttpResponse:
        """``POST``; see :meth:`request`."""
        return await self.request("POST", url, **options)

    async def put(self, url: str = "", **options: Any) -> HttpResponse:
        """``PUT``; see :meth:`request`."""
        return await self.request("PUT", url, **options)

    async def patch(self, url: str = "", **options: Any) -> HttpResponse:
        """``PATCH``; see :meth:`request`."""
        return await self.request("PATCH", url, **options)

    async def delete(self, url: str = "", **options: Any) -> HttpResponse:
        """``DELETE``; see :meth:`request`."""
        return await self.request("DELETE", url, **options)

    async def request(
        self,
        method: str,
        url: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        expected: tuple[int, ...] = (),
        max_body_bytes: int | None = None,
        **options: Any,
    ) -> HttpResponse:
        """Send a request and read the answer. It is sent once: retries are the action's policy.

        Args:
            url: absolute, or below the target.
            expected: error statuses that are an answer like any other, such as 404 of a look-up.
            max_body_bytes: more of the body is not kept; default: the spec's limit for results, or ``KEPT_BYTES``,
                whichever is more.
            options: aiohttp's: ``json``, ``data``, ``params``, ``ssl``, ``proxy``, ...

        Raises:
            NetworkUnavailable: no connection (refused, unknown name, TLS), or one that broke off.
            ConnectTimeout: no connection (name lookup and TLS included) within the spec's connect timeout.
            ReadTimeout: the server was silent for the spec's read timeout.
            TotalTimeout: what was left of the total timeout has passed.
            BusinessRejected: status 3xx or 4xx.
            BusinessRetryable: status 408, 425, 429 or 5xx, with ``Retry-After`` if the server sent one.
            ActionError: what came back is not HTTP (code ``UNKNOWN``).
        """
        import aiohttp

        remaining = self._session.remaining_s()
        if remaining <= 0:
            raise TotalTimeout("nothing of the total timeout is left for a request")
        sent = dict(headers or {})
        key = self._session.idempotency_key
        if key and not any(name.lower() == "idempotency-key" for name in sent):
            sent["Idempotency-Key"] = key
        limits = aiohttp.ClientTimeout(
            total=remaining,
            connect=self._session.spec.timeouts.connect,
            sock_read=self._session.spec.timeouts.read,
            # aiohttp rounds deadlines above this up to whole seconds.
            ceil_threshold=float("inf"),
        )
        if max_body_bytes is None:
            max_body_bytes = max(self._session.spec.max_result_bytes, KEPT_BYTES)
        whole = self._absolute(url)
        where = f"{method} {_without_secrets(whole)}"
        try:
            session = await _session()
            async with session.request(method, whole, headers=sent, timeout=limits, **options) as answer:
                response = await _read(answer, max_body_bytes)
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            if isinstance(error, asyncio.TimeoutError) and not isinstance(error, aiohttp.ServerTimeoutError):
                raise TotalTimeout(f"{where}: the total timeout passed") from error
            raise action_error(error, where) from error
        if response.status >= _NO_SUCCESS and response.status not in expected:
            retry_after = response.headers.get("retry-after")
            raise error_of_status(response.status, f"{where}: {response._shown()}", retry_after)  # noqa: SLF001
        return response

    def _absolute(self, url: str) -> str:
        if not self._base or "://" in url:
            return url
        return f"{self._base}/{url.lstrip('/')}" if url else self._base


def _without_secrets(url: str) -> str:
    """For messages, which travel into dead letters: no user, password or query, where tokens like to be."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def warm_up() -> None:
    """Import aiohttp now (some 200 ms), so that the first request need not.

    Raises:
        ImportError: it is not installed.
    """
    import aiohttp  # noqa: F401


async def _read(answer: ClientResponse, limit: int) -> HttpResponse:
    kept = bytearray()
    digest = blake2b(digest_size=16)
    size = 0
    exact = True
    async for chunk in answer.content.iter_any():
        size += len(chunk)
        digest.update(chunk)
        if len(kept) < limit:
            kept += chunk[: limit - len(kept)]
        if size > max(MOST_READ_BYTES, limit):
            exact = False
            answer.close()  # not given back to the pool: the rest of the body is on it
            break
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return HttpResponse(answer.status, headers, bytes(kept), size=size, digest=digest.hexdigest(), exact=exact)


# --- one session for each loop ----------------------------------------------------------------------------------------


async def _session() -> ClientSession:
    loop = asyncio.get_running_loop()
    session, _ = _sessions.get(loop, (None, None))
    if session is None or session.closed:
        for ended in [other for other in _sessions if other.is_closed()]:
            del _sessions[ended]
        keeper = _keeper()
        session = await keeper.__anext__()
        _sessions[loop] = session, keeper
    return session


async def _keeper() -> AsyncGenerator[ClientSession, None]:
    """Keeps a session open until its loop shuts its generators down: nobody else would know when to close it."""
    import aiohttp

    async with aiohttp.ClientSession(
        # No limit here: how many calls may be in flight is said by the specs, and waiting for a connection would look
        # like a slow network.
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),  # what one call was given is not the next one's
    ) as session:
        # aiohttp sends a PUT or DELETE again if a kept connection breaks: an attempt nobody has counted (S8).
        session._retry_connection = False  # noqa: SLF001
        yield session
