"""Records outside Flink, one JSON line each: of durable calls as they are made, and of outputs as they leave.

Files are opened with O_APPEND and each line is one write, so any number of threads and processes may share one.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

Call = tuple[str, str, int]
"""Name, key and number of the input."""

_GATE_POLL_S = 0.02


def append(path: str, **record: Any) -> None:
    """Add a line."""
    line = json.dumps({**record, "at": time.time() * 1000, "pid": os.getpid()}) + "\n"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def lines(path: str | Path) -> list[dict[str, Any]]:
    """All lines so far (a last one that is being written is left out)."""
    if not Path(path).exists():
        return []
    return [json.loads(line) for line in Path(path).read_text().splitlines(keepends=True) if line.endswith("\n")]


# --- the calls --------------------------------------------------------------------------------------------------------


async def ask(
    name: str, key: str, number: int, ledger: str, seconds: float, gate: str = "", idempotency_key: str = ""
) -> str:
    """A slow call that leaves two lines; it does not return before the file ``gate`` exists."""
    append(ledger, phase="start", call=name, key=key, number=number, idempotency_key=idempotency_key)
    await asyncio.sleep(seconds)
    while gate and not os.path.exists(gate):  # noqa: ASYNC110, ASYNC240, PTH110 - another process makes it
        await asyncio.sleep(_GATE_POLL_S)
    append(ledger, phase="end", call=name, key=key, number=number)
    return answer(name, key, number)


def ask_blocking(
    name: str, key: str, number: int, ledger: str, seconds: float, gate: str = "", idempotency_key: str = ""
) -> str:
    """The same as a blocking function."""
    append(ledger, phase="start", call=name, key=key, number=number, idempotency_key=idempotency_key)
    time.sleep(seconds)
    while gate and not Path(gate).exists():
        time.sleep(_GATE_POLL_S)
    append(ledger, phase="end", call=name, key=key, number=number)
    return answer(name, key, number)


def answer(name: str, key: str, number: int) -> str:
    return f"{name}:{key}:{number}"


# --- what a test asks ------------------------------------------------------------------------------------------------


class Ledger:
    """The calls that were made."""

    def __init__(self, path: str | Path) -> None:
        records = lines(path)
        self.starts: dict[Call, list[dict[str, Any]]] = defaultdict(list)
        self.ends: dict[Call, list[dict[str, Any]]] = defaultdict(list)
        for record in records:
            made = self.starts if record["phase"] == "start" else self.ends
            made[record["call"], record["key"], record["number"]].append(record)

    def in_flight(self) -> list[Call]:
        """Calls that have not ended since they were last begun."""
        return [
            call
            for call, starts in self.starts.items()
            if not self.ends[call] or self.ends[call][-1]["at"] < starts[-1]["at"]
        ]

    def repeated(self) -> list[Call]:
        return [call for call, starts in self.starts.items() if len(starts) > 1]

    def check_identities(self) -> None:
        """One idempotency key for each call, however often it is made, and no two calls share one (S7)."""
        owners: dict[str, Call] = {}
        for call, starts in self.starts.items():
            keys = {start["idempotency_key"] for start in starts}
            assert len(keys) == 1, f"{call} was made with several idempotency keys: {keys}"
            (key,) = keys
            assert key, f"{call} got no idempotency key"
            assert owners.setdefault(key, call) == call, f"{call} and {owners[key]} share an idempotency key"

    def check_not_repeated(self, recorded: list[Call], after: float) -> None:
        """None of the ``recorded`` calls was made (again) after that time, ms since the epoch."""
        again = [call for call in recorded if any(start["at"] > after for start in self.starts[call])]
        assert not again, f"calls whose outcome was in the checkpoint were made again: {again[:5]} (of {len(again)})"


def first_of_each(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs without the repetitions a restart causes (the file is no transactional sink); these must be equal."""
    seen: dict[Any, dict[str, Any]] = {}
    for output in outputs:
        content = {name: value for name, value in output.items() if name not in {"at", "pid", "about"}}
        earlier = seen.setdefault((output["key"], output["sequence"]), content)
        assert earlier == content, "a repeated output differs from the first"
    return list(seen.values())


def repetitions(outputs: list[dict[str, Any]]) -> int:
    counts = Counter((output["key"], output["sequence"]) for output in outputs)
    return sum(counts.values()) - len(counts)
