"""An agent that does with its long-term memory what its inputs say, and a file to keep it in."""

from __future__ import annotations

from inspect import isawaitable
from typing import Any

from flink_agents_py import Agent, InputEvent, OutputEvent, ResourceDescriptor, ResourceName, ResourceType, action
from flink_agents_py.ext.sqlite_vec import SqliteVecVectorStore
from flink_agents_py.resources.embedding_models import BaseEmbeddingModelConnection, BaseEmbeddingModelSetup
from flink_agents_py.testing import AgentHarness
from flink_agents_py.testing.openai_replies import bag_of_words

JOB = "shop"
COLLECTION = "long_term_memory"


class WordEmbedding(BaseEmbeddingModelConnection):
    """Texts that share words are near each other."""

    def embed(self, text, **kwargs):
        if isinstance(text, str):
            return bag_of_words(text, 64)
        return [bag_of_words(one, 64) for one in text]


def with_store(agent: Agent, path: Any) -> Agent:
    """The agent with a vector store ``memories`` in a file."""
    store = ResourceDescriptor(ResourceName.VectorStore.SQLITE_VEC, path=str(path), embedding_model="words")
    agent.add_resource("memories", ResourceType.VECTOR_STORE, store)
    agent.add_resource(
        "words", ResourceType.EMBEDDING_MODEL, ResourceDescriptor(BaseEmbeddingModelSetup, connection="w")
    )
    agent.add_resource("w", ResourceType.EMBEDDING_MODEL_CONNECTION, ResourceDescriptor(WordEmbedding))
    return agent


def config(**more: Any) -> dict[str, Any]:
    return {"job-identifier": JOB, "long-term-memory.vector-store": "memories", **more}


class Doing(Agent):
    """Input ``[operation, arguments, ...]``: does it with the set ``facts``, and outputs the result."""

    @action(InputEvent)
    @staticmethod
    async def do(event, ctx):
        operation, *arguments = event.input
        options = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        memory = ctx.long_term_memory
        if "shared" in options:
            memory = memory.shared(options.pop("shared"))
        facts = memory.get_memory_set(options.pop("set", "facts"))
        if operation == "forget":
            result = await memory.adelete_memory_set(facts.name)
        else:
            result = getattr(facts, operation)(*arguments, **options)
            if isawaitable(result):
                result = await result
        ctx.send_event(OutputEvent(result))


def harness(path: Any, agent: Agent | None = None, **more: Any) -> AgentHarness:
    options = {"latency": 0.05, **{name: more.pop(name) for name in ("latency", "store", "clock") if name in more}}
    return AgentHarness(with_store(agent or Doing(), path), config(**more), **options)


def does(harness: AgentHarness, key: Any, *operation: Any, **feed: Any) -> Any:
    """Feed an operation and return its result."""
    harness.feed(key, list(operation), **feed)
    harness.run()
    return harness.outputs[-1]


def values(items: Any) -> list[Any]:
    return [item.value for item in items]


def counters(harness: AgentHarness) -> dict[str, int]:
    """What long-term memory has counted, without zeros."""
    metrics = harness.engine.metrics.get_sub_group("longTermMemory").metrics
    return {name: counter.count for name, counter in metrics.items() if counter.count}


def stored(path: Any) -> list[Any]:
    """All documents in the file, but for records of what was compacted."""
    store = SqliteVecVectorStore(path=str(path))
    try:
        return [one for one in store.find(None, 10_000, COLLECTION, "~order") if "~covered" not in one.metadata]
    finally:
        store.close()
