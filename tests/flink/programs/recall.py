"""An agent that hears a fact first, then much else, and is asked for the fact when all of that is long over."""

from __future__ import annotations

from typing import Any

from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import (
    Agent,
    AgentsExecutionEnvironment,
    Compaction,
    InputEvent,
    MemorySetItem,
    OutputEvent,
    RunnerContext,
    action,
)
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import key_of, numbers

FACTS = {"key 0": "My cat Tom has fleas.", "key 1": "I play the violin in an orchestra."}
QUESTIONS = {"key 0": "Which animal lives with her?", "key 1": "Which musical instrument does he play?"}
OTHER = (
    "The train to Bergen was late again.",
    "Interest rates went up by a quarter point.",
    "The printer on the second floor is out of paper.",
    "It will rain on Thursday.",
    "The meeting was moved to next week.",
)


class Recalling(Agent):
    """Remembers what it is told; the last inputs of a key are the question."""

    @action(InputEvent)
    @staticmethod
    async def hear(event: InputEvent, ctx: RunnerContext) -> None:
        key, number = event.input
        told = ctx.long_term_memory.get_memory_set("told", Compaction(max_items=8, keep_items=4, function=together))
        turn = number // len(FACTS)
        if turn < ctx.config.get("asked-from", 0):
            await told.aadd(FACTS[key] if turn == 0 else f"{OTHER[turn % len(OTHER)]} ({turn})", {"turn": turn})
            found: list[MemorySetItem] = []
        else:
            found = await told.asearch(QUESTIONS[key], 1)
        result = {"key": key, "number": number, "sequence": ctx.sequence, "found": [item.value for item in found]}
        ctx.send_event(OutputEvent(result))


def together(items: list[MemorySetItem]) -> str | None:
    """A summary by hand: what is about the same thing is said once. What has nothing in common stays."""
    told = [line for item in items for line in item.value.split("\n")]
    return "\n".join(dict.fromkeys(line.partition(" (")[0] for line in told))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: count, first (inputs before the savepoint), memory (a file), asked_from (a turn), outputs."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    config = agents.get_config()
    config.set("job-identifier", "recall")
    config.set("long-term-memory.path", spec["memory"])
    config.set("asked-from", spec["asked_from"])
    stream = numbers(env, spec["count"], len(FACTS), per_checkpoint=spec["first"], forever=spec["forever"])
    append_to(agents.from_datastream(stream, key_of).apply(Recalling()).to_datastream(), spec["outputs"])
