"""The limited target of ``jobs.benchmarks.external``, in a process of its own: answers slowly, tells what it saw.

``POST /work`` answers after the milliseconds of the command line; ``GET /figures`` says how many requests came, how
many were there at one moment, how many arrived within any second, how many were sent within any second (``X-Sent`` says
when, in seconds of the machine's monotonic clock: a target that stalls sees those of two seconds in one), and how many
came a second from the first to the last.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from bisect import bisect_left
from typing import Any

from aiohttp import web


class Target:
    """What it has seen."""

    def __init__(self, answer_s: float) -> None:
        self._answer_s = answer_s
        self._arrivals: list[float] = []
        self._sent: list[float] = []
        self._now = 0
        self._most = 0

    async def work(self, request: web.Request) -> web.Response:
        """One call."""
        self._arrivals.append(time.monotonic())
        self._sent.append(float(request.headers["X-Sent"]))
        self._now += 1
        self._most = max(self._most, self._now)
        try:
            await asyncio.sleep(self._answer_s)
        finally:
            self._now -= 1
        return web.json_response({"done": True})

    async def figures(self, _: web.Request) -> web.Response:
        """What was seen."""
        seen = figures(self._arrivals, self._most)
        return web.json_response({**seen, "most_sent_within_a_second": most_within_a_second(sorted(self._sent))})


def figures(arrivals: list[float], most_at_once: int) -> dict[str, Any]:
    """What arrivals (in seconds, in order) add up to."""
    took = arrivals[-1] - arrivals[0] if arrivals else 0.0
    return {
        "requests": len(arrivals),
        "most_at_once": most_at_once,
        "most_within_a_second": most_within_a_second(arrivals),
        "per_s": round((len(arrivals) - 1) / took, 1) if took else None,
    }


def most_within_a_second(moments: list[float]) -> int:
    """The largest number of moments (in order) within any second."""
    return max((bisect_left(moments, at + 1.0) - index for index, at in enumerate(moments)), default=0)


async def serve(answer_s: float) -> None:
    """Serve until stdin ends, which it does with whoever started this."""
    target = Target(answer_s)
    application = web.Application()
    application.router.add_post("/work", target.work)
    application.router.add_get("/figures", target.figures)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    host, port = runner.addresses[0][:2]
    print(json.dumps({"url": f"http://{host}:{port}"}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1000))
