"""The four phases of a call: what is refused, what is remembered, what comes back, what is left behind."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from flink_agents_py import Agent, InputEvent, OutputEvent, action
from flink_agents_py.errors import AgentDefinitionError
from flink_agents_py.external import (
    ActionRegistry,
    ActionResult,
    ActionSpec,
    BusinessRejected,
    FailedAction,
    NetworkUnavailable,
    Oversized,
)
from flink_agents_py.testing import AgentHarness
from tests.external.kit import Caller, Tracing, echo, harness, letters, one, results


class Refund(BaseModel):
    n: int


def test_a_call_returns_what_the_handler_did():
    agent = harness(one(), latency=0.1)
    agent.feed("k", 7)
    agent.run()
    assert agent.outputs == ["SUCCESS"]
    (result,) = results(agent)
    assert ActionResult.from_plain(result).value == {"did": {"n": 7}}
    assert result["attempts"] == 1
    assert result["finished_ms"] - result["started_ms"] == 100
    assert letters(agent) == []


def test_a_call_that_breaks_the_schema_never_reaches_the_handler():
    made = []
    agent = harness(one(ActionSpec(name="do", parameters=Refund)), before_call=made.append, latency=0.1)
    agent.feed("k", "seven")
    assert agent.outputs == ["INVALID_CALL"]
    assert made == []
    (letter,) = letters(agent)
    assert letter["phase"] == "validate"
    assert letter["attempts"] == 0
    assert letter["message"] == "$.n: 'seven' is not of type 'integer'"


def test_an_unknown_action_is_answered_with_those_that_exist():
    agent = harness(one(ActionSpec(name="other")), latency=0.1)
    agent.feed("k", 1)
    assert agent.outputs == ["UNKNOWN_ACTION"]
    assert "there are: other" in letters(agent)[0]["message"]


@pytest.mark.parametrize(
    ("name", "params", "trace", "code"),
    [
        ("do", [1], "t", "INVALID_CALL"),
        ("do", {"n": object}, "t", "INVALID_CALL"),
        ("do", {}, "", "INVALID_CALL"),
        ("", {}, "t", "INVALID_CALL"),
        (None, {}, "t", "INVALID_CALL"),
    ],
)
def test_a_call_of_the_wrong_structure_is_a_result_too(name, params, trace, code):
    class Odd(Caller):
        @action(InputEvent)
        @staticmethod
        async def go(event, ctx):
            result = await ctx.call(name, params, trace_id=trace)
            ctx.send_event(OutputEvent(result.code))

    agent = harness(one(), Odd, latency=0.1)
    agent.feed("k", 1)
    assert agent.outputs == [code]
    assert [letter["code"] for letter in letters(agent)] == [code]


def test_an_agent_without_actions_is_told_how_to_get_them():
    class Bare(Agent):
        @action(InputEvent)
        @staticmethod
        async def go(event, ctx):
            await ctx.call("do")

    with pytest.raises(Exception, match="FA301") as caught:
        AgentHarness(Bare()).feed("k", 1)
    assert isinstance(caught.value.__cause__, AgentDefinitionError)
    assert "add_action_registry" in str(caught.value.__cause__)


def test_the_same_deed_is_done_once_and_its_result_returned():
    agent = harness(one(), Tracing, latency=0.1)
    for value in (1, 1, 2):
        agent.feed("k", value)
    agent.feed("other", 1)
    agent.run()
    by_key = [(key, output) for key, output in agent.keyed_outputs if key == "k"]
    assert [output for _, output in by_key] == [("SUCCESS", False), ("SUCCESS", True), ("SUCCESS", False)]
    assert agent.stats.attempts == 3
    assert [result["phase"] for result in results(agent) if result["deduplicated"]] == ["idempotency"]


def test_without_a_trace_id_every_run_has_deeds_of_its_own():
    agent = harness(one(), latency=0.1)
    agent.feed("k", 1)
    agent.feed("k", 1)
    agent.run()
    assert agent.stats.attempts == 2


def test_equal_calls_at_one_time_are_one_call():
    class Twice(Caller):
        @action(InputEvent)
        @staticmethod
        async def go(event, ctx):
            both = await ctx.gather(ctx.call("do", {"a": 1, "b": 2}), ctx.call("do", {"b": 2, "a": 1}))
            ctx.send_event(OutputEvent([(result.code, result.deduplicated) for result in both]))

    agent = harness(one(), Twice, latency=0.1)
    agent.feed("k", 1)
    agent.run()
    assert agent.outputs == [[("SUCCESS", False), ("SUCCESS", True)]]
    assert agent.stats.attempts == 1


def test_when_the_first_of_equal_calls_is_given_up_the_second_is_made():
    class Abandoning(Caller):
        @action(InputEvent)
        @staticmethod
        async def go(event, ctx):
            ctx.call("do", {"n": 1}, trace_id="t")  # never awaited
            await ctx.sleep(0.01)

        @action(InputEvent)
        @staticmethod
        async def wait(event, ctx):
            result = await ctx.call("do", {"n": 1}, trace_id="t")
            ctx.send_event(OutputEvent((result.code, result.deduplicated)))

    agent = harness(one(), Abandoning, latency=0.1)
    agent.feed("k", 1)
    agent.run()
    assert agent.outputs == [("SUCCESS", False)]


def test_a_failure_is_not_remembered():
    answers = [BusinessRejected("no"), None]

    async def second_time(call, session):
        error = answers.pop(0)
        if error is not None:
            raise error

    agent = harness(one(handler=second_time), Tracing, latency=0.1)
    agent.feed("k", 1)
    agent.run()
    agent.feed("k", 1)
    agent.run()
    assert agent.outputs == [
        ("BUSINESS_REJECTED", False),
        ("failed", "BUSINESS_REJECTED", {"n": 1}),
        ("SUCCESS", False),
    ]


def test_a_success_is_forgotten_after_its_time_and_leaves_nothing_in_state():
    agent = harness(one(ActionSpec(name="do", idempotency_ttl_s=60)), Tracing, latency=0.1)
    agent.feed("k", 1)
    agent.run()
    assert len(agent.state_of("k")["agent.idem"]) == 2
    agent.advance(59)
    agent.feed("k", 1)
    agent.run()
    assert agent.outputs[-1] == ("SUCCESS", True)
    agent.advance(30)
    assert "agent.idem" not in agent.state_of("k")
    agent.feed("k", 1)
    agent.run()
    assert agent.outputs[-1] == ("SUCCESS", False)


def test_no_time_to_live_means_no_memory():
    agent = harness(one(ActionSpec(name="do", idempotency_ttl_s=0)), Tracing, latency=0.1)
    agent.feed("k", 1)
    agent.feed("k", 1)
    agent.run()
    assert agent.stats.attempts == 2
    assert "agent.idem" not in agent.state_of("k")


def test_audit_keeps_the_last_calls_of_a_key_and_no_values():
    agent = harness(one(), config={"external-actions.audit-size": 3}, latency=0.01)
    for value in range(8):
        agent.feed("k", value)
    agent.run()
    kept = agent.state_of("k")["agent.audit"]
    assert len(kept) == 4
    agent._store.switch("k")
    records = agent.engine.external.state.audited()
    assert [record["run_sequence"] for record in records] == [6, 7, 8]
    assert len({record["digest"] for record in records}) == 3
    assert "value" not in records[0]
    assert len(agent.side_output("action-audit")) == 8


def test_an_audit_made_smaller_or_larger_keeps_the_newest():
    agent = harness(one(), config={"external-actions.audit-size": 5}, latency=0.01)
    for value in range(4):
        agent.feed("k", value)
    agent.run()
    for size, kept in ((2, [4, 5]), (3, [4, 5, 6])):
        before = agent.snapshot()
        agent.upgrade(Caller(one()), {"external-actions.audit-size": size})
        agent.restore(before)
        agent.feed("k", 9)
        agent.run()
        agent._store.switch("k")
        assert [record["run_sequence"] for record in agent.engine.external.state.audited()] == kept


def test_a_long_result_is_cut_off_with_size_and_digest():
    async def long(call, session):
        return "x" * 5000

    agent = harness(one(ActionSpec(name="do", max_result_bytes=100), long), latency=0.1)
    agent.feed("k", 1)
    agent.run()
    (result,) = results(agent)
    assert result["truncated"]
    assert result["size"] == 5000
    assert result["value"].startswith("x" * 100 + "... [truncated: 5000 bytes, blake2b ")
    assert result["digest"] in result["value"]
    assert agent.side_output("action-audit")[0]["digest"] == result["digest"]


@pytest.mark.parametrize(
    ("value", "truncated", "size"),
    [
        ({"a": [1, 2]}, False, 11),
        ([0] * 200, True, 401),
        (b"abc", False, 3),
        (Oversized(b"head" * 100, 50_000_000, "d" * 32), True, 50_000_000),
        (object, True, len("<class 'object'>")),
        (None, False, 4),
    ],
)
def test_values_of_every_kind_are_kept_or_cut(value, truncated, size):
    agent = harness(one(ActionSpec(name="do", max_result_bytes=100), lambda call, session: value), latency=0.1)
    agent.feed("k", 1)
    agent.run()
    (result,) = results(agent)
    assert (result["code"], result["truncated"], result["size"]) == ("SUCCESS", truncated, size)


def test_a_dead_letter_says_everything_and_reads_back():
    async def unreachable(call, session):
        raise NetworkUnavailable("connection refused", detail={"host": "h"})

    agent = harness(one(ActionSpec(name="do", version="7", target="crm"), unreachable), Tracing, latency=0.1)
    agent.feed("k", 1)
    agent.run()
    (letter,) = letters(agent)
    failed = FailedAction.from_plain(letter)
    assert failed.call.params == {"n": 1}
    assert (failed.phase, failed.code, failed.attempts, failed.version, failed.target) == (
        "execute",
        "NETWORK_UNAVAILABLE",
        3,
        "7",
        "crm",
    )
    assert [error.attempt for error in failed.errors] == [1, 2, 3]
    assert failed.errors[0].detail == {"host": "h"}
    assert failed.errors[0].at_ms < failed.errors[2].at_ms == failed.failed_ms
    assert failed.idempotency_key == failed.call.idempotency_key
    assert agent.outputs == [("NETWORK_UNAVAILABLE", False), ("failed", "NETWORK_UNAVAILABLE", {"n": 1})]


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_what_was_done_is_reported_even_if_the_action_fails_after_it(policy):
    class Failing(Agent):
        def __init__(self):
            super().__init__()
            self.add_action_registry(one())

        @action(InputEvent, on_error=policy)
        @staticmethod
        async def go(event, ctx):
            await ctx.call("do", {"n": 1}, trace_id="t")
            raise ValueError("after the deed")

    agent = AgentHarness(Failing(), latency=0.1)
    agent.feed("k", 1)
    agent.feed("k", 2)
    agent.run()
    assert [(result["code"], result["deduplicated"]) for result in results(agent)] == [
        ("SUCCESS", False),
        ("SUCCESS", True),
    ]
    assert len(letters(agent)) == (2 if policy == "dead_letter" else 0)


def test_sync_handlers_objects_and_classes_are_handlers():
    class Handler:
        def handle(self, call, session):
            return [call.action, session.attempt, session.idempotency_key == call.idempotency_key]

    def function(call, session):
        return session.remaining_s() > 59

    registry = ActionRegistry()
    registry.register(ActionSpec(name="object"), Handler())
    registry.register(ActionSpec(name="class"), Handler)
    registry.register(ActionSpec(name="function"), function)
    registry.register(ActionSpec(name="named"), "tests.external.kit:echo")

    class Everything(Agent):
        @action(InputEvent)
        @staticmethod
        async def go(event, ctx):
            made = await ctx.gather(*(ctx.call(name) for name in ("object", "class", "function", "named")))
            ctx.send_event(OutputEvent([result.value for result in made]))

    agent = AgentHarness(Everything().add_action_registry(registry), latency=0.1)
    agent.feed("k", 1)
    agent.run()
    assert agent.outputs == [[["object", 1, True], ["class", 1, True], True, {"did": {}}]]


def test_a_fast_call_within_the_grace_wait_is_never_written_as_in_flight():
    for grace, written in ((50, 0), (0, 1)):
        agent = harness(one(ActionSpec(name="do", grace_wait_ms=grace)), latency=0.02)
        agent.feed("k", 1)
        assert agent.stats.state_writes == written
        agent.run()
        assert agent.outputs == ["SUCCESS"]


def test_a_slow_call_is_suspended_when_the_grace_wait_is_over():
    agent = harness(one(ActionSpec(name="do", grace_wait_ms=50)), latency=0.2)
    before = agent.clock.now_ms()
    agent.feed("k", 1)
    assert agent.clock.now_ms() - before == 50
    assert agent.stats.state_writes == 1
    agent.run()
    assert agent.outputs == ["SUCCESS"]


def test_what_a_handler_or_the_agent_does_to_the_parameters_stays_theirs():
    seen = []

    def greedy(call, session):
        seen.append(dict(call.params))
        call.params.clear()
        raise NetworkUnavailable("down")

    class Mutating(Caller):
        @action(InputEvent)
        @staticmethod
        async def go(event, ctx):
            params = {"n": [event.input]}
            waiting = ctx.call("do", params)
            params["n"].append("later")
            ctx.send_event(OutputEvent((await waiting).code))

    agent = harness(one(handler=greedy), Mutating, latency=0.1)
    agent.feed("k", 1)
    agent.run()
    assert seen == [{"n": [1]}] * 3
    assert letters(agent)[0]["call"]["params"] == {"n": [1]}


def test_counters_tell_calls_and_codes():
    agent = harness(one(ActionSpec(name="do", parameters=Refund), echo), Tracing, latency=0.1)
    for value in (1, 1, "x"):
        agent.feed("k", value)
    agent.run()
    group = agent.engine.metrics.get_sub_group("external")
    counts = {
        name: group.get_counter(name).get_count() for name in ("calls", "SUCCESS", "deduplicated", "INVALID_CALL")
    }
    assert counts == {"calls": 3, "SUCCESS": 1, "deduplicated": 1, "INVALID_CALL": 1}
