"""The test kit catches what it is there to catch: engines and agents that are wrong, each in its own way."""

from __future__ import annotations

import itertools
import random

import pytest

from flink_agents_py.engine.desk import CallDesk
from flink_agents_py.engine.engine import Engine
from flink_agents_py.engine.journal import CallRecord, Journal
from flink_agents_py.engine.task import ActionTask
from flink_agents_py.engine.unfinished import UnfinishedRuns
from flink_agents_py.events import OutputEvent
from flink_agents_py.local.ports import StoredMap, StoredValue, TimerQueue
from flink_agents_py.policies import RetryPolicy
from flink_agents_py.testing import Scenario, crash_everywhere
from tests.support.agents import agent_of

INPUTS = [("a", 1), ("b", 2), ("a", 3), ("a", 4)]
counter = itertools.count()


def fetch(x, *, idempotency_key=None):
    return f"got {x}"


def honest():
    async def act(event, ctx):
        first = await ctx.durable_execute_async(fetch, event.input)
        memory = ctx.short_term_memory
        memory.set("n", (memory.get("n") or 0) + 1)
        second = await ctx.durable_execute_async(fetch, [event.input, first])
        ctx.send_event(OutputEvent([second, memory.get("n")]))

    return agent_of(act)


def check(agent=honest, **options):
    return crash_everywhere(Scenario(agent, INPUTS, **options))


def test_an_honest_agent_on_an_honest_engine_passes_and_the_report_counts():
    report = check()
    assert report.steps > 10
    assert report.points > 2 * report.steps
    assert report.repeated_calls > 0
    assert report.replayed_calls > 0
    doubled = report + report
    assert (doubled.steps, doubled.points) == (2 * report.steps, 2 * report.points)
    assert crash_everywhere(Scenario(honest, INPUTS), sample=7).points == 7
    assert crash_everywhere(Scenario(honest, INPUTS), depth=1).points == report.steps


# --- engines that are wrong -----------------------------------------------------------------------------------------


def test_a_journal_that_never_replays_is_caught(monkeypatch):
    monkeypatch.setattr(Journal, "from_plain", classmethod(lambda cls, records: cls()))
    with pytest.raises(AssertionError, match="had an outcome in the checkpoint, and is made again"):
        check()


def test_a_lost_waiting_input_is_caught(monkeypatch):
    # The count of what waits is remembered in memory alone: a restore forgets it.
    monkeypatch.setattr(StoredMap, "keys", lambda self: [])
    with pytest.raises(AssertionError, match="differ"):
        check()


def test_a_missing_resume_timer_is_caught(monkeypatch):
    monkeypatch.setattr(UnfinishedRuns, "arm", lambda self, entry: None)
    monkeypatch.setattr(Engine, "_arm_pump", lambda self: None)
    with pytest.raises(AssertionError, match="no timer will ever resume them"):
        check()


def test_timers_lost_in_a_restore_are_caught(monkeypatch):
    monkeypatch.setattr(TimerQueue, "restore", lambda self, timers: None)
    with pytest.raises(AssertionError, match="no timer will ever resume them"):
        crash_everywhere(Scenario(honest, INPUTS[:1]))


def test_an_idempotency_key_that_changes_is_caught(monkeypatch):
    monkeypatch.setattr(ActionTask, "_idempotency_key", lambda self, ordinal, generation: f"{next(counter)}")
    with pytest.raises(AssertionError, match=r"calls differ|keys differ"):
        check()


def test_an_idempotency_key_shared_by_two_calls_is_caught(monkeypatch):
    monkeypatch.setattr(ActionTask, "_idempotency_key", lambda self, ordinal, generation: f"{self.run.key}")
    with pytest.raises(AssertionError, match="belongs to"):
        check()


def test_memory_that_leaks_out_of_an_unfinished_action_is_caught(monkeypatch):
    honest_settle = UnfinishedRuns.settle

    def settle(self):
        for entry in self._dirty:
            for task in entry.run.tasks:
                task.commit_memory()
        honest_settle(self)

    monkeypatch.setattr(UnfinishedRuns, "settle", settle)
    with pytest.raises(AssertionError, match=r"outputs differ|memory differ|calls differ|made again"):
        check()


def test_leftovers_of_a_run_in_state_are_caught(monkeypatch):
    cleared = []
    honest_clear = StoredValue.clear

    def clear(self):
        cleared.append(1)
        if len(cleared) % 5:
            honest_clear(self)

    monkeypatch.setattr(StoredValue, "clear", clear)
    with pytest.raises(AssertionError):
        check()


def test_an_agent_that_counts_attempts_outside_of_state_is_caught():
    made = []

    def failing(x):
        made.append(x)
        raise ValueError(x)

    def agent():
        async def act(event, ctx):
            try:
                await ctx.durable_execute_async(failing, event.input)
            except ValueError:
                ctx.send_event(OutputEvent(len(made)))

        return agent_of(act, retry=RetryPolicy(max_attempts=2, initial=0.1))

    with pytest.raises(AssertionError, match="outputs differ"):
        crash_everywhere(Scenario(agent, [("a", 1)], reset=made.clear))


def test_outcomes_that_are_not_written_are_caught(monkeypatch):
    honest_record = CallDesk._record

    def record(self, call, error, result):
        honest_record(self, call, error, result)
        call.record.status = "p"

    monkeypatch.setattr(CallDesk, "_record", record)
    with pytest.raises(AssertionError, match="made again"):
        check()


def test_a_record_written_to_the_wrong_call_is_caught(monkeypatch):
    honest_json = CallRecord.to_json
    monkeypatch.setattr(CallRecord, "to_json", lambda self: honest_json(self).replace("got 1", "got 2"))
    with pytest.raises(AssertionError):
        check()


# --- agents that are wrong ------------------------------------------------------------------------------------------


def test_an_agent_that_draws_random_arguments_is_caught():
    def agent():
        async def act(event, ctx):
            await ctx.durable_execute_async(fetch, random.random())

        return agent_of(act)

    with pytest.raises(AssertionError, match=r"belongs to|differ"):
        check(agent)


def test_an_agent_whose_policy_hides_failures_cannot_hide_a_violation():
    def agent():
        async def act(event, ctx):
            try:
                await ctx.durable_execute_async(fetch, next(counter))
            except Exception:  # noqa: BLE001
                ctx.send_event(OutputEvent("hidden"))

        return agent_of(act, on_error="skip")

    with pytest.raises(AssertionError, match=r"belongs to|differ"):
        check(agent)


def test_an_agent_that_keeps_state_on_itself_is_caught():
    def agent():
        seen = []

        async def act(event, ctx):
            await ctx.durable_execute_async(fetch, event.input)
            seen.append(event.input)
            ctx.send_event(OutputEvent(len(seen)))

        return agent_of(act)

    with pytest.raises(AssertionError, match="outputs differ"):
        check(agent)


def test_an_agent_that_calls_the_world_outside_of_a_durable_call_is_not_caught_but_its_ledger_tells():
    made = []

    def agent():
        async def act(event, ctx):
            made.append(event.input)  # not durable: once per attempt
            await ctx.durable_execute_async(fetch, event.input)
            ctx.send_event(OutputEvent(event.input))

        return agent_of(act)

    crash_everywhere(Scenario(agent, [("a", 1)]), sample=1)
    assert len(made) == 1 + 2


def test_an_order_that_changes_with_a_crash_is_told_apart_from_a_loss():
    def agent():
        async def slow(event, ctx):
            await ctx.durable_execute_async(fetch, ("slow", event.input))
            ctx.send_event(OutputEvent("slow"))

        async def quick(event, ctx):
            await ctx.durable_execute_async(fetch, ("quick", event.input))
            await ctx.durable_execute_async(fetch, ("quick again", event.input))
            ctx.send_event(OutputEvent("quick"))

        return agent_of(slow, quick)

    def latency(call):
        return 0.15 if call.args[0][0] == "slow" else 0.1

    scenario = Scenario(agent, [("a", 1)], latency=latency)
    with pytest.raises(AssertionError, match="outputs differ"):
        crash_everywhere(scenario)
    crash_everywhere(Scenario(agent, [("a", 1)], latency=latency, ordered=False))


def test_a_message_says_at_which_crash_and_checkpoint(monkeypatch):
    monkeypatch.setattr(StoredMap, "keys", lambda self: [])
    with pytest.raises(
        AssertionError, match=r"crash after callback \d+, restored from the checkpoint after callback \d+"
    ):
        check()
