"""What a memory set holds, and when it is made smaller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel

PROMPT = (
    "Condense the following notes from an agent's memory into one note. Keep every fact that may matter later: names, "
    "numbers, dates, preferences, decisions, open questions. Leave out repetitions and small talk; where notes "
    "contradict each other the later one holds. Answer with the note alone."
)

_CHARACTERS_A_TOKEN = 4  # of English text, roughly; budgets need no more, and a tokenizer would be a model's own


class MemorySetItem(BaseModel):
    """An item of a memory set.

    Args:
        value: the text or structured value that was added; of a summary, its text.
        created_at: by the clock of the worker, UTC; so are the other two.
        last_accessed_at: when a search or a get last returned it, to the minute; an addition counts.
        covers_from: the time the item speaks of: the event time of the input it was added for, or if there is none the
            time it was added; of a summary, the earliest of its originals.
        covers_to: the same, the latest.
        additional_metadata: what was given with it; of a summary, what its originals have in common.
        summarizes: how many items that were added it stands for; 0 for one that was added itself.
        score: how well it fits the search that found it, greater is better.
    """

    memory_set_name: str
    id: str
    value: Any
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_accessed_at: datetime | None = None
    covers_from: datetime | None = None
    covers_to: datetime | None = None
    additional_metadata: dict[str, Any] | None = None
    summarizes: int = 0
    score: float | None = None


Summarize = Callable[[list[MemorySetItem]], Any]


@dataclass(frozen=True)
class Compaction:
    """When the oldest items of a set are summarised into one, in the background, and by whom.

    Args:
        max_items: of a set; one more and it is compacted. 0: as many as there are.
        max_tokens: the same for their tokens, estimated. 0: as many as there are.
        keep_items: the newest ones, which stay as they are; half of ``max_items`` if not given.
        chat_model: name of the chat model (a setup) that writes the summary.
        prompt: what it is told, before the items.
        function: writes it instead: of the items, oldest first, it makes a text or structured value; ``None`` leaves
            them as they are this time. It runs on a background thread.
    """

    max_items: int = 100
    max_tokens: int = 0
    keep_items: int | None = None
    chat_model: str | None = None
    prompt: str = PROMPT
    function: Summarize | None = None

    @property
    def possible(self) -> bool:
        """Whether there is a budget, and somebody to write summaries."""
        return (self.max_items > 0 or self.max_tokens > 0) and bool(self.chat_model or self.function)

    @property
    def kept(self) -> int:
        """How many items stay as they are, at most."""
        if self.keep_items is not None:
            return self.keep_items
        return self.max_items // 2 if self.max_items else 1 << 30

    def exceeded(self, items: int, tokens: int) -> bool:
        """Whether a set of this size is to be compacted."""
        return 0 < self.max_items < items or 0 < self.max_tokens < tokens


def tokens_of(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text) // _CHARACTERS_A_TOKEN)
