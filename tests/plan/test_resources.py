"""Resources on the worker: built when asked for, once, opened once, closed in reverse, circles shown."""

from __future__ import annotations

import threading
import time

import pytest

from flink_agents_py.agent import Agent
from flink_agents_py.errors import FunctionNotFoundError, ResourceCycleError, UnknownResourceError
from flink_agents_py.plan import AgentPlan
from flink_agents_py.resources.base import Resource, ResourceDescriptor, ResourceType

TOOL, MODEL = ResourceType.TOOL, ResourceType.CHAT_MODEL
log: list[str] = []


@pytest.fixture(autouse=True)
def _fresh_log():
    log.clear()


class Logged(Resource):
    def __init__(self, name, needs=(), fail_on="", get_resource=None):
        self.name = name
        self.fail_on = fail_on
        self.needs = [get_resource(need, TOOL) for need in needs]
        self.note("new")

    def note(self, what):
        log.append(f"{what} {self.name}")
        if self.fail_on == what:
            raise RuntimeError(f"{what} {self.name} failed")

    def open(self):
        self.note("open")

    def close(self):
        self.note("close")


def plan_of(**needs):
    agent = Agent()
    for name, arguments in needs.items():
        agent.add_resource(name, TOOL, ResourceDescriptor(Logged, name=name, **arguments))
    return AgentPlan.from_json(AgentPlan.from_agent(agent).to_json())


def test_nothing_is_built_before_it_is_asked_for_and_then_once():
    plan = plan_of(a={}, b={})
    assert log == []
    assert plan.get_resource("a", TOOL) is plan.get_resource("a", TOOL)
    assert log == ["new a", "open a"]


def test_dependencies_are_built_and_opened_first_and_closed_last():
    plan = plan_of(top={"needs": ["mid", "low"]}, mid={"needs": ["low"]}, low={})
    top = plan.get_resource("top", TOOL)
    assert top.needs[0].needs[0] is top.needs[1]
    plan.close()
    assert log == [
        *("new low", "open low", "new mid", "open mid", "new top", "open top"),
        *("close top", "close mid", "close low"),
    ]


def test_closing_twice_closes_once():
    plan = plan_of(a={})
    plan.get_resource("a", TOOL)
    plan.close()
    plan.close()
    assert log.count("close a") == 1


def test_one_that_fails_to_close_does_not_keep_the_others_open():
    plan = plan_of(a={}, b={"fail_on": "close"}, c={"fail_on": "close"})
    for name in "abc":
        plan.get_resource(name, TOOL)
    with pytest.raises(RuntimeError, match="close c failed"):
        plan.close()
    assert log[-3:] == ["close c", "close b", "close a"]


def test_one_that_failed_to_open_is_not_kept_and_not_closed():
    plan = plan_of(a={"fail_on": "open"})
    for _ in range(2):
        with pytest.raises(RuntimeError, match="open a failed"):
            plan.get_resource("a", TOOL)
    plan.close()
    assert log == ["new a", "open a"] * 2


def test_a_circle_that_only_shows_when_building_is_an_error_with_the_circle():
    plan = plan_of(a={"needs": ["b"]}, b={"needs": ["c"]}, c={"needs": ["b"]})
    for _ in range(2):
        with pytest.raises(ResourceCycleError, match="tool 'b' -> tool 'c' -> tool 'b'") as caught:
            plan.get_resource("a", TOOL)
        assert caught.value.where == "needed by tool 'c'"


def test_an_unknown_name_is_an_error_that_lists_what_there_is():
    plan = plan_of(a={"needs": ["none"]}, b={})
    with pytest.raises(UnknownResourceError, match="'a', 'b'") as caught:
        plan.get_resource("a", TOOL)
    assert caught.value.where == "needed by tool 'a'"
    with pytest.raises(UnknownResourceError, match="no chat_model is declared; declared are: tool 'a', tool 'b'"):
        plan.get_resource("a", MODEL)
    with pytest.raises(UnknownResourceError, match="no resources at all"):
        plan_of().get_resource("a", MODEL)


def test_a_class_that_is_not_here_is_named_when_it_is_needed():
    agent = Agent().add_resource("a", TOOL, ResourceDescriptor("no.such.module.Thing"))
    with pytest.raises(FunctionNotFoundError, match=r"no\.such\.module") as caught:
        AgentPlan.from_agent(agent).get_resource("a", TOOL)
    assert caught.value.where == "tool 'a'"


class Slow(Logged):
    def open(self):
        time.sleep(0.02)
        super().open()


def test_threads_that_ask_at_once_get_one_object():
    agent = Agent().add_resource("a", TOOL, ResourceDescriptor(Slow, name="a"))
    plan = AgentPlan.from_agent(agent)
    found = []
    threads = [threading.Thread(target=lambda: found.append(plan.get_resource("a", TOOL))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert log == ["new a", "open a"]
