"""What a run of a key knew of short-term memory is not read again by the next one, and is never wrong."""

from __future__ import annotations

from typing import Any

import pytest

from flink_agents_py import Agent, InputEvent, OutputEvent, RunnerContext, action
from flink_agents_py.engine.memories import MemoryCache
from flink_agents_py.engine.memory import RunMemory
from flink_agents_py.errors import ActionFailedError
from flink_agents_py.testing import AgentHarness
from tests.support.memory import CountingMap

LARGE = "x" * 2000


async def slow() -> None:
    return None


class Noting(Agent):
    """Does what its input says, a list of [method, argument, ...], and sends what memory answered."""

    @action(InputEvent)
    @staticmethod
    async def note(event: InputEvent, ctx: RunnerContext) -> None:
        memory, answers = ctx.short_term_memory, []
        for name, *arguments in event.input:
            if name == "wait":
                await ctx.durable_execute_async(slow)
            elif name == "change":
                found = memory.get(arguments[0])
                found.append("changed")
                answers.append(list(found))
            else:
                answer = getattr(memory, name)(*arguments)
                answers.append(answer if isinstance(answer, (int, str, list, type(None))) else type(answer).__name__)
        ctx.send_event(OutputEvent(answers))


class Failing(Agent):
    """Its first action has written memory when the second fails."""

    @action(InputEvent)
    @staticmethod
    def first(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(ctx.short_term_memory.get("n")))
        ctx.short_term_memory.set("n", event.input)

    @action(InputEvent)
    @staticmethod
    def second(event: InputEvent, ctx: RunnerContext) -> None:
        if event.input == "fail":
            raise ValueError("as told")


class Machine(AgentHarness):
    """The harness, told what to do to the memory of a key; ``gets`` is what state was asked for."""

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__(Noting(), config, latency=0.01)

    def _start(self, *, restored: bool = False) -> None:
        super()._start(restored=restored)
        self.gets: list[str] = []
        self._store.memory = _Listening(self._store.memory, self.gets)

    def do(self, *steps: list[Any], key: Any = "k") -> list[Any]:
        self.gets.clear()
        self.feed(key, list(steps))
        self.run()
        return list(self.outputs[-1])


class _Listening:
    def __init__(self, memory: Any, gets: list[str]) -> None:
        self._memory = memory
        self._gets = gets
        self.put, self.remove, self.keys = memory.put, memory.remove, memory.keys

    def get(self, path: str) -> str | None:
        self._gets.append(path)
        found: str | None = self._memory.get(path)
        return found


def test_the_next_run_of_a_key_reads_nothing_again():
    agent = Machine()
    agent.do(["set", "n", 1], ["get", "other"], ["set", "user.name", "x"])
    assert agent.gets
    assert agent.do(["get", "n"], ["get", "other"], ["get", "user.name"], ["set", "n", 2])[:3] == [1, None, "x"]
    assert agent.gets == []
    assert agent.do(["get", "n"]) == [2]


def test_keys_know_nothing_of_each_other():
    agent = Machine()
    agent.do(["set", "n", 1], key="1")
    assert agent.do(["get", "n"], key="2") == [None]
    assert agent.do(["get", "n"], key="1") == [1]
    assert agent.do(["get", "n"], key=1) == [None]


def test_a_run_that_waited_leaves_what_it_knew_too():
    agent = Machine()
    agent.do(["set", "n", 1], ["wait"], ["set", "n", 2])
    assert agent.do(["get", "n"]) == [2]
    assert agent.gets == []


def test_what_was_deleted_is_gone_and_what_replaced_it_is_there():
    agent = Machine()
    agent.do(["set", "user.name", "x"], ["set", "user.age", 3])
    agent.do(["delete", "user"])
    assert agent.do(["get", "user.name"], ["get", "user"]) == [None, None]
    agent.do(["set", "user", 5])
    assert agent.do(["get", "user"]) == [5]


def test_a_value_somebody_changed_after_reading_it_is_as_it_was_set():
    agent = Machine()
    agent.do(["set", "names", ["a"]])
    assert agent.do(["change", "names"]) == [["a", "changed"]]
    assert agent.do(["get", "names"]) == [["a"]]


def test_after_a_restore_state_is_asked():
    agent = Machine()
    agent.do(["set", "n", 1])
    checkpoint = agent.snapshot()
    agent.do(["set", "n", 2])
    agent.restore(checkpoint)
    assert agent.do(["get", "n"]) == [1]
    assert agent.gets == ["n"]


def test_what_a_run_that_failed_had_not_written_is_not_believed():
    agent = AgentHarness(Failing())
    agent.feed("k", "good")
    with pytest.raises(ActionFailedError):
        agent.feed("k", "fail")
    agent.engine.effects.take_outputs()
    agent.feed("k", "next")
    assert agent.outputs == [None, "good"]
    assert agent.short_term_memory("k").get("n") == "next"


def test_large_values_are_read_each_time_and_others_beside_them_are_not():
    agent = Machine()
    agent.do(["set", "n", 1], ["set", "text", LARGE])
    for _ in range(2):
        assert agent.do(["get", "n"], ["get", "text"]) == [1, LARGE]
        assert agent.gets == ["text"]
    agent.do(["set", "text", "short"])
    assert agent.do(["get", "text"]) == ["short"]


def test_without_a_cache_each_run_reads():
    agent = Machine({"state.memory-cache-size": 0})
    agent.do(["set", "n", 1])
    assert agent.do(["get", "n"], ["get", "n"]) == [1, 1]
    assert agent.gets == ["n"]


def known(**items: Any) -> RunMemory:
    memory = RunMemory(CountingMap(), "short_term")
    memory.items.update(items)
    return memory


def test_keys_that_were_not_used_for_long_are_forgotten():
    cache = MemoryCache(8)
    for number in range(100):
        cache.give(number, known(a=number))
        cache.give("used", known(a=cache.take("used").get("a", 0) + 1, b=0))
    assert cache.take("used") == {"a": 100, "b": 0}
    assert cache.take(99) == {"a": 99}
    assert [number for number in range(90) if cache.take(number)] == []


def test_the_cache_holds_no_more_items_than_it_may():
    cache = MemoryCache(1000)
    for number in range(500):
        cache.give(number, known(**{f"n{at}": at for at in range(number % 50)}))
    assert 400 < sum(len(cache.take(number)) for number in range(500)) <= 1000


def test_the_many_fields_of_one_key_do_not_push_out_all_others():
    cache = MemoryCache(1000)
    cache.give("small", known(a=1))
    cache.give("huge", known(**{f"n{at}": at for at in range(400)}))
    assert cache.take("huge") == {}
    assert cache.take("small") == {"a": 1}
