"""Old items become summaries: when, by whom, and what is left of them."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timezone

import pytest

from flink_agents_py import (
    Agent,
    AgentsExecutionEnvironment,
    Compaction,
    InputEvent,
    OutputEvent,
    ResourceType,
    action,
)
from flink_agents_py.errors import ActionFailedError
from flink_agents_py.testing import ScriptedChatModel
from tests.long_term.kit import Doing, config, counters, does, harness, stored, values, with_store

PREFIX = "long-term-memory.compaction"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


def at(ms):
    return datetime.fromtimestamp(ms / 1000, timezone.utc)


def compacting(path, model, agent=None, **more):
    """A harness whose sets of more than four items are compacted by ``model``, up to the two newest."""
    agent = agent or Doing()
    agent.add_resource("service", ResourceType.CHAT_MODEL_CONNECTION, model.connection)
    agent.add_resource("summarizer", ResourceType.CHAT_MODEL, model.setup("service"))
    budget = {f"{PREFIX}.max-items": 4, f"{PREFIX}.chat-model": "summarizer"}
    return harness(path, agent, **{**budget, **more})


def notes(request):
    """What a model was asked to condense."""
    return [line.partition("] ")[2] for line in request.text.splitlines() if line.startswith("- [")]


def joined():
    return ScriptedChatModel(lambda request: " + ".join(notes(request)))


def fill(memory, count, key="ann", **options):
    for number in range(1, count + 1):
        does(memory, key, "aadd", f"fact {number}", {"metadatas": {"even": number % 2 == 0}, **options})


def test_the_oldest_items_become_one(path):
    model = joined()
    memory = compacting(path, model)
    fill(memory, 4)
    assert model.requests == []
    does(memory, "ann", "aadd", "fact 5")
    assert values(does(memory, "ann", "aget")) == ["fact 1 + fact 2 + fact 3", "fact 4", "fact 5"]
    assert len(model.requests) == 1
    assert "Condense" in model.requests[0].text
    assert counters(memory) | {"compactionPromptTokens": 0} == {
        "itemsAdded": 5,
        "itemsReturned": 3,
        "tokensReturned": 10,
        "compactions": 1,
        "itemsCompacted": 3,
        "tokensBeforeCompaction": 6,
        "tokensAfterCompaction": 6,
        "compactionPromptTokens": 0,
        "compactionCompletionTokens": 8,
    }
    assert counters(memory)["compactionPromptTokens"] > 20


def test_a_summary_covers_the_time_of_its_originals_and_keeps_what_they_share(path):
    memory = compacting(path, joined())
    for number in range(1, 6):
        metadata = {"topic": "pets", "n": number}
        does(memory, "ann", "aadd", f"fact {number}", {"metadatas": metadata}, timestamp=number * 1000)
        if number < 5:
            memory.advance(90)
            does(memory, "ann", "aget", {"limit": 1})
    summary, four, _ = does(memory, "ann", "aget")
    assert (summary.covers_from, summary.covers_to, summary.summarizes) == (at(1000), at(3000), 3)
    assert summary.additional_metadata == {"topic": "pets"}
    # The first of them was returned after the others were added, and before they were summarised.
    assert four.created_at <= summary.last_accessed_at <= summary.created_at
    assert values(does(memory, "ann", "asearch", "fact 1", 1, {"filters": {"topic": "pets"}})) == [summary.value]


def test_summaries_are_summarised_again(path):
    memory = compacting(path, joined())
    fill(memory, 9)
    found = does(memory, "ann", "aget")
    assert [item.summarizes for item in found] == [7, 0, 0]
    assert found[0].value == " + ".join(f"fact {number}" for number in range(1, 8))


def test_a_budget_of_tokens(path):
    model = joined()
    memory = compacting(path, model, **{f"{PREFIX}.max-items": 0, f"{PREFIX}.max-tokens": 20})
    for number in range(3):
        does(memory, "ann", "aadd", f"{number}" + "x" * 27)  # seven tokens each
    assert [len(notes(request)) for request in model.requests] == [2]
    assert [item.summarizes for item in does(memory, "ann", "aget")] == [2, 0]


def test_a_model_is_not_asked_to_summarise_too_much_at_once(path):
    model = ScriptedChatModel(lambda request: "short")
    memory = compacting(path, model, **{f"{PREFIX}.keep-items": 0})
    does(memory, "ann", "aadd", [f"{number}" + "x" * 32_000 for number in range(5)])  # 8,000 tokens each
    assert [len(notes(request)) for request in model.requests] == [2]
    assert [item.summarizes for item in does(memory, "ann", "aget")] == [2, 0, 0, 0]


def test_one_item_above_the_budget_is_left_alone(path):
    model = joined()
    memory = compacting(path, model, **{f"{PREFIX}.max-items": 0, f"{PREFIX}.max-tokens": 5})
    does(memory, "ann", "aadd", "x" * 100)
    assert model.requests == []


def test_it_can_be_switched_off(path):
    model = joined()
    memory = compacting(path, model, **{PREFIX: False})
    fill(memory, 6)
    assert len(does(memory, "ann", "aget")) == 6
    assert model.requests == []


class Own(Agent):
    """Compacts in its own way."""

    @action(InputEvent)
    @staticmethod
    async def do(event, ctx):
        def summarize(items):
            return None if ctx_less(items) else {"count": len(items)}

        facts = ctx.long_term_memory.get_memory_set("facts", Compaction(max_items=3, keep_items=1, function=summarize))
        await facts.aadd(event.input)
        ctx.send_event(OutputEvent(len(await facts.aget())))


def ctx_less(items):
    return any(item.value == "keep me" for item in items)


def test_the_users_own_function_decides(path):
    memory = harness(path, Own())
    for text in ("a", "b", "c", "d"):
        memory.feed("ann", text)
        memory.feed("ben", "keep me" if text == "a" else text)
    memory.run()
    assert memory.keyed_outputs[-2:] == [("ann", 2), ("ben", 4)]
    assert sorted(document.content for document in stored(path)) == ["b", "c", "d", "d", "keep me", '{"count":3}']


def test_a_model_that_fails_is_asked_again_after_a_pause(path, caplog):
    model = ScriptedChatModel(lambda request: notes(request)[0] if len(model.requests) > 1 else ConnectionError("down"))
    memory = compacting(path, model)
    fill(memory, 6)
    assert len(model.requests) == 1
    assert len(does(memory, "ann", "aget")) == 6
    assert "tried again later" in caplog.text
    memory.advance(40)
    does(memory, "ann", "aadd", "fact 7")
    assert next(item.summarizes for item in does(memory, "ann", "aget")) > 1
    assert counters(memory)["compactionsFailed"] == 1


def test_a_chat_model_that_nobody_declared_is_missed_at_once(path):
    memory = harness(path, **{f"{PREFIX}.chat-model": "nobody"})
    with pytest.raises(ActionFailedError, match="there is no chat_model 'nobody'"):
        does(memory, "ann", "aget")


def test_a_summary_of_nothing_is_a_failure(path):
    memory = compacting(path, ScriptedChatModel(lambda request: " "))
    fill(memory, 5)
    assert len(does(memory, "ann", "aget")) == 5
    assert counters(memory)["compactionsFailed"] == 1


@pytest.mark.parametrize("change", ["aupdate", "adelete"])
def test_what_is_changed_while_it_is_summarised_is_not_lost(path, change):
    """The change comes between the model's question and its answer; the stale answer is thrown away."""
    other = harness(path)  # another process, on the same file
    changed = []

    def answer(request):
        if not changed:
            changed.append(True)
            (item, *_) = does(other, "ann", "aget")
            does(other, "ann", change, item.id, *(["fact 1, corrected"] if change == "aupdate" else []))
        return " + ".join(notes(request))

    memory = compacting(path, ScriptedChatModel(answer))
    fill(memory, 5)
    first = values(does(memory, "ann", "aget"))[0]
    if change == "aupdate":
        assert first == "fact 1, corrected + fact 2 + fact 3"
    else:
        assert first == "fact 2"  # four are left: within the budget
    assert counters(memory)["compactionsStale"] == 1


asked, answered = threading.Event(), threading.Event()


def slow_answer(request):
    asked.set()
    assert answered.wait(20)
    return "a summary"


class Going(Agent):
    """Adds each input; the fifth waits until the summary has been asked for, the eighth until it is there."""

    @action(InputEvent)
    @staticmethod
    async def do(event, ctx):
        facts = ctx.long_term_memory.get_memory_set("facts")
        await facts.aadd(event.input)
        if event.input == "fact 5":
            await ctx.durable_execute_async(asked.wait, 20)
        if event.input == "fact 8":
            answered.set()
            await ctx.durable_execute_async(fewer_than, 8, ctx.config.get("path", ""))
        ctx.send_event(OutputEvent(len(await facts.aget())))


def fewer_than(count, path):
    deadline = time.monotonic() + 20
    while len(stored(path)) >= count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_key_goes_on_while_its_set_is_summarised(path):
    """On real threads: the model answers only when later inputs of the same key are over."""
    model = ScriptedChatModel(slow_answer)
    agent = with_store(Going(), path)
    agent.add_resource("service", ResourceType.CHAT_MODEL_CONNECTION, model.connection)
    agent.add_resource("summarizer", ResourceType.CHAT_MODEL, model.setup("service"))
    agents = AgentsExecutionEnvironment.get_execution_environment()
    options = config(**{f"{PREFIX}.max-items": 4, f"{PREFIX}.chat-model": "summarizer", "path": str(path)})
    for name, value in options.items():
        agents.get_config().set(name, value)
    said = [{"key": "ann", "value": f"fact {number}"} for number in range(1, 9)]
    outputs = [output["ann"] for output in agents.from_list(said).apply(agent).to_list()]
    assert outputs[:7] == [1, 2, 3, 4, 5, 6, 7]
    assert outputs[7] < 8


def test_a_set_that_is_over_its_budget_after_a_restart_is_compacted_when_it_is_read(path):
    fill(harness(path), 6)  # without anybody to write summaries
    model = joined()
    memory = compacting(path, model)
    assert len(does(memory, "ann", "asearch", "fact", 10)) == 6
    assert [item.summarizes for item in does(memory, "ann", "aget")] == [4, 0, 0]
    assert len(model.requests) == 1


meeting = threading.Barrier(2, timeout=20)
at_work: list[str] = []
most = [0]


def meets_another(items):
    at_work.append("one")
    most[0] = max(most[0], len(at_work))
    meeting.wait()
    at_work.pop()
    return "a summary"


class Meeting(Agent):
    @action(InputEvent)
    @staticmethod
    async def do(event, ctx):
        policy = Compaction(max_items=2, keep_items=1, function=meets_another)
        await ctx.long_term_memory.get_memory_set("facts", policy).aadd(["a", "b", "c"])
        if event.input == "last":
            await ctx.durable_execute_async(summaries, 4, ctx.config.get("path", ""))


def summaries(count, path):
    deadline = time.monotonic() + 20
    while sum(document.content == "a summary" for document in stored(path)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_so_many_sets_are_compacted_at_a_time_and_no_more(path):
    """Four sets are over their budget; two summaries are made at a time, as each waits for another one."""
    agents = AgentsExecutionEnvironment.get_execution_environment()
    for name, value in config(**{f"{PREFIX}.concurrency": 2, "path": str(path)}).items():
        agents.get_config().set(name, value)
    said = [{"key": key, "value": "first"} for key in "abc"] + [{"key": "d", "value": "last"}]
    agents.from_list(said).apply(with_store(Meeting(), path)).to_list()
    assert len(stored(path)) == 8
    assert most == [2]
