"""A job in one script: agent, events, functions and values all live in ``__main__``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from flink_agents_py.flink.java import java_environment

SCRIPT = """
    import asyncio, json, os, sys
    from dataclasses import dataclass
    from pydantic import BaseModel
    from pyflink.common import Types
    from pyflink.datastream import StreamExecutionEnvironment
    from flink_agents_py import Agent, AgentsExecutionEnvironment, Event, InputEvent, OutputEvent, RunnerContext, action

    FACTOR = 10

    @dataclass
    class Price:
        amount: int

    class Order(BaseModel):
        number: int

    class Priced(Event):
        order: Order
        price: int

    async def price_of(order: Order) -> int:
        await asyncio.sleep(0.05)
        return order.number * FACTOR

    def discount(price: int) -> int:
        return price - 1

    class Shop(Agent):
        @action(InputEvent)
        async def price(event: InputEvent, ctx: RunnerContext) -> None:
            order = Order(number=event.input)
            price = await ctx.durable_execute_async(price_of, order)
            ctx.send_event(Priced(order=order, price=price))

        @action(Priced)
        async def remember(event: Priced, ctx: RunnerContext) -> None:
            price = await ctx.durable_execute_async(discount, event.price)
            twice = await ctx.durable_execute_async(lambda value: Price(value * 2), price, name="twice")
            memory = ctx.short_term_memory
            seen = memory.get("seen") or []
            memory.set("seen", [*seen, event.order.number])
            order = type(event.order).__name__
            ctx.send_event(OutputEvent({"key": ctx.key, "price": twice.amount, "seen": seen, "type": order}))

    def main(mode):
        env = StreamExecutionEnvironment.get_execution_environment()
        agents = AgentsExecutionEnvironment.get_execution_environment(env)
        agents.get_config().set("execution-mode", mode)
        numbers = env.from_collection(list(range(6)), Types.LONG())
        stream = agents.from_datastream(numbers, lambda number: number % 2).apply(Shop()).to_datastream()
        with stream.execute_and_collect() as results:
            return list(results)

    if __name__ == "__main__":
        print(json.dumps({mode: main(mode) for mode in ("thread", "process")}))
"""


@pytest.mark.timeout(600)  # a JVM and two clusters, one after another
def test_everything_in_main_in_both_execution_modes(tmp_path: Path) -> None:
    script = tmp_path / "shop.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, **java_environment()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    by_mode = json.loads(done.stdout.splitlines()[-1])
    assert by_mode.keys() == {"thread", "process"}
    for results in by_mode.values():
        for key in (0, 1):
            numbers = [key, key + 2, key + 4]
            assert [result for result in results if result["key"] == key] == [
                {"key": key, "price": (number * 10 - 1) * 2, "seen": numbers[:index], "type": "Order"}
                for index, number in enumerate(numbers)
            ]
