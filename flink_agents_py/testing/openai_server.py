"""A server on this machine that speaks OpenAI's protocol and says what a test wants (needs ``aiohttp``)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.testing.openai_replies import ModelFault, ModelReply, ModelRequest, completion, embeddings

if TYPE_CHECKING:
    from aiohttp import web
    from typing_extensions import Self

Answer = ModelReply | ModelFault | str | dict[str, Any] | list[Any] | None
Rule = Callable[[ModelRequest], Answer]


class OpenAIServer:
    """Chat completions (with tools and structured output), embeddings and models under ``url``; Azure's paths too.

    Use it as a context manager. It runs on a thread of its own and listens on the loopback interface alone::

        with OpenAIServer(["first answer", ModelFault(429, retry_after_ms=20), "second answer"]) as server:
            ...  # point a client to server.url
        assert [request.text for request in server.answered] == ["one", "two"]

    Args:
        replies: what to say: one answer for everything, answers in the order in which requests arrive, or a function
            of the request. A text or a :class:`ModelReply` is said, other JSON values are sent as JSON text, a
            :class:`ModelFault` goes wrong. Past the last of a list, requests are refused (400, which nobody retries).
        faults: function of the request that may answer a fault first; it is asked about embeddings as well.
        latency_s: seconds before each answer.
        ledger: keep the requests; a benchmark does without.
        port: 0 takes a free one.
    """

    def __init__(
        self,
        replies: Rule | Iterable[Answer] | str = "ok",
        *,
        faults: Callable[[ModelRequest], ModelFault | None] | None = None,
        latency_s: float = 0.0,
        ledger: bool = True,
        port: int = 0,
    ) -> None:
        self._rule = _rule_of(replies)
        self._faults = faults
        self._latency_s = latency_s
        self._ledger = ledger
        self._port = port
        self._requests: list[ModelRequest] = []
        self._seen: Counter[str] = Counter()
        self._number = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def requests(self) -> list[ModelRequest]:
        """Every request so far, in order of arrival."""
        return list(self._requests)

    @property
    def answered(self) -> list[ModelRequest]:
        """The requests that got an answer (status 200): what a provider would send a bill for."""
        return [request for request in self._requests if request.status == 200]  # noqa: PLR2004 - HTTP's "OK"

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listen; the same port again after :meth:`close`."""
        try:
            import aiohttp  # noqa: F401 - said here, not on the server's thread
        except ImportError:
            raise EnvironmentSetupError(
                "OpenAIServer needs aiohttp, which is not installed", fix="pip install aiohttp"
            ) from None
        ready = threading.Event()
        failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(ready, failure), name="openai-server", daemon=True)
        self._thread.start()
        ready.wait()
        if failure:
            raise failure[0]
        return self

    def close(self) -> None:
        """Stop listening and hang up on whoever still waits."""
        if self._thread is not None and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(timeout=10)
            self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, ready: threading.Event, failure: list[BaseException]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except OSError as error:  # the port is taken
            failure.append(error)
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        from aiohttp import web

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_post("/{prefix:.*}chat/completions", self._chat)
        app.router.add_post("/{prefix:.*}embeddings", self._embeddings)
        app.router.add_get("/{prefix:.*}models", self._models)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", self._port, backlog=4096)
            await site.start()
            self._port = runner.addresses[0][1]
            ready.set()
            await self._stop.wait()
        finally:
            await runner.cleanup()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        request = await self._arrived("chat", http)
        if request.body.get("stream"):
            return self._answer(request, _error(400, "this server does not stream"), 400)
        fault = self._faults and self._faults(request)
        answer = fault or self._rule(request)
        if isinstance(answer, ModelFault):
            return await self._go_wrong(request, answer, http)
        reply = answer if isinstance(answer, ModelReply) else ModelReply(answer)
        await asyncio.sleep(self._latency_s if reply.latency_s is None else reply.latency_s)
        return self._answer(request, completion(reply, request))

    async def _embeddings(self, http: web.Request) -> web.StreamResponse:
        request = await self._arrived("embeddings", http)
        fault = self._faults and self._faults(request)
        if fault is not None:
            return await self._go_wrong(request, fault, http)
        await asyncio.sleep(self._latency_s)
        return self._answer(request, embeddings(request))

    async def _models(self, _http: web.Request) -> web.StreamResponse:
        from aiohttp import web

        return web.json_response({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    async def _arrived(self, kind: str, http: web.Request) -> ModelRequest:
        body = json.loads(await http.read())
        self._number += 1
        request = ModelRequest(self._number, kind, body, http.headers)
        if self._ledger:
            request.repeat = self._seen[request.digest]
            self._seen[request.digest] += 1
            self._requests.append(request)
        return request

    async def _go_wrong(self, request: ModelRequest, fault: ModelFault, http: web.Request) -> web.StreamResponse:
        if fault.hang:
            await asyncio.Event().wait()  # until the client, or the server, gives up
        await asyncio.sleep(self._latency_s)
        answer = self._answer(request, _error(fault.status, fault.message), fault.status or 500, fault.headers)
        if fault.status == 0 and http.transport is not None:
            request.status = 0
            http.transport.abort()
        return answer

    @staticmethod
    def _answer(
        request: ModelRequest, body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
    ) -> web.Response:
        from aiohttp import web

        # Before the bytes leave: a client that has its answer finds it in the ledger.
        request.status = status
        return web.Response(
            body=json.dumps(body).encode(), status=status, headers=headers, content_type="application/json"
        )


def _rule_of(replies: Rule | Iterable[Answer] | str) -> Rule:
    if callable(replies):
        return replies
    if isinstance(replies, (str, ModelReply, ModelFault, dict)):
        return lambda _request: replies
    in_order = iter(replies)
    return lambda _request: next(in_order, ModelFault(400, message="the script of this server has no more replies"))


def _error(status: int, message: str) -> dict[str, Any]:
    kind = {429: "rate_limit_error", 400: "invalid_request_error"}.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
