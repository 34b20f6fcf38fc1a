"""Long-term memory in PostgreSQL: the same, from several processes at once."""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from flink_agents_py import (
    Agent,
    Compaction,
    InputEvent,
    OutputEvent,
    ResourceDescriptor,
    ResourceName,
    ResourceType,
    action,
)
from flink_agents_py.ext.pgvector import PgVectorStore
from flink_agents_py.resources.embedding_models import BaseEmbeddingModelSetup
from flink_agents_py.testing import AgentHarness
from tests.long_term.kit import COLLECTION, Doing, WordEmbedding, config, does, values
from tests.stores.servers import PASSWORD, pgvector_server

numbers = itertools.count()


@pytest.fixture(scope="module")
def url():
    with pgvector_server() as url:
        yield url


@pytest.fixture
def process(url, monkeypatch):
    """Makes an agent in a process of its own, on the same tables."""
    monkeypatch.setenv("TEST_PASSWORD", PASSWORD)
    prefix = f"m{next(numbers)}"

    def make(agent):
        arguments = {"url": url, "user": "agents", "password": "env:TEST_PASSWORD", "prefix": prefix}
        store = ResourceDescriptor(ResourceName.VectorStore.PGVECTOR, **arguments, embedding_model="words")
        agent.add_resource("memories", ResourceType.VECTOR_STORE, store)
        words = ResourceDescriptor(BaseEmbeddingModelSetup, connection="w")
        agent.add_resource("words", ResourceType.EMBEDDING_MODEL, words)
        agent.add_resource("w", ResourceType.EMBEDDING_MODEL_CONNECTION, ResourceDescriptor(WordEmbedding))
        made.append(AgentHarness(agent, config(), latency=0.05))
        return made[-1]

    made = []
    make.prefix = prefix
    yield make
    for harness in made:
        harness.plan.close()


def test_items_are_found_changed_and_deleted(process):
    memory, other = process(Doing()), process(Doing())
    assert does(memory, "ann", "asearch", "cat") == []
    (cat,) = does(memory, "ann", "aadd", "the cat is called Tom", {"metadatas": {"topic": "pets"}})
    does(memory, "ann", "aadd", [{"town": "Oslo"}])
    assert values(does(other, "ann", "asearch", "cat", 1, {"filters": {"topic": "pets"}})) == ["the cat is called Tom"]
    assert values(does(other, "ann", "aget")) == ["the cat is called Tom", {"town": "Oslo"}]
    assert does(other, "ben", "aget", cat) == []
    assert does(other, "ann", "aupdate", cat, "the cat is called Tim") is True
    assert values(does(memory, "ann", "asearch", "Tim", {"mode": "keyword"})) == ["the cat is called Tim"]
    assert does(memory, "ann", "forget") is True
    assert does(other, "ann", "aget") == []


class Sharing(Agent):
    """Adds to a set that all share, and compacts it."""

    @action(InputEvent)
    @staticmethod
    async def do(event, ctx):
        policy = Compaction(max_items=4, keep_items=1, function=joined)
        await ctx.long_term_memory.shared("all").get_memory_set("news", policy).aadd(event.input)
        ctx.send_event(OutputEvent(event.input))


def joined(items):
    return " + ".join(item.value for item in items)


def test_two_processes_add_to_one_set_and_compact_it_and_nothing_is_lost(process, url):
    processes = [process(Sharing()) for _ in range(2)]

    def work(number):
        for count in range(20):
            processes[number].feed(f"key {number}", f"{number}/{count}")
            processes[number].run()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    store = PgVectorStore(url=url, user="agents", password=PASSWORD, prefix=process.prefix)
    left = store.find({"~tokens": {"$gt": 0}}, 1000, COLLECTION)
    store.close()
    texts = Counter(text for document in left for text in document.content.split(" + "))
    assert texts == Counter(f"{number}/{count}" for number in range(2) for count in range(20))
    assert len(left) < 20
