"""With an action state store: a crash anywhere changes nothing and repeats nothing known (S5)."""

from __future__ import annotations

import pytest

from flink_agents_py.agent import Agent
from flink_agents_py.events import OutputEvent
from flink_agents_py.testing import Scenario
from tests.support.agents import agent_of
from tests.support.recorded import Made, bodies, everything, fetch
from tests.support.stores import in_memory


def conflicting() -> Agent:
    """Several listeners of one event that write the same fields, in different shapes."""

    async def one(event, ctx):
        memory = ctx.short_term_memory
        await ctx.durable_execute_async(fetch, ("one", event.input))
        memory.set(f"shared.s{ctx.sequence % 2}", "one", overwrite=True)
        ctx.side_output("did", ["one", event.input])

    async def two(event, ctx):
        await ctx.durable_execute_async(fetch, ("two", event.input))
        memory = ctx.short_term_memory
        if memory.is_exist("own"):
            memory.delete("own")
        else:
            memory.new_object("own").set("x", event.input)
        ctx.send_event(Made(number=event.input))

    async def made(event: Made, ctx):
        ctx.sensory_memory.set("n", event.number)
        ctx.durable_execute(fetch, ("sync", event.number))
        await ctx.durable_execute_async(fetch, ("made", event.number))
        ctx.send_event(OutputEvent([event.number, ctx.sensory_memory.get("n"), str(event.id)]))

    return agent_of(one, two).add_action("made", [Made], made)


def dead_letters() -> Agent:
    async def act(event, ctx):
        ctx.side_output("before", event.input)
        await ctx.durable_execute_async(fetch, event.input)
        if event.input % 2:
            raise ValueError(event.input)
        ctx.send_event(OutputEvent(event.input))

    return agent_of(act, on_error="dead_letter")


NUMBERS = [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5)]
SCENARIOS = {
    "everything": Scenario(everything, NUMBERS, store=in_memory, reset=bodies.clear),
    "conflicting": Scenario(conflicting, NUMBERS, store=in_memory, ordered=False),
    "dead letters": Scenario(dead_letters, NUMBERS, store=in_memory),
    "few keys remembered": Scenario(
        everything, [(f"k{n % 3}", n) for n in range(6)], store=in_memory, config={"state.sequence-cache-size": 1}
    ),
    "waiting inputs": Scenario(everything, [("a", n) for n in range(5)], store=in_memory, interval=0.001),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_anywhere_changes_nothing_and_repeats_nothing_known(name, crash):
    report = crash(SCENARIOS[name], depth=9, sample=150)
    assert report.points > report.steps
    assert crash(SCENARIOS[name], depth=9, crashes=5, sample=40).points == 40
