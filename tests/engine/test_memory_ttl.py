"""Short-term memory with a TTL: there before, gone after, and what begins a life anew."""

from __future__ import annotations

from typing import Any

import pytest

from flink_agents_py import (
    Agent,
    AgentOptions,
    InputEvent,
    OutputEvent,
    RunnerContext,
    ShortTermMemoryTtlUpdate,
    ShortTermMemoryTtlVisibility,
    action,
)
from flink_agents_py.engine.memory_item import split_time
from flink_agents_py.testing import AgentHarness, Scenario, crash_everywhere
from tests.support.agents import agent_of
from tests.support.memory import CountingMap, tree_of

TTL = 60.0
ON_WRITE = {"short-term-memory.state-ttl.ms": "1 min", "short-term-memory.state-ttl.update-type": "ON_CREATE_AND_WRITE"}
ON_READ = {"short-term-memory.state-ttl.ms": 60_000}
SHOW_EXPIRED = {**ON_WRITE, "short-term-memory.state-ttl.visibility": "RETURN_EXPIRED_IF_NOT_CLEANED_UP"}


async def slow(path: str) -> str:
    return path


class MemoryAgent(Agent):
    """Does what its input says, a list of [method, argument, ...]; the answers go out."""

    @action(InputEvent)
    @staticmethod
    async def do(event: InputEvent, ctx: RunnerContext) -> None:
        answers: list[Any] = []
        for name, *arguments in event.input:
            if name == "call":
                await ctx.durable_execute_async(slow, *arguments)
            elif name == "names":
                answers.append(ctx.short_term_memory.get(arguments[0]).get_field_names())
            elif name == "fields":
                found = ctx.short_term_memory.get(arguments[0])
                answers.append(found and found.get_fields())
            elif name == "fail":
                raise ValueError("as told")
            else:
                answer = getattr(ctx.short_term_memory, name)(*arguments)
                answers.append(answer if isinstance(answer, (int, str, list, type(None))) else type(answer).__name__)
        ctx.send_event(OutputEvent(answers))


class Machine(AgentHarness):
    """The harness, told what to do to the memory of one key."""

    def do(self, *steps: list[Any], key: Any = "k") -> list[Any]:
        self.feed(key, list(steps))
        self.run()
        return list(self.outputs[-1])

    def get(self, path: str) -> Any:
        return self.do(["get", path])[0]

    def stored(self, key: Any = "k") -> dict[str, str]:
        return dict(self.state_of(key).get("agent.stm", {}))

    def tree(self) -> dict[str, Any]:
        """What is in state, which must be a whole tree."""
        return tree_of({path: split_time(text)[1] for path, text in self.stored().items()})


def machine(config: dict[str, Any]) -> Machine:
    return Machine(MemoryAgent(), config)


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [ON_WRITE, ON_READ])
@pytest.mark.parametrize("path", ["a", "user.address.city"])
def test_a_value_is_there_until_its_ttl_has_passed_and_gone_from_then_on(config, path):
    for age, expected in ((TTL - 0.001, 1), (TTL, None), (10 * TTL, None)):
        agent = machine(config)
        agent.do(["set", path, 1])
        agent.advance(age)
        assert agent.get(path) == expected
        assert agent.do(["is_exist", path]) == [expected is not None]


def test_writing_begins_the_life_of_a_value_anew():
    agent = machine(ON_WRITE)
    for number in range(3):
        agent.do(["set", "a", number])
        agent.advance(TTL - 0.001)
        assert agent.get("a") == number
    agent.advance(0.001)
    assert agent.get("a") is None


@pytest.mark.parametrize("read", [["get", "user.a"], ["is_exist", "user.a"], ["fields", "user"]])
def test_reading_begins_the_life_of_a_value_anew_only_if_configured(read):
    for config, expected in ((ON_READ, 1), (ON_WRITE, None)):
        agent = machine(config)
        agent.do(["set", "user.a", 1])
        for _ in range(3):
            agent.advance(TTL - 0.001)
            agent.do(read)
        assert agent.get("user.a") == expected


def test_reading_the_names_of_an_object_does_not_keep_its_fields():
    agent = machine(ON_READ)
    agent.do(["set", "user.a", 1])
    agent.advance(TTL - 1)
    assert agent.do(["names", "user"]) == [["a"]]
    agent.advance(1)
    assert agent.do(["names", "user"]) == [[]]


def test_an_action_that_fails_keeps_nothing_alive():
    agent = Machine(agent_of(MemoryAgent.do, on_error="skip"), ON_READ)
    agent.do(["set", "a", 1])
    agent.advance(TTL - 1)
    agent.feed("k", [["get", "a"], ["fail"]])
    agent.advance(1)
    assert agent.get("a") is None


def test_keys_expire_by_themselves():
    agent = machine(ON_WRITE)
    agent.do(["set", "a", 1], key="early")
    agent.advance(TTL / 2)
    agent.do(["set", "a", 2], key="late")
    agent.advance(TTL / 2)
    assert agent.do(["get", "a"], key="early") == [None]
    assert agent.do(["get", "a"], key="late") == [2]


# --- objects ----------------------------------------------------------------------------------------------------------


def test_an_object_lives_as_long_as_a_field_that_is_written_again_and_again():
    agent = machine(ON_WRITE)
    agent.do(["set", "user.address.city", 0], ["set", "user.name", "x"])
    for number in range(1, 5):
        agent.advance(TTL - 1)
        agent.do(["set", "user.address.city", number])
    assert agent.do(["names", "user"], ["names", "user.address"], ["is_exist", "user"]) == [["address"], ["city"], True]
    assert agent.get("user.address.city") == 4
    agent.advance(TTL)
    assert agent.do(["is_exist", "user"], ["get_field_names"]) == [False, []]


def test_an_object_without_fields_lives_for_the_ttl():
    agent = machine(ON_WRITE)
    agent.do(["new_object", "user"])
    agent.advance(TTL - 0.001)
    assert agent.do(["is_exist", "user"]) == [True]
    agent.advance(0.001)
    assert agent.do(["is_exist", "user"]) == [False]


def test_an_object_made_anew_after_it_expired_has_none_of_its_old_fields():
    agent = machine(ON_WRITE)
    agent.do(["set", "user.a", 1], ["set", "user.deep.b", 2])
    agent.advance(TTL)
    agent.do(["set", "user.c", 3])
    assert agent.do(["names", "user"]) == [["c"]]
    assert agent.tree() == {"user": {"c": ("value", 3)}}


def test_a_field_made_anew_comes_last():
    agent = machine(ON_WRITE)
    agent.do(["set", "user.a", 1])
    agent.advance(TTL / 2)
    agent.do(["set", "user.b", 1])
    agent.advance(TTL / 2)
    agent.do(["set", "user.a", 2])
    assert agent.do(["names", "user"], ["fields", "user"]) == [["b", "a"], {"b": 1, "a": 2}]


def test_a_value_that_expired_may_become_an_object_and_back():
    agent = machine(ON_WRITE)
    agent.do(["set", "x", 1])
    agent.advance(TTL)
    agent.do(["set", "x.y", 2])
    agent.advance(TTL)
    agent.do(["set", "x", 3])
    assert agent.tree() == {"x": ("value", 3)}


def test_deleting_an_object_some_fields_of_which_have_expired_leaves_nothing_behind():
    agent = machine(ON_WRITE)
    agent.do(["set", "user.a", 1])
    agent.advance(TTL / 2)
    agent.do(["set", "user.b", 1])
    agent.advance(TTL / 2)
    assert agent.do(["delete", "user"]) == [True]
    agent.advance(3 * TTL)
    assert agent.stored() == {}


# --- cleaning up ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [ON_WRITE, ON_READ, SHOW_EXPIRED])
def test_memory_of_a_key_that_is_never_seen_again_is_removed(config):
    agent = machine(config)
    agent.do(["set", "user.a", 1], ["set", "b", 2])
    agent.advance(3 * TTL)
    assert agent.stored() == {}
    assert agent.next_due_ms() is None  # and the key costs nothing any more


def test_names_of_fields_that_expired_do_not_pile_up_in_their_object():
    agent = machine(ON_WRITE)
    for number in range(40):
        agent.do(["set", f"orders.n{number}", number])
        agent.advance(TTL / 4)
    assert len(agent.tree()["orders"]) <= 12  # expired ones go after half a TTL and a bit


def test_cleaning_up_leaves_what_an_unfinished_run_may_read_again():
    agent = machine(ON_WRITE)
    agent.do(["set", "a", 1])
    agent.feed("k", [["get", "a"], ["call", "x"], ["get", "a"]])
    agent.advance(10 * TTL)
    snapshot = agent.snapshot()
    agent.calls[0].complete()
    assert agent.outputs[-1] == [1, 1]

    agent.restore(snapshot)
    agent.advance(10)
    agent.calls[0].complete()
    assert agent.outputs[-1] == [1, 1], "the action that began again reads what it had read before"
    agent.advance(3 * TTL)
    assert agent.stored() == {}


class SlowCounter(Agent):
    """Reads, waits, and counts on."""

    @action(InputEvent)
    @staticmethod
    async def count(event: InputEvent, ctx: RunnerContext) -> None:
        before = ctx.short_term_memory.get("count") or 0
        answer = await ctx.durable_execute_async(slow, f"{before}")
        ctx.short_term_memory.set("count", before + 1)
        ctx.send_event(OutputEvent((before, answer)))


@pytest.mark.parametrize("config", [ON_WRITE, ON_READ])
def test_crashes_at_every_step_change_nothing(config):
    report = crash_everywhere(Scenario(SlowCounter, [("a", 1), ("a", 2), ("b", 3)], config))
    assert report.points > 10


def test_an_expired_value_can_be_read_until_it_is_cleaned_up_if_configured():
    agent = machine(SHOW_EXPIRED)
    agent.do(["set", "a", 1], ["set", "user.b", 2])
    agent.advance(TTL)
    assert agent.do(["get", "a"], ["names", "user"]) == [1, ["b"]]
    agent.advance(3 * TTL)
    assert agent.do(["get", "a"], ["is_exist", "user"]) == [None, False]


def test_the_timers_of_many_keys_do_not_fire_at_once():
    agent = machine(ON_WRITE)
    for number in range(200):
        agent.do(["set", "a", 1], key=f"key {number}")
    due = {timestamp for kind, timestamp, _ in agent.snapshot().timers if kind == "p"}
    assert len(due) > 150


# --- state ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [ON_WRITE, ON_READ])
def test_a_counter_costs_one_get_and_one_put_with_a_ttl(config):
    agent = machine(config)
    agent.do(["set", "n", 0])
    state = counting(agent)
    agent.do(["get", "n"], ["set", "n", 1])
    assert (state.gets, state.puts) == (["n"], ["n"])


def test_that_an_object_lives_by_a_field_is_found_out_once_and_not_in_every_run():
    agent = machine(ON_WRITE)
    agent.do(["set", "user.first", 0], *(["set", f"user.n{number}", number] for number in range(20)))
    agent.advance(TTL - 1)
    agent.do(["set", "user.first", 1])
    agent.advance(2)
    state = counting(agent)
    agent.do(["is_exist", "user"])
    assert len(state.gets) > 20  # from the newest field to the oldest, which is the one that lives
    state.forget_counts()
    agent.do(["is_exist", "user"])
    assert state.gets == ["user"]


def counting(agent: Machine) -> CountingMap:
    """Put a map that counts in the place of the memory of the one key there is."""
    state = CountingMap()
    state.items.update(agent.stored())
    agent._store.memory = state
    if agent.engine._expiry is not None:
        agent.engine._expiry.memory = state
    return state


@pytest.mark.parametrize("config", [ON_WRITE, ON_READ])
def test_state_written_without_a_ttl_gets_one_when_it_is_first_seen(config):
    agent = machine({})
    agent.do(["set", "user.a", 1], ["set", "user.b", 2])
    snapshot = agent.snapshot()
    agent.upgrade(MemoryAgent(), config)
    agent.restore(snapshot)
    agent.advance(100 * TTL)
    assert agent.get("user.a") == 1
    agent.advance(TTL - 0.001)
    assert agent.do(["names", "user"]) == [["a", "b"]]  # b was never looked at before
    agent.advance(10 * TTL)
    assert agent.stored() == {}


def test_state_written_with_a_ttl_lives_for_ever_without_one():
    agent = machine(ON_WRITE)
    agent.do(["set", "user.a", 1], ["set", "b", [1]])
    snapshot = agent.snapshot()
    agent.upgrade(MemoryAgent())
    agent.restore(snapshot)
    agent.advance(100 * TTL)
    assert agent.do(["get", "user.a"], ["get", "b"], ["names", "user"]) == [1, [1], ["a"]]
    agent.do(["set", "user.a", 2])
    assert agent.stored()["user.a"] == "v2"


def test_a_changed_ttl_holds_for_what_is_there():
    agent = machine(ON_WRITE)
    agent.do(["set", "a", 1])
    snapshot = agent.snapshot()
    agent.upgrade(MemoryAgent(), {**ON_WRITE, "short-term-memory.state-ttl.ms": 1000})
    agent.restore(snapshot)
    agent.advance(1)
    assert agent.get("a") is None


@pytest.mark.parametrize("key", ["k", 7, True, ("a", 1), None])
def test_keys_of_every_type_are_cleaned_up(key):
    agent = machine(ON_WRITE)
    agent.do(["set", "a", 1], key=key)
    agent.restore(agent.snapshot())
    agent.advance(3 * TTL)
    assert agent.stored(key) == {}


def test_the_harness_shows_what_a_run_would_read():
    agent = machine(ON_WRITE)
    agent.do(["set", "a", 1])
    assert agent.short_term_memory("k").get("a") == 1
    agent.clock.advance_to(agent.clock.now_ms() + 60_000)
    assert agent.short_term_memory("k").get("a") is None


def test_the_options_take_the_enums_of_apache_flink_agents():
    agent = machine({})
    config = agent.plan.config
    config.set(AgentOptions.SHORT_TERM_MEMORY_STATE_TTL_UPDATE_TYPE, ShortTermMemoryTtlUpdate.ON_CREATE_AND_WRITE)
    config.set(AgentOptions.SHORT_TERM_MEMORY_STATE_TTL_VISIBILITY, ShortTermMemoryTtlVisibility.NEVER_RETURN_EXPIRED)
    assert config.get("short-term-memory.state-ttl.update-type") == "ON_CREATE_AND_WRITE"
    assert config.get("short-term-memory.state-ttl.visibility") == "NEVER_RETURN_EXPIRED"
