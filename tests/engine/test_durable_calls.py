"""What a restore does to durable calls: recorded ones are answered, pending ones made again (S5, S6, S7)."""

from __future__ import annotations

import itertools
import logging
from collections import Counter

import pytest

from flink_agents_py.errors import ActionFailedError, JournalMismatchError
from flink_agents_py.events import OutputEvent
from flink_agents_py.testing import AgentHarness
from tests.support.agents import agent_of, restart


class Ledger:
    """Counts what is really called, by name and argument."""

    def __init__(self) -> None:
        self.made: Counter = Counter()
        self.keys: dict = {}

    def before(self, call) -> None:
        self.made[call.name, call.args] += 1
        self.keys.setdefault((call.name, call.args), []).append(call.kwargs.get("idempotency_key"))


def fetch(x, *, idempotency_key=None):
    return f"got {x}"


async def fetch_async(x):
    return f"got {x} async"


def fail(x):
    raise LookupError("nothing", x)


def steps(harness: AgentHarness, count: int) -> None:
    for _ in range(count):
        if harness.calls:
            harness.calls[0].run()


async def mixed(event, ctx):
    """Sync, async, failing, parallel and sleeping calls in one action."""
    out = [ctx.durable_execute(fetch, "sync")]
    out.append(await ctx.durable_execute_async(fetch, 1))
    try:
        await ctx.durable_execute_async(fail, 2)
    except LookupError as error:
        out.append(error.args)
    await ctx.sleep(3)
    out.extend(await ctx.gather(ctx.durable_execute_async(fetch, 3), ctx.durable_execute_async(fetch_async, 4)))
    out.append(ctx.durable_execute(fetch, "sync again"))
    out.append(await ctx.durable_execute_async(fetch, 5))
    ctx.send_event(OutputEvent(out))


def drive_mixed(harness: AgentHarness) -> None:
    for _ in range(20):
        steps(harness, 10)
        harness.advance(4)


@pytest.mark.parametrize("before_crash", range(8))
def test_a_mixed_sequence_resumes_in_the_middle_and_calls_nothing_recorded_again(before_crash):
    undisturbed = AgentHarness(agent_of(mixed))
    undisturbed.feed("a", 1)
    drive_mixed(undisturbed)
    (expected,) = undisturbed.outputs

    ledger = Ledger()
    harness = AgentHarness(agent_of(mixed), before_call=ledger.before)
    harness.feed("a", 1)
    for _ in range(before_crash):
        steps(harness, 1)
        harness.advance(2)
    recorded = ledger.made.copy()
    restart(harness)
    drive_mixed(harness)
    assert harness.outputs == [expected]
    assert expected == ["got sync", "got 1", ("nothing", 2), "got 3", "got 4 async", "got sync again", "got 5"]
    assert all(ledger.made[call] == times for call, times in recorded.items())
    assert set(ledger.made.values()) == {1}


def test_two_checkpoints_back_restores_as_well_as_the_newest():
    async def act(event, ctx):
        ctx.send_event(OutputEvent([await ctx.durable_execute_async(fetch, number) for number in range(4)]))

    ledger = Ledger()
    harness = AgentHarness(agent_of(act), before_call=ledger.before)
    harness.feed("a", 1)
    snapshots = [harness.snapshot()]
    for _ in range(3):
        steps(harness, 1)
        snapshots.append(harness.snapshot())
    harness.restore(snapshots[1])  # one call recorded, the second in flight
    harness.advance(30)
    steps(harness, 9)
    assert harness.outputs == [[f"got {number}" for number in range(4)]]
    assert ledger.made == {("fetch", (0,)): 1, ("fetch", (1,)): 2, ("fetch", (2,)): 2, ("fetch", (3,)): 1}
    assert all(len(set(keys)) == 1 for keys in ledger.keys.values())  # S7


def test_a_pending_call_is_made_again_with_the_same_idempotency_key():
    async def act(event, ctx):
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, 1)))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    key = harness.calls[0].kwargs["idempotency_key"]
    restart(harness)
    (call,) = harness.calls
    assert call.kwargs["idempotency_key"] == key
    call.run()
    assert harness.outputs == ["got 1"]


def test_a_pending_call_with_a_reconciler_asks_it_instead():
    async def act(event, ctx):
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(fetch, 1, reconciler=lambda: "reconciled")))

    ledger = Ledger()
    harness = AgentHarness(agent_of(act), before_call=ledger.before)
    harness.feed("a", 1)
    restart(harness)
    (call,) = harness.calls
    call.run()
    assert harness.outputs == ["reconciled"]
    assert ledger.made == {("<lambda>", ()): 1}
    assert harness.stats.reconciled == 1


def test_a_reconciler_is_not_asked_without_a_crash_nor_for_a_recorded_call():
    asked = []

    async def act(event, ctx):
        first = await ctx.durable_execute_async(fetch, 1, reconciler=lambda: asked.append(1))
        second = await ctx.durable_execute_async(fetch, 2, reconciler=lambda: "second reconciled")
        ctx.send_event(OutputEvent([first, second]))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    harness.calls[0].run()
    restart(harness)
    harness.calls[0].run()
    assert harness.outputs == [["got 1", "second reconciled"]]
    assert asked == []


def test_an_exception_of_a_reconciler_is_the_outcome_not_retried_and_recorded():
    from flink_agents_py.policies import RetryPolicy

    asked = []

    def reconcile():
        asked.append(1)
        raise LookupError("never arrived")

    async def act(event, ctx):
        try:
            await ctx.durable_execute_async(fetch, 1, reconciler=reconcile, retry=RetryPolicy(max_attempts=5))
        except LookupError as error:
            await ctx.durable_execute_async(fetch, "after")
            ctx.send_event(OutputEvent(str(error)))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    restart(harness)
    harness.calls[0].run()
    restart(harness)
    harness.calls[0].run()
    assert harness.outputs == ["never arrived"]
    assert asked == [1]


# --- mismatch -------------------------------------------------------------------------------------------------------


def unstable(path: list):
    """An action that takes another way each time: the calls it makes are the next entry of ``path``."""

    async def act(event, ctx):
        out = []
        for argument in path.pop(0):
            reconciler = (lambda: "reconciled") if argument == "asked" else None
            out.append(await ctx.durable_execute_async(fetch, argument, reconciler=reconciler))
        ctx.send_event(OutputEvent(out))

    return agent_of(act)


def test_a_mismatch_drops_the_tail_is_counted_and_logged_with_both_identities(caplog):
    path = [["same", "old", "asked", "last"], ["same", "new", "asked", "last"]]
    ledger = Ledger()
    harness = AgentHarness(unstable(path), before_call=ledger.before)
    harness.feed("a", 1)
    steps(harness, 3)
    first_keys = {call: keys[0] for call, keys in ledger.keys.items()}
    with caplog.at_level(logging.WARNING, "flink_agents_py.engine"):
        restart(harness)
    steps(harness, 9)
    assert harness.outputs == [["got same", "got new", "got asked", "got last"]]  # the reconciler was not asked
    assert ledger.made["fetch", ("same",)] == 1
    assert ledger.made["fetch", ("asked",)] == 2
    assert harness.stats.mismatches == 1
    (record,) = [record for record in caplog.records if "journal mismatch" in record.getMessage()]
    assert "call 1" in record.getMessage()
    assert "fetch" in record.getMessage()
    # Another call at the same place never presents the key of the old one.
    assert ledger.keys["fetch", ("new",)][0] != first_keys["fetch", ("old",)]
    assert ledger.keys["fetch", ("asked",)][1] != first_keys["fetch", ("asked",)]


def test_after_a_mismatch_the_new_path_is_the_recorded_one():
    path = [["old", "x"], ["new", "y"], ["new", "y"], ["new", "y"]]
    ledger = Ledger()
    harness = AgentHarness(unstable(path), before_call=ledger.before)
    harness.feed("a", 1)
    steps(harness, 1)
    restart(harness)
    steps(harness, 1)
    restart(harness)
    pending = harness.calls[0].kwargs["idempotency_key"]
    restart(harness)
    assert harness.calls[0].kwargs["idempotency_key"] == pending
    steps(harness, 9)
    assert harness.outputs == [["got new", "got y"]]
    assert ledger.made["fetch", ("new",)] == 1
    assert len(set(ledger.keys["fetch", ("new",)])) == 1


def test_fail_on_mismatch_raises_with_both_identities():
    harness = AgentHarness(unstable([["old", "x"], ["new", "x"]]), {"durable.on-mismatch": "fail"})
    harness.feed("a", 1)
    steps(harness, 1)
    with pytest.raises(ActionFailedError) as caught:
        restart(harness)
    assert isinstance(caught.value.__cause__, JournalMismatchError)
    message = str(caught.value.__cause__)
    assert message.count("fetch") == 2
    assert "durable call 0" in message


@pytest.mark.parametrize("policy", ["skip", "dead_letter", "fail"])
def test_fail_on_mismatch_cannot_be_hidden_by_the_action_nor_by_its_policy(policy):
    path = ["old", "new"]

    async def act(event, ctx):
        try:
            answer = await ctx.durable_execute_async(fetch, path.pop(0))
        except Exception:  # noqa: BLE001
            answer = "fallback"
        await ctx.durable_execute_async(fetch, "old")
        ctx.send_event(OutputEvent(answer))

    harness = AgentHarness(agent_of(act, on_error=policy), {"durable.on-mismatch": "fail"})
    harness.feed("a", 1)
    steps(harness, 1)
    with pytest.raises(ActionFailedError) as caught:
        restart(harness)
    assert isinstance(caught.value.__cause__, JournalMismatchError)


# --- parallel calls -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("crash_after", [0, 1, 2])
def test_parallel_calls_finish_in_any_order_with_a_crash_between_any_two(order, crash_after):
    async def act(event, ctx):
        calls = [ctx.durable_execute_async(fetch, number) for number in range(3)]
        ctx.send_event(OutputEvent(await ctx.gather(*calls)))

    ledger = Ledger()
    harness = AgentHarness(agent_of(act), before_call=ledger.before)
    harness.feed("a", 1)
    assert len(harness.calls) == 3
    for done, number in enumerate(order):
        if done == crash_after:
            restart(harness)
            assert len(harness.calls) == 3 - done
        next(call for call in harness.calls if call.args == (number,)).run()
    assert harness.outputs == [["got 0", "got 1", "got 2"]]
    assert set(ledger.made.values()) == {1}


def test_gather_raises_the_first_exception_in_argument_order_when_all_are_done():
    async def act(event, ctx):
        try:
            await ctx.gather(*(ctx.durable_execute_async(fail, number) for number in range(3)))
        except LookupError as error:
            ctx.send_event(OutputEvent(error.args))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    for call in reversed(harness.calls):
        assert harness.outputs == []
        call.run()
    assert harness.outputs == [("nothing", 0)]


@pytest.mark.parametrize("crash", [False, True])
def test_gather_can_return_exceptions_in_place(crash):
    async def act(event, ctx):
        results = await ctx.gather(
            ctx.durable_execute_async(fetch, 1), ctx.durable_execute_async(fail, 2), return_exceptions=True
        )
        await ctx.durable_execute_async(fetch, 3)
        ctx.send_event(OutputEvent([results[0], type(results[1]).__name__, results[1].args]))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    steps(harness, 2)
    if crash:
        restart(harness)
    steps(harness, 1)
    assert harness.outputs == [["got 1", "LookupError", ("nothing", 2)]]


def test_an_empty_gather_gives_an_empty_list():
    async def act(event, ctx):
        ctx.send_event(OutputEvent(await ctx.gather()))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    assert harness.outputs == [[]]


def test_calls_created_before_the_first_await_run_in_parallel_and_are_recorded_in_creation_order():
    async def act(event, ctx):
        one = ctx.durable_execute_async(fetch, 1)
        two = ctx.durable_execute_async(fetch, 2)
        ctx.send_event(OutputEvent([await two, await one]))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    assert [call.args for call in harness.calls] == [(1,), (2,)]
    harness.calls[1].run()
    restart(harness)
    assert [call.args for call in harness.calls] == [(1,)]
    harness.calls[0].run()
    assert harness.outputs == [["got 2", "got 1"]]


def test_the_number_of_calls_may_depend_on_earlier_results():
    async def act(event, ctx):
        total = 0
        for _ in range(await ctx.durable_execute_async(len, event.input)):
            total += len(await ctx.durable_execute_async(fetch, total))
        ctx.send_event(OutputEvent(total))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", "abcd")
    while harness.calls:
        harness.calls[0].run()
        restart(harness)
    assert harness.outputs == [5 + 5 + 6 + 6]


def test_a_sync_durable_call_is_recorded():
    made = []

    async def act(event, ctx):
        first = ctx.durable_execute(lambda x: made.append(x) or len(made), "x")
        await ctx.durable_execute_async(fetch, 1)
        ctx.send_event(OutputEvent(first))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    restart(harness)
    harness.calls[0].run()
    assert harness.outputs == [1]
    assert made == ["x"]


def test_a_sync_durable_call_in_a_sync_action_gives_result_or_exception():
    def act(event, ctx):
        try:
            ctx.durable_execute(fail, 1)
        except LookupError as error:
            ctx.send_event(OutputEvent([error.args, ctx.durable_execute(fetch, 2)]))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    assert harness.outputs == [[("nothing", 1), "got 2"]]


def test_a_changed_result_object_does_not_change_the_record():
    async def act(event, ctx):
        values = await ctx.durable_execute_async(list, (3, 1, 2))
        first = list(values)
        values.sort()
        await ctx.durable_execute_async(fetch, 1)
        ctx.send_event(OutputEvent(first))

    harness = AgentHarness(agent_of(act))
    harness.feed("a", 1)
    harness.calls[0].run()
    restart(harness)
    harness.calls[0].run()
    assert harness.outputs == [[3, 1, 2]]
