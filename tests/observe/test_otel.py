"""Spans: which there are, under what, and that replays get none."""

from __future__ import annotations

import pytest

from flink_agents_py import Agent, InputEvent, OutputEvent, RunnerContext, action
from flink_agents_py.testing import AgentHarness

sdk = pytest.importorskip("opentelemetry.sdk.trace")


class Asker(Agent):
    @action(InputEvent, on_error="skip")
    @staticmethod
    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(look_up, event.input)
        ctx.record_usage("small", 3, 4)
        answer = await ctx.durable_execute_async(look_up, "again")
        ctx.send_event(OutputEvent(answer))


async def look_up(question: str) -> str:
    return question


@pytest.fixture
def exported(monkeypatch):
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: provider)
    return exporter.get_finished_spans


def test_runs_actions_and_calls_are_spans_inside_one_another(exported):
    harness = AgentHarness(Asker(), {"otel.spans": True})
    harness.feed("ann", "why")
    harness.calls[0].complete("because")
    harness.calls[0].complete("of that")
    first, second, act, run = exported()
    assert run.name == "invoke_agent Asker"
    assert run.attributes["gen_ai.agent.name"] == "Asker"
    assert act.parent.span_id == run.context.span_id
    assert first.parent.span_id == second.parent.span_id == act.context.span_id
    assert {span.context.trace_id for span in exported()} == {run.context.trace_id}
    (usage,) = act.events
    assert usage.attributes["gen_ai.request.model"] == "small"
    assert usage.attributes["gen_ai.usage.input_tokens"] == 3


def test_a_call_the_journal_answers_has_one_span_in_all_attempts(exported):
    harness = AgentHarness(Asker(), {"otel.spans": True})
    harness.feed("ann", "why")
    harness.calls[0].complete("because")
    snapshot = harness.snapshot()
    harness.crash()
    harness.restore(snapshot)
    harness.advance(10)
    harness.calls[0].complete("of that")
    calls = [span.attributes["flink_agents.call"] for span in exported() if "flink_agents.call" in span.attributes]
    assert calls == [0, 1]
    run = exported()[-1]
    assert run.attributes["flink_agents.resumed"]
    assert len({span.context.trace_id for span in exported()}) == 1
    act = exported()[-2]
    assert [event.name for event in act.events] == []  # its tokens were counted the first time


def test_a_failed_action_says_why(exported):
    harness = AgentHarness(Asker(), {"otel.spans": True})
    harness.feed("ann", "why")
    harness.calls[0].fail(ConnectionError("refused"))
    act = next(span for span in exported() if span.name == "action ask")
    assert act.attributes["error.type"] == "ConnectionError"
    assert act.attributes["flink_agents.outcome"] == "skipped"


def test_an_action_that_waits_for_nothing_has_its_span_too(exported):
    class Relay(Agent):
        @action(InputEvent)
        @staticmethod
        def relay(event: InputEvent, ctx: RunnerContext) -> None:
            ctx.send_event(OutputEvent(event.input))

    harness = AgentHarness(Relay(), {"otel.spans": True})
    harness.feed("ann", "why")
    act, run = exported()
    assert (act.name, act.attributes["flink_agents.outcome"]) == ("action relay", "finished")
    assert act.parent.span_id == run.context.span_id
