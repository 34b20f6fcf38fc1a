"""Two keys of one subtask at work at the same time never see or touch each other's items."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, action
from tests.long_term.kit import config, harness, stored, values, with_store

KEYS = ("ann", "ben")


class Busy(Agent):
    """Does all there is with both sets of its key; within durable calls of its own, too."""

    @action(InputEvent)
    @staticmethod
    async def do(event, ctx):
        facts = ctx.long_term_memory.get_memory_set("facts")
        told = f"{ctx.key} says {event.input}"

        def inside(idempotency_key):
            facts.add(f"{told}, inside", {"who": ctx_key}, idempotency_key=idempotency_key)
            return values(facts.search("says", 50)) + values(facts.get(filters={"who": ctx_key}))

        ctx_key = ctx.key
        added, found, listed, seen = await ctx.gather(
            facts.aadd(told, {"who": ctx.key}),
            facts.asearch("says", 50),
            facts.aget(),
            ctx.durable_execute_async(inside),
        )
        by_id = await facts.aget(added)
        changed = await facts.aupdate(added[0], f"{told}, again")
        result = [*values(found), *values(listed), *seen, *values(by_id)]
        ctx.send_event(OutputEvent((result, changed)))


def check(outputs):
    for key, (seen, changed) in outputs:
        assert changed
        assert all(text.startswith(f"{key} says") for text in seen)
        assert seen


@settings(max_examples=15, deadline=None)
@given(
    inputs=st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(["yes", "no"])), min_size=2, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_whatever_order_calls_are_made_in(inputs, order):
    with tempfile.TemporaryDirectory() as folder:
        memory = harness(Path(folder) / "memory.db", Busy(), latency=None)
        for key, text in inputs:
            memory.feed(key, text)
        while calls := memory.calls:
            order.choice(calls).run()
        memory.run()
        check(memory.keyed_outputs)
        assert len(memory.outputs) == len(inputs)
        assert len(stored(Path(folder) / "memory.db")) == 2 * len(inputs)


def test_on_real_threads(tmp_path):
    path = tmp_path / "memory.db"
    agents = AgentsExecutionEnvironment.get_execution_environment()
    for name, value in config().items():
        agents.get_config().set(name, value)
    said = [{"key": f"k{number % 8}", "value": f"number {number}"} for number in range(64)]
    outputs = agents.from_list(said).apply(with_store(Busy(), path)).to_list()
    check([item for output in outputs for item in output.items()])
    assert len(outputs) == 64
    assert len(stored(path)) == 128
