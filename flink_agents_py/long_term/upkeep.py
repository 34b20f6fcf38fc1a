"""What is done to memory sets in the background: summaries in place of old items, and times of last access.

Nothing here has to be remembered over a restart. Whether a set is over its budget is in the set, and the first call
that uses the set after a restart has it looked at. A pass reads the oldest items, has them summarised, and exchanges
them for the summary in one transaction of the store, if none has changed meanwhile: a process that dies at any moment
leaves either the originals or the summary, and has lost at most an answer of the model. Two processes that compact one
(shared) set cannot both succeed. The runs of the key go on all the while.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flink_agents_py.errors import ModelError
from flink_agents_py.long_term.items import Compaction, MemorySetItem
from flink_agents_py.long_term.records import (
    ACCESSED,
    ORDER,
    TOKENS,
    VERSION,
    covered_id,
    covered_record,
    item_of,
    summary_of,
)
from flink_agents_py.long_term.scope import Binding
from flink_agents_py.long_term.tally import Tally
from flink_agents_py.resources.filters import PARTITION
from flink_agents_py.resources.messages import ChatMessage
from flink_agents_py.resources.vector_stores import ChangeableVectorStore, Document

_MOST_READ = 1000  # items of a set that are looked at in one pass
_MOST_AT_ONCE = 100  # items in one summary
_MOST_TOKENS = 20_000  # of them: models have an end, too
_MOST_ROUNDS = 20  # in one pass, those in vain among them
_MOST_KNOWN = 100_000  # sets whose size is remembered
_PAUSE_S = 30.0  # after a failure, for that set

Stopped = Callable[[], bool]
Background = Callable[[Callable[[Stopped], None]], None]
"""Runs a function off the operator thread, at once and once; the function asks now and then whether it shall stop."""

log = logging.getLogger("flink_agents_py.long_term_memory")


@dataclass
class _Size:
    """What is known of a set without looking: as of the last pass, and added since."""

    items: int
    tokens: int
    not_before_s: float = 0.0


class Upkeep:
    """The background of one subtask's long-term memory.

    Args:
        chat_model: finds a chat model by name.
        concurrency: sets that are compacted at a time.
    """

    def __init__(
        self,
        store: ChangeableVectorStore,
        collection: str,
        chat_model: Callable[[str], Any],
        background: Background,
        now_ms: Callable[[], int],
        monotonic_s: Callable[[], float],
        tally: Tally,
        *,
        concurrency: int,
    ) -> None:
        self._store = store
        self._collection = collection
        self._chat_model = chat_model
        self._background = background
        self._now_ms = now_ms
        self._monotonic_s = monotonic_s
        self._tally = tally
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._sizes: dict[str, _Size] = {}
        self._due: dict[str, Binding] = {}
        self._accessed: dict[str, int] = {}
        self._busy: set[str] = set()
        self._workers = 0
        self._closed = False

    # --- told by calls, on their threads ------------------------------------------------------------------------------

    def grown(self, of: Binding, items: int, tokens: int) -> None:
        """A set has become that much larger (or smaller)."""
        policy = of.compaction
        if policy is None:
            return
        with self._lock:
            size = self._sizes.get(of.partition)
            if size is not None:
                size.items += items
                size.tokens += tokens
            if size is None or (policy.exceeded(size.items, size.tokens) and self._monotonic_s() >= size.not_before_s):
                self._due[of.partition] = of
        self._start()

    def accessed(self, of: Binding, ids: list[str], now_ms: int) -> None:
        """Items were returned."""
        with self._lock:
            self._accessed.update(dict.fromkeys(ids, now_ms))
            if of.compaction is not None and of.partition not in self._sizes:
                self._due[of.partition] = of
        self._start()

    def close(self) -> None:
        """Stop after what is being done."""
        self._closed = True

    @property
    def idle(self) -> bool:
        """Whether nothing is due or being done."""
        with self._lock:
            return not (self._workers or self._due or self._accessed)

    # --- in the background --------------------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            # One that is at work already finds what has come meanwhile.
            needed = min(self._concurrency, len(self._due) + bool(self._accessed))
            if self._closed or self._workers >= needed:
                return
            self._workers += 1
        self._background(self._work)

    def _work(self, stopped: Stopped) -> None:
        while True:
            with self._lock:
                accessed, self._accessed = self._accessed, {}
                of = next((one for name, one in self._due.items() if name not in self._busy), None)
                if self._closed or stopped() or (of is None and not accessed):
                    self._workers -= 1
                    return
                if of is not None:
                    del self._due[of.partition]
                    self._busy.add(of.partition)
            try:
                if accessed:
                    self._store.patch({id: {ACCESSED: at} for id, at in accessed.items()}, self._collection)
                if of is not None:
                    self._look_after(of)
            except BaseException:  # SystemExit of a user's function must not end all compaction
                log.exception("long-term memory could not be looked after; it is tried again later")
                if of is not None:
                    self._tally.add(compactionsFailed=1)
                    self._pause(of)
            finally:
                if of is not None:
                    with self._lock:
                        self._busy.discard(of.partition)

    def _look_after(self, of: Binding) -> None:
        """Compact a set until it is within its budget."""
        policy = of.compaction
        if policy is None:
            return
        for _ in range(_MOST_ROUNDS):
            found = self._store.find({PARTITION: of.partition}, _MOST_READ, self._collection, ORDER)
            tokens = sum(document.metadata[TOKENS] for document in found)
            self._know(of, _Size(len(found), tokens))
            if not policy.exceeded(len(found), tokens):
                return
            oldest = _oldest(found, policy)
            if self._closed or len(oldest) < 2 or not self._compact(of, policy, oldest):  # noqa: PLR2004
                break  # one item alone becomes no smaller
        self._pause(of)

    def _compact(self, of: Binding, policy: Compaction, oldest: list[Document]) -> bool:
        """Exchange items for their summary; False if they stay for now."""
        before = self._store.get(covered_id(of.partition), self._collection)
        items = [item_of(document, of.set_name) for document in oldest]
        value = self._summarize(policy, items)
        if value is None or self._closed:  # the store may be closed by now
            return False
        summary = summary_of(oldest, of, value, self._now_ms())
        record = covered_record(of, before[0] if before else None, oldest, str(summary.id))
        expected = {str(document.id): {VERSION: document.metadata[VERSION]} for document in [*oldest, *before]}
        if not self._store.exchange([summary, record], expected, self._collection):
            # Somebody has changed or deleted one of them: what was summarised is no longer so.
            self._tally.add(compactionsStale=1)
            return True
        self._tally.add(
            compactions=1,
            itemsCompacted=len(oldest),
            tokensBeforeCompaction=sum(document.metadata[TOKENS] for document in oldest),
            tokensAfterCompaction=summary.metadata[TOKENS],
        )
        return True

    def _summarize(self, policy: Compaction, items: list[MemorySetItem]) -> Any:
        if policy.function is not None:
            value = policy.function(items)
            return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value
        answer = self._chat_model(policy.chat_model or "").chat([ChatMessage.user(_question(policy, items))])
        extra = answer.extra_args
        self._tally.add(
            compactionPromptTokens=extra.get("promptTokens", 0),
            compactionCompletionTokens=extra.get("completionTokens", 0),
            compactionCostMicros=round(extra.get("cost", 0.0) * 1_000_000),
        )
        if not answer.text.strip():
            raise ModelError(
                f"the chat model {policy.chat_model!r} has summarised {len(items)} items by nothing",
                fix="give it no tools, or another prompt or model",
            )
        return answer.text

    # --- what is known of sets ----------------------------------------------------------------------------------------

    def _know(self, of: Binding, size: _Size) -> None:
        with self._lock:
            if len(self._sizes) >= _MOST_KNOWN and of.partition not in self._sizes:
                self._sizes.pop(next(iter(self._sizes)))
            self._sizes[of.partition] = size

    def _pause(self, of: Binding) -> None:
        with self._lock:
            size = self._sizes.get(of.partition)
            if size is not None:
                size.not_before_s = self._monotonic_s() + _PAUSE_S


def _oldest(found: list[Document], policy: Compaction) -> list[Document]:
    """What is summarised: all but the newest ones that fit into half of the budget."""
    kept, room = 0, policy.max_tokens // 2 if policy.max_tokens else 0
    for document in reversed(found):
        room -= document.metadata[TOKENS]
        if kept >= policy.kept or (policy.max_tokens and room < 0):
            break
        kept += 1
    oldest = found[: min(len(found) - kept, _MOST_AT_ONCE)]
    asked = 0
    for number, document in enumerate(oldest):
        asked += document.metadata[TOKENS]
        if asked > _MOST_TOKENS:
            return oldest[: max(2, number)]  # the rest has its turn after these
    return oldest


def _question(policy: Compaction, items: list[MemorySetItem]) -> str:
    notes = []
    for item in items:
        since, until = (f"{time:%Y-%m-%d %H:%M}" if time else "" for time in (item.covers_from, item.covers_to))
        notes.append(f"- [{since if since == until else f'{since} to {until}'}] {item.value}")
    return "\n".join([policy.prompt, "", *notes])


async def _awaited(awaitable: Any) -> Any:
    return await awaitable
