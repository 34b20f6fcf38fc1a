"""A process that adds numbers to a set and compacts it, to be killed: ``python -m tests.long_term.killed FILE COUNT``.

It begins at the first number each time, as a job does that goes back to a checkpoint of long ago.
"""

from __future__ import annotations

import sys
import time

from flink_agents_py import Agent, AgentsExecutionEnvironment, Compaction, InputEvent, OutputEvent, action
from tests.long_term.kit import config, with_store


class Adding(Agent):
    @action(InputEvent)
    @staticmethod
    async def do(event, ctx):
        policy = Compaction(max_items=6, keep_items=2, function=joined)
        await ctx.long_term_memory.get_memory_set("numbers", policy).aadd(event.input)
        ctx.send_event(OutputEvent(event.input))


def joined(items):
    time.sleep(0.01)
    return " + ".join(item.value for item in items)


def main(path, count):
    agents = AgentsExecutionEnvironment.get_execution_environment()
    for name, value in config().items():
        agents.get_config().set(name, value)
    said = [{"key": f"key {number % 3}", "value": f"number {number}"} for number in range(count)]
    outputs = agents.from_list(said).apply(with_store(Adding(), path)).to_list()
    assert len(outputs) == count


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
