"""With an action state store: what was done between checkpoints stays done (S5, S9)."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest

from flink_agents_py.agent import Agent
from flink_agents_py.errors import ActionFailedError, FencedError, JournalMismatchError, StoreError
from flink_agents_py.events import Event, InputEvent, OutputEvent
from flink_agents_py.policies import RetryPolicy
from flink_agents_py.testing import AgentHarness, Scenario
from flink_agents_py.testing.failpoints import FailpointError, failpoint
from tests.support.agents import LONG_S, agent_of, finish_all
from tests.support.stores import StoreOfJob, in_memory

bodies: Counter = Counter()
"""How often the body of an action was begun."""
seen: list = []
stores_looked_at: list = []


@pytest.fixture(autouse=True)
def _nothing_seen():
    for collection in (bodies, seen, stores_looked_at):
        collection.clear()


@pytest.fixture
def store():
    return StoreOfJob()


def fetch(x, *, idempotency_key=None):
    return f"got {x}"


def other(x):
    return f"other {x}"


class Item(Event):
    text: str


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


# --- finished actions -------------------------------------------------------------------------------------------------


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


def test_bodies_of_finished_actions_are_not_run_again_and_their_effects_are_the_same(store):
    harness = AgentHarness(everything(), store=store.open)
    beginning = harness.snapshot()
    inputs = [("a", 1), ("b", 2), ("a", 3), ("a", 4)]
    for key, value in inputs:
        harness.feed(key, value)
        finish_all(harness)
    done = (harness.keyed_outputs, harness.all_side_outputs(), keyed_state(harness, "a"), keyed_state(harness, "b"))
    assert len(harness.outputs) == 8
    assert bodies == {"start": 4, "made": 8}

    for _ in range(2):
        harness.restore(beginning)
        for key, value in inputs:
            harness.feed(key, value)
        assert harness.calls == []
        assert bodies == {"start": 4, "made": 8}
        assert harness.stats.recalled == 12
        again = (
            harness.keyed_outputs,
            harness.all_side_outputs(),
            keyed_state(harness, "a"),
            keyed_state(harness, "b"),
        )
        assert again == done


def test_what_comes_after_the_replay_goes_on_from_it(store):
    harness = AgentHarness(everything(), store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 1)
    finish_all(harness)
    replay(harness, beginning, ("a", 1), ("a", 2))
    assert bodies == {"start": 2, "made": 4}
    assert harness.short_term_memory("a").get("seen.n2") == {"input": 2}
    assert not harness.short_term_memory("a").is_exist("profile")


def test_a_crash_between_two_actions_of_a_run_repeats_neither(store):
    harness = AgentHarness(everything(), store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 1)
    with failpoint("after-record", hits=2), pytest.raises(FailpointError):
        finish_all(harness)  # the outcome of the call is written, then what the actions did
    replay(harness, beginning, ("a", 1))
    assert bodies == {"start": 1, "made": 2}
    assert len(harness.outputs) == 2


@pytest.mark.parametrize("point", ["call-made", "before-record", "after-record", "before-emit"])
@pytest.mark.parametrize("hits", range(1, 6))
def test_a_failure_at_any_point_changes_no_effect_and_repeats_no_recorded_call(store, point, hits):
    undisturbed = AgentHarness(everything(), store=StoreOfJob().open)
    undisturbed.feed("a", 1)
    finish_all(undisturbed)

    made = []
    harness = AgentHarness(everything(), store=store.open, before_call=lambda call: made.append(call.idempotency_key))
    checkpoint, emitted = harness.snapshot(), 0
    with failpoint(point, hits=hits) as _:
        try:
            harness.feed("a", 1)
            finish_all(harness)
        except FailpointError:
            emitted = len(harness.outputs)
            assert emitted == 0, "effects left the operator although the callback failed"
            outcome_known = any(record.slot == -1 or '"r"' in record.value for record in store.records)
            replay(harness, checkpoint, ("a", 1))
            assert len(made) <= 2 - outcome_known
    assert len(set(made)) == 1
    assert harness.keyed_outputs == undisturbed.keyed_outputs
    assert harness.all_side_outputs() == undisturbed.all_side_outputs()
    assert keyed_state(harness, "a") == keyed_state(undisturbed, "a")


@pytest.mark.parametrize("first", ["left", "right"])
def test_actions_that_write_the_same_field_finish_in_the_order_they_had(store, first):
    async def left(event, ctx):
        await ctx.durable_execute_async(fetch, "left")
        ctx.short_term_memory.set("who", "left")
        ctx.send_event(Made(number=1))

    async def right(event, ctx):
        await ctx.durable_execute_async(fetch, "right")
        ctx.short_term_memory.set("who", "right")
        ctx.send_event(Made(number=2))

    async def made(event: Made, ctx):
        await ctx.durable_execute_async(fetch, event.number)
        ctx.send_event(OutputEvent([event.number, ctx.short_term_memory.get("who")]))

    agent = agent_of(left, right).add_action("made", [Made], made)
    harness = AgentHarness(agent, store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 0)
    snapshots = [beginning, harness.snapshot()]
    (next(call for call in harness.calls if call.args == (first,))).complete()
    snapshots.append(harness.snapshot())
    next(call for call in harness.calls if call.args in [(1,), (2,)]).complete()  # its child, before the other parent
    snapshots.append(harness.snapshot())
    finish_all(harness)
    who, outputs = harness.short_term_memory("a").get("who"), harness.outputs
    assert who == {"left": "right", "right": "left"}[first]
    for index, snapshot in enumerate(snapshots):
        harness.restore(snapshot)
        if index == 0:
            harness.feed("a", 0)
        harness.advance(LONG_S)
        assert harness.calls == []
        assert harness.outputs == outputs
        assert harness.short_term_memory("a").get("who") == who


def test_an_unfinished_action_beside_finished_ones_goes_on_with_what_they_did(store):
    async def slow(event, ctx):
        bodies["slow"] += 1
        first = await ctx.durable_execute_async(fetch, "slow")
        ctx.send_event(OutputEvent([first, await ctx.durable_execute_async(fetch, "slow again")]))

    async def quick(event, ctx):
        bodies["quick"] += 1
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, "quick")))

    harness = AgentHarness(agent_of(slow, quick), store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 0)
    harness.calls[1].run()
    harness.calls[0].run()
    assert harness.outputs == ["got quick"]
    harness.restore(beginning)
    harness.feed("a", 0)
    assert harness.outputs == ["got quick"]
    assert [call.args for call in harness.calls] == [("slow again",)]
    finish_all(harness)
    assert bodies == {"slow": 2, "quick": 1}


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_a_failure_that_was_dealt_with_is_not_tried_again(store, policy):
    async def act(event, ctx):
        bodies["act"] += 1
        ctx.short_term_memory.set("never", 1)
        ctx.side_output("audit", "never")
        await ctx.durable_execute_async(fetch, event.input)
        raise ValueError("odd")

    harness = AgentHarness(agent_of(act, on_error=policy), store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 1)
    finish_all(harness)
    letters = harness.all_side_outputs()
    assert [tag for tag, _ in letters] == (["dead-letters"] if policy == "dead_letter" else [])
    replay(harness, beginning, ("a", 1))
    assert bodies == {"act": 1}
    assert harness.all_side_outputs() == letters
    assert keyed_state(harness, "a") == (None, 2)
    assert store.of("act") == [-1]


def test_events_about_memory_come_back_once(store):
    async def act(event, ctx):
        bodies["act"] += 1
        ctx.short_term_memory.set("x", event.input)
        await ctx.durable_execute_async(fetch, event.input)

    def watch(event, ctx):
        bodies["watch"] += 1
        ctx.send_event(OutputEvent([event.value, event.id]))

    agent = agent_of(act).add_action("watch", ["_short_term_write_event"], watch)
    harness = AgentHarness(agent, store=store.open)
    beginning = harness.snapshot()
    harness.feed("a", 1)
    finish_all(harness)
    outputs = harness.outputs
    assert len(outputs) == 1
    replay(harness, beginning, ("a", 1))
    assert bodies == {"act": 1, "watch": 1}
    assert harness.outputs == outputs


# --- unfinished actions -----------------------------------------------------------------------------------------------


def three_calls() -> Agent:
    async def act(event, ctx):
        out = [await ctx.durable_execute_async(fetch, (event.input, number)) for number in range(3)]
        ctx.send_event(OutputEvent(out))

    return agent_of(act)


@pytest.mark.parametrize("checkpoint", range(4))
@pytest.mark.parametrize("crash", range(4))
def test_calls_with_an_outcome_are_answered_whatever_checkpoint_is_restored(store, checkpoint, crash):
    made = Counter()
    harness = AgentHarness(three_calls(), store=store.open, before_call=lambda call: made.update([call.args]))
    snapshots = [harness.snapshot()]
    harness.feed("a", "x")
    for _ in range(crash):
        snapshots.append(harness.snapshot())
        harness.calls[0].run()
    at = min(checkpoint, crash)
    replay(harness, snapshots[at], *([("a", "x")] if at == 0 else []))
    assert harness.outputs == [["got ('x', 0)", "got ('x', 1)", "got ('x', 2)"]]
    assert set(made.values()) == {1}


def test_parallel_calls_keep_their_places_when_a_later_one_finished_first(store):
    async def act(event, ctx):
        ctx.send_event(OutputEvent(await ctx.gather(*(ctx.durable_execute_async(fetch, n) for n in range(3)))))

    made = Counter()
    harness = AgentHarness(agent_of(act), store=store.open, before_call=lambda call: made.update(call.args))
    beginning = harness.snapshot()
    harness.feed("a", 0)
    harness.calls[2].run()
    replay(harness, beginning, ("a", 0))
    assert harness.outputs == [["got 0", "got 1", "got 2"]]
    assert made == {0: 1, 1: 1, 2: 1}


def test_a_call_made_in_front_of_one_nobody_awaits_yet_is_not_repeated(store):
    async def act(event, ctx):
        later = ctx.durable_execute_async(fetch, "later")
        now = ctx.durable_execute(fetch, "now")
        ctx.send_event(OutputEvent([now, await later]))

    made = Counter()
    harness = AgentHarness(agent_of(act), store=store.open, before_call=lambda call: made.update(call.args))
    beginning = harness.snapshot()
    with failpoint("after-record", hits=2), pytest.raises(ActionFailedError):
        harness.feed("a", 0)
    assert made == {"now": 1}
    replay(harness, beginning, ("a", 0))
    assert made == {"now": 1, "later": 1}
    assert harness.outputs == [["got now", "got later"]]


def test_a_run_that_began_before_there_was_a_store_is_recorded_from_where_it_is(store):
    made = Counter()

    def before(call):
        made.update([call.args])

    without = AgentHarness(three_calls(), before_call=before)
    without.feed("a", "x")
    without.calls[0].run()
    savepoint = without.snapshot()

    harness = AgentHarness(three_calls(), store=store.open, before_call=before)
    harness.restore(savepoint)
    harness.advance(LONG_S)
    harness.calls[0].run()
    replay(harness, savepoint)
    assert harness.outputs == [["got ('x', 0)", "got ('x', 1)", "got ('x', 2)"]]
    assert set(made.values()) == {1}


def test_a_call_in_flight_is_made_again_with_its_key_or_reconciled(store):
    keys = []

    async def act(event, ctx):
        reconciler = (lambda: "reconciled") if event.input == "reconciler" else None
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, event.input, reconciler=reconciler)))

    harness = AgentHarness(
        agent_of(act), store=store.open, before_call=lambda call: keys.append((call.name, call.idempotency_key))
    )
    beginning = harness.snapshot()
    inputs = [("a", "plain"), ("b", "reconciler")]
    for key, value in inputs:
        harness.feed(key, value)
    flying = [call.idempotency_key for call in harness.calls]
    keys += [("fetch", key) for key in flying]  # made, and their outcome is lost
    replay(harness, beginning, *inputs)
    assert harness.outputs == ["got plain", "reconciled"]
    assert [key for name, key in keys if name == "fetch"] == [flying[0], flying[1], flying[0]]
    assert harness.stats.reconciled == 1


def test_the_retry_budget_and_the_waiting_time_are_the_stores(store):
    def refuse(x):
        raise ConnectionError(x)

    async def act(event, ctx):
        try:
            await ctx.durable_execute_async(refuse, 1, retry=RetryPolicy(max_attempts=3, initial=100, jitter=0))
        except ConnectionError:
            ctx.send_event(OutputEvent("given up"))

    made = Counter()
    harness = AgentHarness(agent_of(act), store=store.open, before_call=lambda call: made.update([call.name]))
    harness.feed("a", 0)
    flying = harness.snapshot()  # keyed state: the first attempt is in flight
    harness.calls[0].run()
    harness.restore(flying)
    harness.advance(LONG_S)
    assert harness.calls == []  # the store: it has failed, the second one is due in 100 s
    for _ in range(20):
        harness.advance(100)
        finish_all(harness)
    assert harness.outputs == ["given up"]
    assert made == {"refuse": 3}


# --- order of writing, calling and going on ---------------------------------------------------------------------------


def look(slot):
    """What the store knows of a call, seen from within it or from the action."""
    (status,) = [json.loads(r.value)["call"][2] for r in stores_looked_at[-1].records if r.slot == slot]
    seen.append((slot, status))


def test_a_call_is_written_as_pending_before_it_is_made_and_its_outcome_before_the_action_goes_on(store):
    async def act(event, ctx):
        ctx.durable_execute(look, 0)
        look(0)
        await ctx.gather(ctx.durable_execute_async(look, 1), ctx.durable_execute_async(look, 2))
        look(1)
        look(2)
        await ctx.durable_execute_async(look, 3)
        look(3)

    stores_looked_at.append(store)
    harness = AgentHarness(agent_of(act), store=store.open, latency=0.1)
    harness.feed("a", 0)
    harness.run()
    assert seen == [(0, "p"), (0, "r"), (1, "p"), (2, "p"), (1, "r"), (2, "r"), (3, "p"), (3, "r")]
    assert store.of("act") == [-1]


def test_one_callback_writes_once_for_all_its_keys(store):
    harness = AgentHarness(three_calls(), store=store.open, latency=0.1)
    for number in range(10):
        harness.feed(f"key {number}", number)
    puts = store.handles[0].calls.count("put")
    assert puts == 10
    harness.advance(0.15)  # ten outcomes in one callback: one put for them, one for the calls that follow
    assert store.handles[0].calls.count("put") == puts + 2


# --- a store that fails -----------------------------------------------------------------------------------------------


def test_if_the_store_fails_nothing_is_called_and_nothing_emitted(store):
    made = []
    harness = AgentHarness(three_calls(), store=store.open, before_call=made.append, latency=0.1)
    harness.feed("a", 0)
    (first,) = made
    store.plan.down_after_puts = 1  # what has come of the first call is written, the second one is not
    with pytest.raises(StoreError):
        harness.run()
    assert made == [first]
    store.plan.down = False
    with pytest.raises(StoreError):
        harness.feed("b", 0)  # this attempt is over, whatever becomes of the store
    assert (made, harness.outputs) == ([first], [])


def test_if_an_action_cannot_be_recorded_its_effects_do_not_leave(store):
    def act(event, ctx):
        ctx.side_output("audit", 1)
        ctx.send_event(OutputEvent(1))

    harness = AgentHarness(agent_of(act), store=store.open)
    beginning = harness.snapshot()
    store.plan.down_after_puts = 0
    with pytest.raises(StoreError):
        harness.feed("a", 0)
    assert (harness.outputs, harness.all_side_outputs(), store.records) == ([], [], [])
    store.plan.down, store.plan.down_after_puts = False, None
    replay(harness, beginning, ("a", 0))
    assert harness.outputs == [1]


def bring_back_the_store():
    plan = stores_looked_at[-1].plan
    plan.down, plan.down_after_puts = False, None


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@pytest.mark.parametrize("fault", ["before the call", "after the call"])
def test_neither_on_error_nor_an_except_goes_on_after_a_failed_write(store, policy, fault):
    def act(event, ctx):
        if event.input == "catch":
            try:
                ctx.durable_execute(fetch, 1)
            except StoreError:
                bring_back_the_store()
        else:
            ctx.durable_execute(fetch, 1)
        ctx.send_event(OutputEvent("went on"))

    stores_looked_at.append(store)
    for value in ("catch", "let through"):
        harness = AgentHarness(agent_of(act, on_error=policy), store=store.open)
        beginning = harness.snapshot()
        store.plan.down_after_puts = 0 if fault == "before the call" else 1
        with pytest.raises(StoreError):
            harness.feed("a", value)
        assert (harness.outputs, harness.all_side_outputs()) == ([], [])
        assert store.of("act") in ([], [0])
        store.plan.down, store.plan.down_after_puts = False, None
        replay(harness, beginning, ("a", value))
        assert harness.outputs == ["went on"]
        store.handles[-1].forget(b'"a"', 1)


def test_what_was_written_but_reported_as_failed_is_not_done_again(store):
    made = Counter()
    harness = AgentHarness(three_calls(), store=store.open, before_call=lambda call: made.update([call.args]))
    beginning = harness.snapshot()
    harness.feed("a", "x")
    store.plan.lose_acknowledgements = 1
    with pytest.raises(StoreError):
        harness.calls[0].run()
    replay(harness, beginning, ("a", "x"))
    assert set(made.values()) == {1}
    assert len(harness.outputs) == 1


def test_an_attempt_that_was_given_up_can_neither_write_nor_emit(store):
    zombie = AgentHarness(three_calls(), store=store.open)
    zombie.feed("a", "x")
    successor = AgentHarness(three_calls(), store=store.open)
    successor.feed("a", "x")
    with pytest.raises(FencedError):
        finish_all(zombie)
    assert zombie.outputs == []
    finish_all(successor)
    assert len(successor.outputs) == 1


def test_what_an_attempt_that_was_given_up_wrote_before_is_seen_by_its_successor(store):
    made = Counter()

    def before(call):
        made.update([call.args])

    zombie = AgentHarness(three_calls(), store=store.open, before_call=before)
    successor = AgentHarness(three_calls(), store=store.open, before_call=before)  # the store is empty at this moment
    zombie.feed("a", "x")
    zombie.calls[0].run()
    successor.feed("a", "x")
    finish_all(successor)
    assert set(made.values()) == {1}


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


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_without_a_store_there_is_no_recorder():
    assert AgentHarness(three_calls()).engine.recorder is None


def test_a_key_is_claimed_once_an_attempt_and_not_for_what_is_over(store):
    harness = AgentHarness(everything(), store=store.open)
    for number in range(5):
        harness.feed("a", number)
        finish_all(harness)
    assert store.handles[-1].calls.count("claim") == 1
    late = harness.snapshot()
    harness.feed("a", 5)
    finish_all(harness)
    replay(harness, late, ("a", 5), ("a", 6))
    assert store.handles[-1].calls.count("claim") == 1
    assert harness.engine.recorder._history == {}


# --- everything at once -----------------------------------------------------------------------------------------------


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
    crash(SCENARIOS[name], depth=9, sample=150)
    crash(SCENARIOS[name], depth=9, crashes=5, sample=40)
