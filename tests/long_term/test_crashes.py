"""A crash at every step around long-term memory: nothing twice, nothing lost, and searches find what they found."""

from __future__ import annotations

from collections import Counter

import pytest

from flink_agents_py import Agent, Compaction, InputEvent, OutputEvent, action
from flink_agents_py.errors import VectorStoreUnavailableError
from flink_agents_py.ext.sqlite_vec import SqliteVecVectorStore
from flink_agents_py.testing import Scenario, crash_everywhere
from tests.long_term.kit import config, counters, does, harness, stored, values, with_store
from tests.support.flink import say
from tests.support.stores import in_memory

TEXTS = ["cat Tom", "cat Tim", "dog Rex", "cat Tom again"]
INPUTS = [(key, text) for text in TEXTS for key in ("ann", "ben")]


class Recalling(Agent):
    """Searches, adds, updates, deletes, and tells what it found."""

    @action(InputEvent)
    @staticmethod
    async def do(event, ctx):
        facts = ctx.long_term_memory.get_memory_set("facts")
        found = await facts.asearch(event.input, 3)
        first, second = await ctx.gather(facts.aadd(event.input), facts.aadd([f"{event.input}, late"], {"late": True}))
        await facts.aupdate(second[0], f"{event.input}, later")
        if event.input == "dog Rex":
            await facts.adelete(first)
        ctx.send_event(OutputEvent([[item.id for item in found], values(found), first]))


class Compacting(Agent):
    """Keeps four items of a key at most."""

    @action(InputEvent)
    @staticmethod
    async def do(event, ctx):
        facts = ctx.long_term_memory.get_memory_set("facts", Compaction(max_items=4, keep_items=2, function=joined))
        await facts.aadd([event.input, f"{event.input}, once more"])
        ctx.send_event(OutputEvent(event.input))


def joined(items):
    return " + ".join(item.value for item in items)


class World:
    """The file of long-term memory, which no crash brings back to an earlier state."""

    def __init__(self, folder, expected):
        self._folder = folder
        self._expected = expected
        self.path = folder / "memory.db"
        self.looks = 0

    def look(self):
        """Each text is there once, in an item of its own or in a summary."""
        found = Counter(text for document in stored(self.path) for text in document.content.split(" + "))
        assert found == Counter(self._expected)
        self.looks += 1

    def reset(self):
        if self.path.exists():
            self.look()
        for file in self._folder.iterdir():
            file.unlink()


RECALLED = [f"{text}, later" for _, text in INPUTS] + [text for _, text in INPUTS if text != "dog Rex"]
COMPACTED = [text for _, text in INPUTS] + [f"{text}, once more" for _, text in INPUTS]


def crash(world, agent, **options):
    """Look at the file after the undisturbed run and after each crash."""
    how = {name: options.pop(name) for name in ("depth", "crashes", "sample") if name in options}
    agent_with_store = Scenario(
        lambda: with_store(agent(), world.path), INPUTS, config=config(), reset=world.reset, **options
    )
    report = crash_everywhere(agent_with_store, **how)
    world.look()
    assert world.looks == report.points + 1
    say(f"{report.points} crashes, {report.repeated_calls} calls repeated, {report.replayed_calls} replayed")
    return report


def test_searches_find_what_they_found_and_additions_are_made_once(tmp_path):
    """From the newest checkpoint; calls in flight at the crash are made again."""
    report = crash(World(tmp_path, RECALLED), Recalling, depth=1, sample=30)
    assert report.repeated_calls > 0


def test_with_an_action_state_store_the_same_from_any_checkpoint(tmp_path):
    report = crash(World(tmp_path, RECALLED), Recalling, store=in_memory, depth=9, sample=25)
    assert report.replayed_calls > 0


def test_two_crashes(tmp_path):
    crash(World(tmp_path, RECALLED), Recalling, store=in_memory, depth=5, crashes=2, sample=10)


def test_what_was_compacted_is_not_added_again_from_older_checkpoints(tmp_path):
    """The store of memory has gone on by several runs of the key, which are made again."""
    crash(World(tmp_path, COMPACTED), Compacting, depth=20, sample=30)


OPERATIONS = ("find", "get", "insert", "exchange", "delete")


class Faults:
    """Makes one operation of the store fail, before or after it was done."""

    def __init__(self, monkeypatch, number, *, done):
        self.made = 0
        for name in OPERATIONS:
            self._wrap(monkeypatch, name, getattr(SqliteVecVectorStore, name), number, done=done)

    def _wrap(self, monkeypatch, name, original, number, *, done):
        def operation(store, *arguments, **options):
            self.made += 1
            fails = self.made == number
            if fails and not done:
                raise VectorStoreUnavailableError("not done")
            result = original(store, *arguments, **options)
            if fails:
                raise VectorStoreUnavailableError("done, and nobody knows")
            return result

        monkeypatch.setattr(SqliteVecVectorStore, name, operation)


@pytest.mark.parametrize("done", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("died", [False, True], ids=["goes on", "dies"])
def test_a_store_that_fails_at_any_step_of_a_compaction(tmp_path, monkeypatch, number, done, died):
    """Adding and compacting is: get, insert | find, get, exchange, find."""
    path = tmp_path / "memory.db"
    memory = harness(path, Compacting())
    memory.feed("ann", "one")
    memory.feed("ann", "two")
    memory.run()
    snapshot = memory.snapshot()
    with monkeypatch.context() as patch:
        faults = Faults(patch, number, done=done)
        memory.feed("ann", "three")
        memory.run()
        assert faults.made >= min(number, 6)
    if died:
        memory.restore(snapshot)
        memory.feed("ann", "three")
    memory.advance(60)
    memory.feed("ann", "four")
    memory.run()
    texts = Counter(text for document in stored(path) for text in document.content.split(" + "))
    numbers = ("one", "two", "three", "four")
    assert texts == Counter([*numbers, *(f"{number}, once more" for number in numbers)])
    assert len(stored(path)) <= 4


def test_a_process_that_dies_between_question_and_answer_of_the_model(tmp_path):
    path, asked = tmp_path / "memory.db", []

    def dying(items):
        asked.append(items)
        if len(asked) == 1:
            raise SystemExit("killed")
        return joined(items)

    class Small(Agent):
        @action(InputEvent)
        @staticmethod
        async def do(event, ctx):
            await ctx.long_term_memory.get_memory_set("f", Compaction(max_items=2, function=dying)).aadd(event.input)

    memory = harness(path, Small())
    for text in "abc":
        memory.feed("ann", text)
    memory.run()
    assert len(stored(path)) == 3
    again = harness(path, Small(), clock=memory.clock)  # knows nothing of what was going on
    again.restore(memory.snapshot())
    again.feed("ann", "d")
    again.run()
    assert [document.content for document in stored(path)] == ["a + b + c", "d"]
    assert [len(items) for items in asked] == [2, 3]


def test_a_search_made_again_does_not_find_what_its_action_has_added_since(tmp_path):
    memory = harness(tmp_path / "memory.db", Recalling())
    snapshot = memory.snapshot()
    memory.feed("ann", "cat Tom")
    memory.run()
    first = memory.outputs
    memory.restore(snapshot)
    memory.feed("ann", "cat Tom")
    memory.run()
    assert memory.outputs == first
    assert first[0][1] == []
    assert counters(memory).get("itemsAdded") is None
    assert does(harness(tmp_path / "memory.db"), "ben", "aget") == []
