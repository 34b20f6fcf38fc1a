"""The outside world of ``incident_actions``: paging, tickets, restarts and chat, on loopback, with bad days.

What goes wrong depends on the request's idempotency key and its attempt alone, so a run can be repeated:

- ``/restarts``: services whose name begins with ``legacy`` may not be restarted (409).
- ``/tickets``: every fourth ticket finds maintenance first (503 with ``Retry-After``).
- ``/pages``: every third page fails once (500); every seventh always, so it ends as a dead letter.
- ``/chat``: every fifth message gets no answer the first time.

A request with a key that was answered before is answered again and not done again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any
from zlib import crc32

from aiohttp import web
from typing_extensions import Self

_STARTED_WITHIN_S = 30


class IncidentService:
    """The service, on a thread of its own. Use it as a context manager.

    Attributes:
        done: how many deeds were done, by path.
        requests: how many requests came, by path.
        recognised: how many came again after they had been done.
    """

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.recognised = 0
        self.url = ""
        self._attempts: Counter[str] = Counter()
        self._answers: dict[str, dict[str, Any]] = {}
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="incident-service", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._up.wait(_STARTED_WITHIN_S):
            raise RuntimeError("the incident service did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._up.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        application = web.Application()
        application.router.add_post("/{path}", self._answer)
        runner = web.AppRunner(application, handler_cancellation=True, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        key = request.headers.get("Idempotency-Key", "")
        order = await request.json()
        self.requests[path] += 1
        self._attempts[key] += 1
        if key in self._answers:
            self.recognised += 1
            return web.json_response(self._answers[key])
        trouble = await self._trouble(path, key, order)
        if trouble is not None:
            return trouble
        self.done[path] += 1
        self._answers[key] = {"id": f"{path[0].upper()}-{self.done[path]}"}
        return web.json_response(self._answers[key])

    async def _trouble(self, path: str, key: str, order: dict[str, Any]) -> web.Response | None:
        first = self._attempts[key] == 1
        lot = crc32(key.encode())
        if path == "restarts" and str(order.get("service", "")).startswith("legacy"):
            return web.json_response({"error": "restarts of legacy services need an approval"}, status=409)
        if path == "tickets" and lot % 4 == 0 and first:
            return web.json_response({"error": "maintenance"}, status=503, headers={"Retry-After": "1"})
        if path == "pages" and (lot % 7 == 0 or (lot % 3 == 0 and first)):
            return web.json_response({"error": "the pager provider is down"}, status=500)
        if path == "chat" and lot % 5 == 0 and first:
            await asyncio.sleep(3600)
        return None
