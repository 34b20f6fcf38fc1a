"""What the tests of the recorder share: agents with a store behind them, and crashes that go back to a checkpoint."""

from __future__ import annotations

from collections import Counter

from flink_agents_py.agent import Agent
from flink_agents_py.events import Event, InputEvent, OutputEvent
from tests.support.agents import LONG_S, agent_of, finish_all

bodies: Counter = Counter()
"""How often the body of an action was begun; the fixture ``store`` starts it anew."""


def fetch(x, *, idempotency_key=None):
    return f"got {x}"


def other(x):
    return f"other {x}"


class Made(Event):
    number: int


def replay(harness, snapshot, *inputs):
    """A crash, the old checkpoint, and what the source sends again; every call that comes up is made."""
    harness.restore(snapshot)
    for key, value in inputs:
        harness.feed(key, value)
    harness.advance(LONG_S)
    finish_all(harness)


def keyed_state(harness, key):
    state = harness.state_of(key)
    return state.get("agent.stm"), state.get("agent.seq")


def everything() -> Agent:
    """Memory of both kinds in all its shapes, events, outputs, side outputs, a call."""

    async def start(event, ctx):
        bodies["start"] += 1
        memory = ctx.short_term_memory
        memory.set("last", event.input)
        memory.set(f"seen.n{ctx.sequence}", {"input": event.input})
        if memory.is_exist("profile"):
            memory.delete("profile")
        else:
            memory.new_object("profile").set("name", "x")
        memory.new_object("kind", overwrite=True) if ctx.sequence % 2 else memory.set("kind", 1, overwrite=True)
        ctx.sensory_memory.set("text", await ctx.durable_execute_async(fetch, event.input))
        ctx.send_event(Made(number=1))
        ctx.send_event(Made(number=1))  # a sibling with equal attributes
        ctx.side_output("audit", (event.input, b"raw"))

    def made(event: Made, ctx):
        bodies["made"] += 1
        count = (ctx.sensory_memory.get("count") or 0) + 1
        ctx.sensory_memory.set("count", count)
        ctx.send_event(OutputEvent([count, ctx.sensory_memory.get("text"), event.id, event.upstream_event_id]))

    return Agent().add_action("start", [InputEvent], start).add_action("made", [Made], made)


def three_calls() -> Agent:
    async def act(event, ctx):
        out = [await ctx.durable_execute_async(fetch, (event.input, number)) for number in range(3)]
        ctx.send_event(OutputEvent(out))

    return agent_of(act)
