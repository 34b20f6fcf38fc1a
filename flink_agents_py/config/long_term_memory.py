"""The options of long-term memory."""

from __future__ import annotations

from flink_agents_py.config.option import ConfigOption


class LongTermMemoryOptions:
    """Where ``ctx.long_term_memory`` keeps its items, and when it makes summaries of them."""

    BACKEND = ConfigOption(
        "long-term-memory.backend",
        str,
        "vector-store",
        "What keeps long-term memory: a vector store, or Mem0.",
        choices=("vector-store", "mem0"),
    )
    VECTOR_STORE = ConfigOption[str | None](
        "long-term-memory.vector-store", str, None, "Name of the vector store that long-term memory is kept in."
    )
    PATH = ConfigOption[str | None](
        "long-term-memory.path",
        str,
        None,
        "Without a vector store: a file on the worker for an embedded one (extra sqlite-vec).",
    )
    EMBEDDING_MODEL = ConfigOption[str | None](
        "long-term-memory.embedding-model",
        str,
        None,
        "Name of the embedding model for that file; if not given, one in the worker's process (extra local-embedding).",
    )
    COLLECTION = ConfigOption(
        "long-term-memory.collection", str, "long_term_memory", "Collection of the vector store that holds the items."
    )
    COMPACTION = ConfigOption(
        "long-term-memory.compaction", bool, True, "Whether memory sets over their budget are compacted."
    )
    COMPACTION_CHAT_MODEL = ConfigOption[str | None](
        "long-term-memory.compaction.chat-model",
        str,
        None,
        "Name of the chat model that writes summaries; without one only sets with a function of their own get any.",
    )
    COMPACTION_MAX_ITEMS = ConfigOption(
        "long-term-memory.compaction.max-items",
        int,
        100,
        "Items of a memory set before the oldest are summarised (0: any number).",
        minimum=0,
    )
    COMPACTION_MAX_TOKENS = ConfigOption(
        "long-term-memory.compaction.max-tokens",
        int,
        0,
        "The same for tokens, estimated (0: any number).",
        minimum=0,
    )
    COMPACTION_KEEP_ITEMS = ConfigOption[int | None](
        "long-term-memory.compaction.keep-items",
        int,
        None,
        "Newest items that stay as they are; half of max-items if not given.",
        minimum=0,
    )
    COMPACTION_CONCURRENCY = ConfigOption(
        "long-term-memory.compaction.concurrency",
        int,
        1,
        "Memory sets that are compacted at a time, per subtask.",
        minimum=1,
    )

    class Mem0:
        """Options of the backend ``mem0``, as in Apache Flink Agents."""

        CHAT_MODEL_SETUP = ConfigOption[str | None](
            "long-term-memory.mem0.chat-model-setup",
            str,
            None,
            "Name of the chat model that Mem0 extracts memories with; without one, items are kept as they are.",
        )
        EMBEDDING_MODEL_SETUP = ConfigOption[str | None](
            "long-term-memory.mem0.embedding-model-setup", str, None, "Name of the embedding model that Mem0 uses."
        )
        VECTOR_STORE = ConfigOption[str | None](
            "long-term-memory.mem0.vector-store", str, None, "Name of the vector store that Mem0 keeps memories in."
        )
