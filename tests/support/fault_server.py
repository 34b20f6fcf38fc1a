"""A business service on loopback that fails as it is told, and notes in a ledger what it saw.

``/do/ACTION?script=500,429:1,ok``: the first request with an ``Idempotency-Key`` gets the first step of the
script, the second one the second, and so on; the last step goes on for ever. Steps::

    ok              answers {"done": ACTION, "echo": body}; ok:50 after 50 ms
    held:/a/path    the same as soon as that file exists
    hang            accepts and never answers
    stall           sends half a body, then nothing
    trickle         sends a byte of its body every 50 ms, without end
    409, 500, ...   that status; 429:1.5 and 503:1.5 with Retry-After: 1.5
    garbage         200, said to be JSON, and is not
    noise           something that is not HTTP
    big:50000000    200 with so many bytes of JSON
    reset           closes the connection without an answer
    lost            does it, then closes the connection without an answer

``/known/KEY`` says whether what was asked for with that key was done.

It is a process of its own, so that what it measures is not measured on the threads of the job. Besides, it holds two
ports: one that refuses connections, and one where they are never accepted.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, TextIO

from aiohttp import web
from typing_extensions import Self

from tests.support.fault_ledger import FaultLedger
from tests.support.flink import ROOT

DONE = ("ok", "held", "big", "garbage", "lost", "stall", "trickle")  # what was asked for has been done


class Service:
    """What one server knows."""

    def __init__(self, ledger: TextIO) -> None:
        self._ledger = ledger
        self._attempts: Counter[str] = Counter()
        self._done: set[str] = set()

    async def do(self, request: web.Request) -> web.StreamResponse:
        """One request of a business call."""
        arrived = time.monotonic()
        key = request.headers.get("Idempotency-Key", "")
        action = request.match_info["action"]
        self._attempts[key] += 1
        attempt = self._attempts[key]
        script = request.query.get("script", "ok").split(",")
        step, _, argument = script[min(attempt, len(script)) - 1].partition(":")
        about = {"action": action, "key": key, "attempt": attempt, "step": step}
        peer = request.transport.get_extra_info("peername")[1] if request.transport else None
        self._note(phase="start", at=arrived, peer=peer, **about)
        status: int | str = "left"  # the client has gone away
        try:
            status, response = await self._answer(request, action, key, step, argument)
        finally:
            # Before the answer leaves: a client that goes on at once must not look like two at a time.
            self._note(phase="end", at=time.monotonic(), status=status, **about)
        return await response

    async def known(self, request: web.Request) -> web.Response:
        """Whether what a key asked for was done: what a handler's ``reconcile`` wants to know."""
        key = request.match_info["key"]
        self._note(phase="asked", at=time.monotonic(), key=key)
        return web.json_response({"done": key}, status=200 if key in self._done else 404)

    async def _answer(self, request: web.Request, action: str, key: str, step: str, argument: str) -> Any:
        body = await request.read()
        if step in DONE:
            self._note(phase="done", at=time.monotonic(), action=action, key=key, again=key in self._done)
            self._done.add(key)
        if step in ("ok", "held"):
            await asyncio.sleep(float(argument or 0) / 1000 if step == "ok" else 0)
            while step == "held" and not Path(argument).exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
                await asyncio.sleep(0.05)
            answer = {"done": action, "echo": json.loads(body) if body else None}
            return 200, _now(web.json_response(answer))
        if step == "hang":
            await asyncio.sleep(3600)
        if step in ("stall", "trickle"):
            return 200, await _endless(request, 3600 if step == "stall" else 0.05)
        if step in ("reset", "lost", "noise"):
            return step, _break_off(request, b"once upon a time\r\n\r\n" if step == "noise" else b"")
        if step == "garbage":
            return 200, _now(web.Response(body=b'{"done": \xff\xfe', content_type="application/json"))
        if step == "big":
            return 200, _big(request, int(argument))
        headers = {"Retry-After": argument} if argument else {}
        return int(step), _now(
            web.json_response({"error": f"told to answer {step}"}, status=int(step), headers=headers)
        )

    def _note(self, **record: Any) -> None:
        self._ledger.write(json.dumps({**record, "wall": time.time() * 1000}) + "\n")
        self._ledger.flush()


async def _now(response: web.StreamResponse) -> web.StreamResponse:
    return response


async def _endless(request: web.Request, pause: float) -> Any:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"half": ')
    while True:
        await asyncio.sleep(pause)
        await response.write(b" ")


async def _big(request: web.Request, size: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'"')
    chunk = b"x" * 65_536
    for start in range(0, size - 2, len(chunk)):
        await response.write(chunk[: size - 2 - start])
    await response.write(b'"')
    return response


async def _break_off(request: web.Request, last_words: bytes) -> web.StreamResponse:
    assert request.transport is not None
    if last_words:
        request.transport.write(last_words)
        request.transport.close()
    else:
        request.transport.abort()
    return web.Response()


# --- the process ------------------------------------------------------------------------------------------------------


async def _serve(ledger: TextIO) -> None:
    application = web.Application(client_max_size=2**20)
    service = Service(ledger)
    application.router.add_route("*", "/do/{action}", service.do)
    application.router.add_get("/known/{key}", service.known)
    runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=0)
    await runner.setup()
    served = socket.create_server(("127.0.0.1", 0), backlog=1024)
    await web.SockSite(runner, served).start()
    refusing = socket.socket()
    refusing.bind(("127.0.0.1", 0))  # held, not listened on
    deaf = socket.create_server(("127.0.0.1", 0), backlog=0)
    # Two connections fill the queue of a backlog of 0; the kernel lets the next ones wait.
    fill = [socket.socket() for _ in range(2)]
    for client in fill:
        client.setblocking(False)
        client.connect_ex(deaf.getsockname())
    ports = {name: it.getsockname()[1] for name, it in (("url", served), ("refusing", refusing), ("deaf", deaf))}
    print(json.dumps({name: f"http://127.0.0.1:{port}" for name, port in ports.items()}), flush=True)  # noqa: T201
    # Ends with whoever started it: then stdin ends.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


class FaultServer:
    """The server, started and ended; ``url`` works, ``refusing`` refuses, ``deaf`` never accepts."""

    def __init__(self, ledger: Path) -> None:
        self._path = ledger
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fault_server", str(ledger)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the fault server did not start"
        addresses = json.loads(line)
        self.url: str = addresses["url"]
        self.refusing: str = addresses["refusing"]
        self.deaf: str = addresses["deaf"]

    @property
    def ledger(self) -> FaultLedger:
        """What it has seen so far."""
        return FaultLedger(self._path)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if __name__ == "__main__":
    with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
        asyncio.run(_serve(file))
