"""Plans that are exchanged while runs are in flight: each run is under the one it began with."""

from __future__ import annotations

import json
import logging

import pytest

from flink_agents_py import ActionRegistry, ActionSpec, Agent, Event, InputEvent, OutputEvent, Prompt, ResourceType
from flink_agents_py.plan import AgentPlan
from flink_agents_py.plan.updates import PlanFile
from flink_agents_py.testing import AgentHarness
from tests.support.agents import LONG_S, finish_all


async def ask(prompt: str) -> str:
    return f"answer to {prompt}"


async def begin(event, ctx):
    prompt = ctx.get_resource("prompt", ResourceType.PROMPT).format_string(order=str(event.input))
    answer = await ctx.durable_execute_async(ask, prompt)
    ctx.send_event(Event(type="answered", attributes={"answer": answer, "version": ctx.plan_version}))


def tell(event, ctx):
    assert event.get_attr("version") == ctx.plan_version, "a run is under one plan"
    ctx.send_event(OutputEvent([event.get_attr("answer"), ctx.get_action_config_value("tone"), ctx.plan_version]))


def shout(event, ctx):
    assert event.get_attr("version") == ctx.plan_version
    ctx.send_event(OutputEvent([event.get_attr("answer").upper(), "loud", ctx.plan_version]))


def version(number: int) -> Agent:
    """Other prompt, other configuration, and from 2 on another action that is triggered."""
    agent = Agent().add_resource("prompt", ResourceType.PROMPT, Prompt.from_text(f"v{number}: {{order}}"))
    agent.add_action("begin", [InputEvent], begin)
    agent.add_action("tell", ["answered" if number < 2 else "never"], tell, tone=f"tone {number}")
    return agent.add_action("shout", ["answered" if number >= 2 else "never"], shout)


def plan_of(number: int) -> AgentPlan:
    return AgentPlan.from_agent(version(number))


def expected(number: int, order: str) -> list[str]:
    answer, digest = f"answer to v{number}: {order}", plan_of(number).digest
    return [answer, f"tone {number}", digest] if number < 2 else [answer.upper(), "loud", digest]


def harness_with(count: int = 3, **options) -> AgentHarness:
    harness = AgentHarness(version(1), updates="offered", **options)
    for number in range(count):
        harness.feed(f"key {number}", f"a{number}")
        harness.feed(f"key {number}", f"b{number}")
    return harness


def test_a_new_plan_is_for_runs_that_begin_after_it():
    harness = harness_with()
    harness.offer_plan(version(2))
    harness.feed("new", "c")
    finish_all(harness)
    outputs = harness.keyed_outputs
    for number in range(3):
        mine = [value for key, value in outputs if key == f"key {number}"]
        assert mine == [expected(1, f"a{number}"), expected(2, f"b{number}")]
    assert dict(outputs)["new"] == expected(2, "c")
    assert harness.stats.plan_updates == 1


def test_runs_that_are_over_in_one_callback_say_their_version_too():
    harness = AgentHarness(Agent().add_action("say", [InputEvent], say), updates="offered")
    harness.feed("k", 1)
    after = Agent().add_action("say", [InputEvent], say, new=True)
    harness.offer_plan(after)
    harness.feed("k", 1)
    assert harness.outputs == [harness.plan.digest, AgentPlan.from_agent(after).digest]


def say(event, ctx):
    ctx.send_event(OutputEvent(ctx.plan_version))


def answer(harness: AgentHarness, order: str) -> None:
    next(call for call in harness.calls if call.args[0].endswith(f": {order}")).run()


@pytest.mark.parametrize("crash_after", range(12))
def test_a_restore_keeps_the_version_of_each_run_and_the_newest_one(crash_after):
    """Three plans, a restore at each place."""
    harness = AgentHarness(version(1), updates="offered")
    steps = [
        lambda: harness.feed("a", "1"),
        lambda: harness.feed("a", "2"),
        lambda: harness.offer_plan(version(2)),
        lambda: harness.feed("b", "3"),
        lambda: harness.offer_plan(version(3)),
        lambda: harness.feed("c", "4"),
        lambda: answer(harness, "3"),
        lambda: harness.feed("b", "5"),
        lambda: answer(harness, "1"),  # the next run of this key begins
        lambda: harness.offer_plan(version(1)),
        lambda: harness.feed("d", "6"),
        lambda: None,
    ]
    for number, step in enumerate(steps):
        step()
        harness.pump()
        if number == crash_after:
            harness.restore(harness.snapshot())
            harness.advance(LONG_S)
    finish_all(harness)
    by_key = {}
    for key, value in harness.keyed_outputs:
        by_key.setdefault(key, []).append(value)
    assert by_key == {
        "a": [expected(1, "1"), expected(3, "2")],
        "b": [expected(2, "3"), expected(3, "5")],
        "c": [expected(3, "4")],
        "d": [expected(1, "6")],
    }


def test_a_job_that_is_submitted_with_another_plan_begins_with_that():
    harness = harness_with(1)
    harness.offer_plan(version(2))
    harness.feed("b", "2")
    snapshot = harness.snapshot()
    harness.upgrade(version(3))
    harness.restore(snapshot)
    harness.advance(LONG_S)
    harness.feed("c", "3")
    finish_all(harness)
    by_key = dict(harness.keyed_outputs[::-1])
    assert by_key == {"key 0": expected(1, "a0"), "b": expected(2, "2"), "c": expected(3, "3")}


def handle(call, session):
    return None


def other_agent() -> str:
    return AgentPlan.from_agent(version(2), agent_name="Other").to_json()


def missing_function() -> str:
    return plan_of(2).to_json().replace('"qualname": "shout"', '"qualname": "whisper"')


def missing_class() -> str:
    document = json.loads(plan_of(2).to_json())
    document["resource_providers"]["prompt"]["prompt"]["clazz"] = "NoPrompt"
    return json.dumps(document)


def by_value() -> str:
    return AgentPlan.from_agent(version(2).add_action("local", ["x"], lambda event, ctx: None)).to_json()


def wrong_shape() -> str:
    document = json.loads(plan_of(2).to_json())
    document["actions"]["tell"]["colour"] = "red"
    return json.dumps(document)


def called_agent_with_a_missing_function() -> str:
    called = Agent().add_action("shout", [InputEvent], shout)
    text = AgentPlan.from_agent(version(2).add_agent("called", called)).to_json()
    head, _, tail = text.rpartition('"qualname": "shout"')
    return f'{head}"qualname": "whisper"{tail}'


def other_external_actions() -> str:
    registry = ActionRegistry().register(ActionSpec(name="do"), handle)
    return AgentPlan.from_agent(version(2).add_action_registry(registry)).to_json()


def memory_listener() -> str:
    return AgentPlan.from_agent(version(2).add_action("watch", ["_short_term_write_event"], tell)).to_json()


REFUSED = {
    "no JSON": (lambda: "{", "not JSON"),
    "another agent": (other_agent, "one of agent 'Other'"),
    "a function that is not here": (missing_function, "no 'whisper'"),
    "a class that is not here": (missing_class, "no 'NoPrompt'"),
    "a function of a called agent": (called_agent_with_a_missing_function, "no 'whisper'"),
    "pickled code": (by_value, "pickled code"),
    "a field nobody knows": (wrong_shape, "colour"),
    "other external actions": (other_external_actions, "external actions"),
    "an engine of another kind": (memory_listener, "memory events"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused_with_a_dead_letter_and_nothing_changes(case, caplog):
    make, says = REFUSED[case]
    harness = harness_with(1)
    with caplog.at_level(logging.ERROR):
        harness.offer_plan(make())
    harness.feed("new", "c")
    finish_all(harness)
    assert harness.outputs == [expected(1, "a0"), expected(1, "c"), expected(1, "b0")]
    assert (harness.stats.plans_refused, harness.stats.plan_updates) == (1, 0)
    (letter,) = harness.side_output("dead-letters")
    assert letter["kind"] == "plan"
    assert letter["plan_version"] == plan_of(1).digest
    assert says in letter["message"]
    assert says in caplog.text


def test_a_file_is_watched(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(plan_of(1).to_json())
    harness = AgentHarness(version(1), updates=PlanFile(path))
    harness.feed("a", "1")
    assert harness.stats.plan_updates == 0, "the file says what the job was submitted with"
    path.write_text(plan_of(2).to_json())
    harness.feed("b", "2")
    harness.advance(1.0)
    harness.feed("c", "3")
    path.write_text("half of a pl")
    harness.advance(1.0)
    harness.feed("d", "4")
    path.unlink()
    harness.advance(1.0)
    harness.feed("e", "5")
    finish_all(harness)
    assert dict(harness.keyed_outputs) == {
        "a": expected(1, "1"),
        "b": expected(1, "2"),
        "c": expected(2, "3"),
        "d": expected(2, "4"),
        "e": expected(2, "5"),
    }
    assert (harness.stats.plans_refused, harness.stats.plan_updates) == (2, 1)
    assert [letter["source"] for letter in harness.side_output("dead-letters")] == [str(path)] * 2


def test_versions_that_no_run_needs_are_let_go():
    harness = harness_with(1)
    for number in (2, 3, 4, 5):
        harness.offer_plan(version(number))
    assert set(harness.engine.executed_by_version()) == {plan_of(1).digest, plan_of(5).digest}
    finish_all(harness)
    harness.offer_plan(version(2))
    assert set(harness.engine.executed_by_version()) == {plan_of(2).digest}


def test_the_event_log_says_the_version_of_each_run():
    config = {"event-log.level": "STANDARD", "event-log.destination": "none", "event-log.side-output": True}
    harness = harness_with(1, config=config)
    harness.offer_plan(version(2))
    finish_all(harness)
    lines = [json.loads(line) for line in harness.side_output("event-log")]
    by_sequence = {line["sequence"]: line["planVersion"] for line in lines}
    assert by_sequence == {1: plan_of(1).digest, 2: plan_of(2).digest}
