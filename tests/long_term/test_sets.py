"""Memory sets as actions use them."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from flink_agents_py import (
    Agent,
    BaseVectorStore,
    InputEvent,
    OutputEvent,
    ResourceDescriptor,
    ResourceType,
    action,
)
from flink_agents_py.errors import ActionFailedError, ConfigError, LongTermMemoryError, WrongThreadError
from flink_agents_py.testing import AgentHarness
from tests.long_term.kit import Doing, config, counters, does, harness, stored, values


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture(params=["", "a"], ids=["blocking", "async"])
def way(request):
    return request.param


def at(ms):
    return datetime.fromtimestamp(ms / 1000, timezone.utc)


def test_what_is_added_is_found_by_meaning_by_filter_and_by_id(path, way):
    memory = harness(path)
    (cat,) = does(memory, "ann", way + "add", "the cat is called Tom", {"metadatas": {"topic": "pets"}})
    town, dog = does(
        memory, "ann", way + "add", ["she lives in Oslo", "no dog"], {"metadatas": [{}, {"topic": "pets"}]}
    )
    assert values(does(memory, "ann", way + "search", "what is the cat called", 1)) == ["the cat is called Tom"]
    assert values(does(memory, "ann", way + "search", "cat", {"filters": {"topic": None}})) == ["she lives in Oslo"]
    assert values(does(memory, "ann", way + "search", "oslo", {"mode": "keyword"})) == ["she lives in Oslo"]
    assert values(does(memory, "ann", way + "get")) == ["the cat is called Tom", "she lives in Oslo", "no dog"]
    assert values(does(memory, "ann", way + "get", {"limit": 2})) == ["the cat is called Tom", "she lives in Oslo"]
    assert values(does(memory, "ann", way + "get", {"filters": {"topic": "pets"}, "limit": 9})) == [
        "the cat is called Tom",
        "no dog",
    ]
    assert [item.id for item in does(memory, "ann", way + "get", [dog, "nobody", cat])] == [dog, cat]
    (item,) = does(memory, "ann", way + "get", town)
    assert (item.memory_set_name, item.additional_metadata, item.summarizes) == ("facts", None, 0)
    assert len({cat, town, dog}) == 3


def test_an_empty_memory_has_nothing_to_find(path, way):
    memory = harness(path)
    assert does(memory, "ann", way + "search", "anything") == []
    assert does(memory, "ann", way + "get") == []
    assert does(memory, "ann", way + "update", "nobody", "x") is False
    assert does(memory, "ann", way + "delete", "nobody") is False
    assert does(memory, "ann", "forget") is False


def test_structured_values_come_back_as_they_were(path, way):
    memory = harness(path)
    value = {"name": "Tom", "legs": 4, "born": at(0)}
    (id,) = does(memory, "ann", way + "add", [value])
    (item,) = does(memory, "ann", way + "search", "name Tom", {"mode": "keyword"})
    assert (item.id, item.value) == (id, value)
    assert does(memory, "ann", way + "update", id, {"name": "Tim"}, {}) is True
    assert values(does(memory, "ann", way + "get", id)) == [{"name": "Tim"}]
    assert does(memory, "ann", way + "update", id, "just Tim") is True
    assert values(does(memory, "ann", way + "get")) == ["just Tim"]


def test_times_of_an_item(path):
    memory = harness(path)
    began = memory.clock.now_ms()
    (id,) = does(memory, "ann", "aadd", "at five", timestamp=5000)
    memory.advance(100)
    (found,) = does(memory, "ann", "asearch", "five")
    added = found.created_at.timestamp() * 1000
    assert began <= added <= began + 50
    assert (found.updated_at, found.last_accessed_at) == (found.created_at, found.created_at)
    assert (found.covers_from, found.covers_to) == (at(5000), at(5000))
    memory.advance(100)
    does(memory, "ann", "aupdate", id, "at six", {"metadata": {"sure": True}})
    memory.advance(100)
    does(memory, "ann", "aget")
    (last,) = does(memory, "ann", "aget", id)
    assert last.created_at == found.created_at < last.updated_at < last.last_accessed_at
    assert (last.value, last.additional_metadata, last.covers_from) == ("at six", {"sure": True}, at(5000))


@pytest.mark.parametrize("timestamp", [None, -(2**63), 2**63 - 1])
def test_without_event_time_an_item_covers_the_time_it_was_added(path, timestamp):
    memory = harness(path)
    does(memory, "ann", "aadd", "now", timestamp=timestamp)
    (item,) = does(memory, "ann", "aget")
    assert item.covers_from == item.covers_to == item.created_at


def test_deleted_items_are_gone_and_a_deleted_set_is_empty(path, way):
    memory = harness(path)
    one, *_ = does(memory, "ann", way + "add", ["one", "two", "three"])
    does(memory, "ann", way + "add", "other", {"set": "others"})
    assert does(memory, "ann", way + "delete", one) is True
    assert values(does(memory, "ann", way + "get")) == ["two", "three"]
    assert does(memory, "ann", way + "delete") is True
    assert does(memory, "ann", way + "get") == []
    does(memory, "ann", way + "add", "four")
    assert does(memory, "ann", "forget") is True
    assert [document.content for document in stored(path)] == ["other"]
    assert counters(memory)["itemsDeleted"] == 4


def test_keys_sets_and_jobs_share_nothing(path):
    memory = harness(path)
    (secret,) = does(memory, "ann", "aadd", "ann's secret")
    does(memory, "ann", "aadd", "another set", {"set": "others"})
    assert does(memory, "ben", "asearch", "secret") == []
    assert does(memory, "ben", "aget", secret) == []
    assert does(memory, "ben", "aupdate", secret, "mine") is False
    assert does(memory, "ben", "adelete", secret) is False
    assert does(memory, "ben", "adelete") is False
    other = harness(path, **{"job-identifier": "another job"})
    assert does(other, "ann", "aget") == []
    assert values(does(harness(path), "ann", "aget")) == ["ann's secret"]


@pytest.mark.parametrize("keys", [("a", "a/facts"), (1, "1"), (1, True), (("a", "b"), "a:b"), ("é", "e\u0301")])
def test_keys_that_look_alike_are_different_keys(path, keys):
    memory = harness(path)
    for key in keys:
        assert does(memory, key, "aget") == []
        does(memory, key, "aadd", f"of {key!r}")
    for key in keys:
        assert values(does(memory, key, "aget")) == [f"of {key!r}"]


def test_a_shared_scope_is_shared_by_keys_and_jobs_that_name_it(path):
    one, two = harness(path), harness(path, **{"job-identifier": "another job"})
    does(one, "ann", "aadd", "closed on Sundays", {"shared": "company"})
    assert values(does(one, "ben", "aget", {"shared": "company"})) == ["closed on Sundays"]
    assert values(does(two, "cem", "asearch", "Sundays", {"shared": "company"})) == ["closed on Sundays"]
    assert does(two, "cem", "aget", {"shared": "another company"}) == []
    assert does(one, "ann", "aget") == []


class Thoughtful(Agent):
    """Works with a set from within durable calls of its own, as jobs of Apache Flink Agents do."""

    @action(InputEvent)
    @staticmethod
    async def do(event, ctx):
        facts = ctx.long_term_memory.get_memory_set("facts")

        def learn(text, idempotency_key):
            facts.add(text, idempotency_key=idempotency_key)
            return [item.value for item in facts.search(text, 5)]

        ids = await ctx.durable_execute_async(facts.add, event.input)
        found = await ctx.durable_execute_async(learn, event.input + "!")
        ctx.send_event(OutputEvent((len(ids), sorted(found), ctx.durable_execute(facts.get, ids)[0].value)))


def test_within_a_durable_call_a_set_works_directly_for_the_key_of_its_run(path):
    memory = harness(path, Thoughtful(), latency=None)
    memory.feed("ann", "hello")
    memory.feed("ben", "bye")
    while memory.calls:
        memory.calls[-1].run()  # ben's first, then ann's
    assert dict(memory.keyed_outputs) == {
        "ann": (1, ["hello", "hello!"], "hello"),
        "ben": (1, ["bye", "bye!"], "bye"),
    }
    assert len(stored(path)) == 4


class Early(Agent):
    @action(InputEvent)
    @staticmethod
    async def do(event, ctx):
        def late():
            return ctx.long_term_memory.get_memory_set("facts")

        await ctx.durable_execute_async(late)


def test_a_set_is_got_by_the_action_itself(path):
    memory = harness(path, Early())
    memory.feed("ann", "x")
    with pytest.raises(ActionFailedError) as failure:
        memory.run()
    assert isinstance(failure.value.__cause__, WrongThreadError)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (["aadd", ["a", "b"], {"metadatas": [{}]}], "2 items, and metadata of 1"),
        (["aadd", " "], "nothing to remember"),
        (["aadd", "a", {"metadatas": {"~version": 1}}], "no name of a metadata field"),
        (["aadd", "a", {"metadatas": {"x": b"1"}}], "are no JSON"),
        (["aget", [1]], "takes ids as texts"),
        (["aget", {"set": ""}], "no name of a memory set"),
        (["asearch", "a", {"filters": {"x": {"$like": 1}}}], "no operator"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_called(path, operation, message):
    memory = harness(path)
    with pytest.raises(ActionFailedError, match=message):
        does(memory, "ann", *operation)
    assert not path.exists()


def test_a_job_without_a_name_has_no_long_term_memory(path):
    memory = harness(path, **{"job-identifier": None})
    with pytest.raises(ActionFailedError, match="job-identifier") as failure:
        does(memory, "ann", "aget")
    assert isinstance(failure.value.__cause__, ConfigError)


def test_somebody_has_to_say_where_items_go(path):
    memory = harness(path, **{"long-term-memory.vector-store": None})
    with pytest.raises(ActionFailedError, match=r"long-term-memory\.path"):
        does(memory, "ann", "aget")


def test_a_file_alone_is_enough_with_the_embedding_model_of_the_package(path):
    class Recalling(Agent):
        @action(InputEvent)
        @staticmethod
        async def do(event, ctx):
            facts = ctx.long_term_memory.get_memory_set("facts")
            found = await facts.asearch(event.input, 1)
            await facts.aadd(event.input)
            ctx.send_event(OutputEvent(values(found)))

    memory = AgentHarness(Recalling(), {"job-identifier": "j", "long-term-memory.path": str(path)}, latency=0.1)
    for text in ("My cat has fleas.", "Stocks fell sharply today.", "Which animals does she keep at home?"):
        memory.feed("ann", text)
    memory.run()
    assert memory.outputs[-1] == ["My cat has fleas."]


class Plain(BaseVectorStore):
    """It can be searched, and no more."""

    def add(self, documents, collection_name=None, **kwargs):
        raise NotImplementedError

    query = get = delete = add


def test_a_store_that_can_only_be_searched_is_refused():
    agent = Doing()
    agent.add_resource("memories", ResourceType.VECTOR_STORE, ResourceDescriptor(Plain))
    memory = AgentHarness(agent, config(), latency=0.05)
    with pytest.raises(ActionFailedError, match="cannot be kept in a Plain") as failure:
        does(memory, "ann", "aget")
    assert isinstance(failure.value.__cause__, LongTermMemoryError)
