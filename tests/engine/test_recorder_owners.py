"""Whose records those of an action state store are, and journals that no longer fit (S9)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest

from flink_agents_py.agent import Agent
from flink_agents_py.errors import ActionFailedError, JournalMismatchError
from flink_agents_py.events import InputEvent, OutputEvent
from flink_agents_py.testing import AgentHarness
from tests.support.agents import LONG_S, agent_of, finish_all
from tests.support.recorded import bodies, everything, fetch, other, replay

# --- whose records they are -------------------------------------------------------------------------------------------


def test_another_input_at_the_same_sequence_drops_the_records(store, caplog):
    harness = AgentHarness(everything(), store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 1)
    finish_all(harness)
    replay(harness, beginning, ("a", 2))
    assert harness.stats.discarded == 1
    assert "another input at sequence 1" in caplog.text
    assert "forget" in store.handles[-1].calls
    assert harness.outputs[0][1] == "got 2"
    assert bodies["start"] == 2
    replay(harness, beginning, ("a", 2))
    assert (harness.stats.discarded, bodies["start"]) == (0, 2)


def test_only_the_key_whose_input_changed_is_done_again(store):
    harness = AgentHarness(everything(), store=store.open)
    beginning = harness.snapshot()
    for key, value in [("a", 1), ("b", 1), ("a", 2)]:
        harness.feed(key, value)
        finish_all(harness)
    replay(harness, beginning, ("a", 9), ("b", 1), ("a", 2))
    assert harness.stats.discarded == 1
    assert bodies["start"] == 4
    assert {output[1] for output in harness.outputs} == {"got 1", "got 2", "got 9"}


UTC_NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
ODD_KEYS = [
    "a",
    "a_1",
    "a_",
    "_1",
    "",
    "a/1",
    'quote"',
    "back\\slash",
    "ключ",
    "日本\x00",
    '["a",1]',
    1,
    "1",
    1.0,
    True,
    b"1",
    (1, "x"),
    ("1x",),
    Decimal("1.0"),
    Decimal("1.00"),  # equal, but another key to Flink
    UTC_NOON,
    UTC_NOON.astimezone(timezone(timedelta(hours=2))),  # the same instant
]
ODD_NAMES = ["act", "act_1", "a/ct", 'a"ct', "дело", "act:0"]


def test_records_of_other_keys_inputs_and_actions_never_mix(store):
    def agent():
        built = Agent()
        for name in ODD_NAMES:

            async def act(event, ctx, name=name):
                bodies[name] += 1
                text = await ctx.durable_execute_async(fetch, (name, repr(ctx.key), ctx.sequence))
                ctx.short_term_memory.set(f"n{ODD_NAMES.index(name)}", text)
                ctx.send_event(OutputEvent([name, repr(ctx.key), ctx.sequence, text]))

            built.add_action(name, [InputEvent], act)
        return built

    harness = AgentHarness(agent(), {"max-queued": 1000}, store=store.open)
    beginning = harness.snapshot()
    inputs = [(key, "equal") for key in ODD_KEYS for _ in range(2)]
    for key, value in inputs:
        harness.feed(key, value)
    finish_all(harness)
    outputs = sorted(harness.outputs)
    assert len(outputs) == len(inputs) * len(ODD_NAMES)
    assert all(text == f"got {(name, key, sequence)!r}" for name, key, sequence, text in outputs)
    done = bodies.copy()
    replay(harness, beginning, *inputs)
    assert bodies == done
    assert sorted(harness.outputs) == outputs
    assert harness.stats.discarded == 0


def test_agents_of_one_job_with_equal_action_names_do_not_see_each_others_records(store):
    class One(Agent):
        pass

    class Two(Agent):
        pass

    def act(event, ctx):
        bodies["act"] += 1
        ctx.send_event(OutputEvent(event.input))

    config = {"job-identifier": "job"}
    for kind in (One, Two):
        harness = AgentHarness(kind().add_action("act", [InputEvent], act), config, store=store.open)
        harness.feed("a", 1)
    assert bodies == {"act": 2}
    assert sorted(store.server.records) == ["job/One", "job/Two"]


class Opaque:
    """A value that only pickle can carry; its state shows which objects are shared."""

    def __init__(self, text):
        self.first, self.second = text, "".join(list(text))  # equal, not the same object

    def __eq__(self, other):
        return isinstance(other, Opaque) and vars(self) == vars(other)

    __hash__ = None


@pytest.mark.parametrize(
    "value",
    [
        {"b": 1, "a": {"nested": [1, 2]}},
        {"set": {"x", "y", "z", "w"}},
        Opaque("some text"),
        [Opaque("one"), {"two": Opaque("two")}],
    ],
)
def test_an_input_is_the_same_whether_it_comes_at_once_or_had_to_wait(store, value):
    async def act(event, ctx):
        bodies["act"] += 1
        await ctx.durable_execute_async(fetch, ctx.sequence)

    harness = AgentHarness(agent_of(act), store=store.open)
    harness.feed("a", 0)
    finish_all(harness)
    idle = harness.snapshot()
    harness.feed("a", 0)
    harness.feed("a", value)
    finish_all(harness)
    assert bodies["act"] == 3
    replay(harness, idle, ("a", 0), ("a", value))
    assert (bodies["act"], harness.stats.discarded) == (3, 0)


# --- journals that no longer fit --------------------------------------------------------------------------------------


def changing() -> tuple[list, Agent]:
    """An agent whose path is a list of functions that the test may change."""
    path = [fetch, fetch, fetch]

    async def act(event, ctx):
        ctx.send_event(OutputEvent([await ctx.durable_execute_async(func, n) for n, func in enumerate(path)]))

    return path, agent_of(act)


def test_a_path_that_was_left_is_not_taken_up_again(store):
    path, agent = changing()
    made = []
    harness = AgentHarness(
        agent, store=store.open, before_call=lambda call: made.append((call.name, *call.args, call.idempotency_key))
    )
    beginning = harness.snapshot()
    harness.feed("a", 0)
    harness.calls[0].run()
    harness.calls[0].run()

    path[0] = other
    harness.restore(beginning)
    harness.feed("a", 0)
    assert harness.stats.mismatches == 1
    harness.calls[0].run()  # other(0); fetch(1) of the new path is not made before the next crash
    harness.restore(beginning)
    harness.feed("a", 0)
    assert harness.stats.mismatches == 0
    finish_all(harness)
    assert harness.outputs == [["other 0", "got 1", "got 2"]]
    assert [call[:2] for call in made] == [("fetch", 0), ("fetch", 1), ("other", 0), ("fetch", 1), ("fetch", 2)]
    assert len({call[2] for call in made}) == 5, "another call at the same place has another idempotency key"


def test_the_newer_path_wins_even_if_its_call_has_no_outcome_yet(store):
    path, agent = changing()
    harness = AgentHarness(agent, store=store.open)
    harness.feed("a", 0)
    harness.calls[0].run()
    old = harness.snapshot()
    path[0] = other
    harness.restore(old)
    harness.advance(LONG_S)
    (flying,) = harness.calls
    harness.restore(old)
    harness.advance(LONG_S)
    assert harness.stats.mismatches == 0
    assert harness.calls[0].idempotency_key == flying.idempotency_key


def test_a_mismatch_fails_if_it_is_told_to(store):
    path, agent = changing()
    harness = AgentHarness(agent, {"durable.on-mismatch": "fail"}, store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 0)
    harness.calls[0].run()
    path[0] = other
    harness.restore(beginning)
    with pytest.raises(ActionFailedError) as failed:
        harness.feed("a", 0)
    assert isinstance(failed.value.__cause__, JournalMismatchError)
