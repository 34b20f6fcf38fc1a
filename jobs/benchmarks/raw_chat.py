"""The ``chat`` workload by hand: the pump of ``raw_io`` under a bound, with aiohttp or with the OpenAI SDK.

The bound is kept where records come in, as an agent does. With one at the call all 5,000 records had come in before the
500th answer, when the clock starts, and an agent's 647: what taking them in costs was counted for the agent alone.
"""

# ruff: noqa: D102 - the methods are named by Flink or say what they do; their classes say the rest

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

from pyflink.common import Row

from jobs.benchmarks.chat import IN_FLIGHT, URL, question
from jobs.benchmarks.raw_io import Pump


class BareChatPump(Pump):
    """Asks with aiohttp alone."""

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self._answered = threading.Event()
        self._client: Any = None

    def process_element(self, value: Row, ctx: Any) -> Iterator[Row]:
        key = self._current_key()
        while self._in_flight >= IN_FLIGHT:
            self._answered.wait()
            self._answered.clear()
            yield from self._drain()
        self._switch_key(key)
        yield from super().process_element(value, ctx)

    async def _call_on_loop(self, key: Any, name: str, number: int, started: float) -> None:
        await self.ask(question(number))
        self._done.append((key, name, started))
        self._answered.set()

    async def ask(self, text: str) -> str:
        if self._client is None:
            import aiohttp

            self._client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        async with self._client.post(f"{os.environ[URL]}/chat/completions", json=body) as response:
            content: str = (await response.json())["choices"][0]["message"]["content"]
            return content


class SdkChatPump(BareChatPump):
    """Asks with the OpenAI SDK on its aiohttp transport."""

    async def ask(self, text: str) -> str:
        if self._client is None:
            import openai

            http = openai.DefaultAioHttpClient()
            self._client = openai.AsyncOpenAI(
                base_url=os.environ[URL],
                api_key="none",
                max_retries=0,
                http_client=http,
            )
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        # The SDK's low-level request, as our connection makes it: the difference to the agent is the agent's alone.
        completion = await self._client.post("/chat/completions", body=body, cast_to=object)
        content: str = completion["choices"][0]["message"]["content"]
        return content
