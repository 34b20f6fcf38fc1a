"""Long-term memory with and without compaction: how much is kept, how much a search returns, and what a call takes.

``./dev bench memory --help``. Agents in this process, calls on real threads, an embedded store in a file of its own,
embeddings from the package, and a stand-in for the chat model that answers after ``--model-ms``. Prints a JSON object
for each of ``off`` and ``on``, and one with ratios. Latencies are of an input's calls, awaited one after the other;
``..._while_compacting`` of those that began while a summary was being made, in the same run.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flink_agents_py import (
    Agent,
    AgentConfiguration,
    AgentPlan,
    Compaction,
    InputEvent,
    LongTermMemoryOptions,
    MemorySetItem,
    RunnerContext,
    action,
)
from flink_agents_py.ext.model2vec import LocalEmbeddingModelConnection
from flink_agents_py.ext.sqlite_vec import SqliteVecVectorStore
from flink_agents_py.local.runner import LocalRunner
from flink_agents_py.long_term.records import TOKENS
from flink_agents_py.resources.filters import PARTITION, parse_filter
from jobs.benchmarks.machine import BUSY, busy_share

WORDS = 14
SEARCH_EVERY = 5
LIMIT = 10
SUMMARY_WORDS = 60
VOCABULARY = [
    *("order", "parcel", "refund", "delivery", "colour", "size", "shoes", "jacket", "payment", "card"),
    *("address", "gift", "customer", "returned", "wrong", "late", "broken", "small", "large", "blue"),
    *("red", "green", "asked", "promised", "called", "wrote", "yesterday", "today", "never", "always"),
    *("prefers", "dislikes"),
]

OPERATIONS = ("add", "add_while_compacting", "search", "search_while_compacting")

timings: dict[str, list[float]] = {}
compacting: list[str] = []  # a mark for each summary that is being made


class Remembering(Agent):
    """Adds each input to the memory of its key; every fifth one is searched for before."""

    @action(InputEvent)
    @staticmethod
    async def remember(event: InputEvent, ctx: RunnerContext) -> None:
        """Time both calls."""
        notes = ctx.long_term_memory.get_memory_set("notes", _compaction(ctx))
        number, text = event.input
        if number % SEARCH_EVERY == 0:
            name, began = f"search{_when()}", time.monotonic()
            await notes.asearch(text, LIMIT)
            timings[name].append(time.monotonic() - began)
        name, began = f"add{_when()}", time.monotonic()
        await notes.aadd(text)
        timings[name].append(time.monotonic() - began)


def _when() -> str:
    return "_while_compacting" if compacting else ""


def _compaction(ctx: RunnerContext) -> Compaction | None:
    limit, model_ms = ctx.config.get("limit"), ctx.config.get("model-ms")
    return Compaction(max_items=limit, function=lambda items: _summary(items, model_ms)) if limit else None


def _summary(items: list[MemorySetItem], model_ms: int) -> str:
    """What a model would say, in about as many words, after about as long."""
    compacting.append("at work")
    time.sleep(model_ms / 1000)
    compacting.pop()
    words = dict.fromkeys(word for item in items for word in item.value.split())
    return " ".join(list(words)[:SUMMARY_WORDS])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench memory", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--limit", type=int, default=50, help="items of a set before it is compacted (default 50)")
    parser.add_argument("--model-ms", type=int, default=200, help="what a summary takes (default 200)")
    parser.add_argument("--in-flight", type=int, default=8, help="inputs at work at a time (default 8)")
    options = parser.parse_args(arguments)
    reports = {}
    for name, limit in (("off", 0), ("on", options.limit)):
        busy = busy_share()
        if busy is not None and busy > BUSY:
            print(f"bench: other work uses {busy:.0%} of this machine", file=sys.stderr)
        reports[name] = measure(options, limit)
        print(json.dumps({"compaction": name, "limit": limit, "busy_before": busy, **reports[name]}), flush=True)
    off, on = reports["off"], reports["on"]
    names = (
        "items",
        "tokens_per_set",
        "tokens_per_search",
        "add_p50_ms",
        "add_p99_ms",
        "search_p50_ms",
        "search_p99_ms",
    )
    print(json.dumps({"on / off": {name: round(on[name] / off[name], 3) for name in names}}))
    return 0


def measure(options: argparse.Namespace, limit: int) -> dict[str, Any]:
    """One run."""
    timings.update({name: [] for name in OPERATIONS})
    LocalEmbeddingModelConnection().embed("loads the weights, once per process")
    with tempfile.TemporaryDirectory(prefix="flink-agents-bench-") as folder:
        path = Path(folder) / "memory.db"
        config = {
            "job-identifier": "bench",
            LongTermMemoryOptions.PATH.key: str(path),
            "limit": limit,
            "model-ms": options.model_ms,
            "max-in-flight": options.in_flight,
            "max-queued": 1,
        }
        with LocalRunner(AgentPlan.from_agent(Remembering(), AgentConfiguration(config))) as runner:
            began = time.monotonic()
            for _ in runner.run(_inputs(options.items, options.keys)):
                pass
            seconds = time.monotonic() - began
            memory = runner.engine.long_term
            while memory is not None and memory.upkeep is not None and not memory.upkeep.idle:
                time.sleep(0.05)
            caught_up = time.monotonic() - began - seconds
            group = runner.engine.metrics.get_sub_group("longTermMemory")
            counted = {name: group.get_counter(name).get_count() for name in group.metrics}
            sizes, searched = _left(path)
    return {
        "items_added": counted["itemsAdded"],
        "items": sum(size for size, _ in sizes),
        "largest_set": max(size for size, _ in sizes),
        "tokens_per_set": round(sum(tokens for _, tokens in sizes) / len(sizes)),
        "compactions": counted["compactions"],
        "items_compacted": counted["itemsCompacted"],
        "tokens_before_compaction": counted["tokensBeforeCompaction"],
        "tokens_after_compaction": counted["tokensAfterCompaction"],
        "searches": counted["searches"],
        "tokens_per_search": round(counted["tokensReturned"] / counted["searches"], 1),
        "tokens_per_search_at_end": searched,
        "inputs_per_s": round(options.items / seconds, 1),
        "caught_up_after_s": round(caught_up, 1),
        **{
            f"{name}_p{percent}_ms": round(1000 * _quantile(values, percent / 100), 2)
            for name, values in timings.items()
            if values
            for percent in (50, 99)
        },
    }


def _inputs(items: int, keys: int) -> Iterator[tuple[str, tuple[int, str], None]]:
    draw = random.Random(1)  # noqa: S311 - the same texts in every run
    for number in range(items):
        text = " ".join(draw.choices(VOCABULARY, k=WORDS))
        yield f"key {number % keys}", (number // keys, f"{text} {number}"), None


def _left(path: Path) -> tuple[list[tuple[int, int]], float]:
    """Items and tokens of each set; tokens that a search with the usual limit returns now, on average."""
    store, collection = SqliteVecVectorStore(path=str(path)), LongTermMemoryOptions.COLLECTION.default
    vector: Any = LocalEmbeddingModelConnection().embed("the customer asked for a refund")
    sizes: dict[str, list[int]] = {}
    try:
        for document in store.find(None, 1_000_000, collection):
            if TOKENS in document.metadata:
                sizes.setdefault(document.metadata[PARTITION], []).append(document.metadata[TOKENS])
        found = [store.nearest(collection, vector, LIMIT, parse_filter({PARTITION: name})) for name in sizes]
    finally:
        store.close()
    searched = sum(document.metadata[TOKENS] for documents in found for document in documents)
    return [(len(tokens), sum(tokens)) for tokens in sizes.values()], round(searched / len(sizes), 1)


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
