"""Asyncio clients of resources: one per event loop, closed on the loop that made them."""

from __future__ import annotations

import asyncio
import threading

from flink_agents_py.resources.aio import LoopBound


class Client:
    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.closed_on = None

    async def close(self):
        self.closed_on = asyncio.get_running_loop()


async def _get(bound):
    return bound.get()


def test_each_loop_has_its_own_and_keeps_it():
    bound = LoopBound(Client, Client.close)

    async def twice():
        return bound.get(), bound.get()

    one, again = asyncio.run(twice())
    other = asyncio.run(_get(bound))
    assert one is again
    assert one is not other


def test_it_is_closed_on_its_loop_from_another_thread():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    bound = LoopBound(Client, Client.close)
    client = asyncio.run_coroutine_threadsafe(_get(bound), loop).result(10)
    bound.close()
    assert client.closed_on is loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_it_is_closed_from_its_own_loop_too():
    bound = LoopBound(Client, Client.close)

    async def go():
        client = bound.get()
        bound.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return client

    client = asyncio.run(go())
    assert client.closed_on is client.loop


def test_a_loop_that_is_gone_takes_its_client_with_it():
    bound = LoopBound(Client, Client.close)
    client = asyncio.run(_get(bound))
    bound.close()
    assert client.closed_on is None
