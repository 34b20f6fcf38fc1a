"""The journal of one action: which durable calls it made, in creation order, and what came of them (S5, S6)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from flink_agents_py.errors import JournalMismatchError
from flink_agents_py.serde import digest
from flink_agents_py.serde.text import dumps, quote

PENDING, RETURNED, RAISED = "p", "r", "e"


class CallRecord:
    """One durable call.

    ``payload`` is JSON text: the result (``r``) or the exception (``e``). ``started_ms`` is when the call was made
    first and ``due_ms`` when its next attempt (or the end of its sleep) is due: both survive restarts, so a restart
    neither resets a deadline nor the retry budget (S8). ``generation`` counts how often replays had left the recorded
    path before the call was made; it is part of the idempotency key, so that another call at the same ordinal never
    presents the key of the old one.
    """

    __slots__ = ("arguments", "attempts", "due_ms", "function", "generation", "payload", "started_ms", "status")

    def __init__(
        self,
        function: str,
        arguments: str,
        status: str = PENDING,
        attempts: int = 0,
        started_ms: int = 0,
        due_ms: int = 0,
        generation: int = 0,
        payload: str = "null",
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.status = status
        self.attempts = attempts
        self.started_ms = started_ms
        self.due_ms = due_ms
        self.payload = payload
        self.generation = generation

    def to_json(self) -> str:
        return (
            f'[{quote(self.function)},"{self.arguments}","{self.status}",{self.attempts},{self.started_ms},'
            f"{self.due_ms},{self.generation},{self.payload}]"
        )

    @classmethod
    def from_plain(cls, record: list[Any]) -> CallRecord:
        function, arguments, status, attempts, started_ms, due_ms, generation, payload = record
        return cls(function, arguments, status, attempts, started_ms, due_ms, generation, dumps(payload))


class Journal:
    """The records of one action task; a replay claims them one by one."""

    __slots__ = ("_encoded", "_next", "generation", "left", "records", "recovered")

    def __init__(self, records: list[CallRecord] | None = None) -> None:
        self.records = records if records is not None else []
        self.generation = max((record.generation for record in self.records), default=0)
        self.recovered = len(self.records)
        self.left: JournalMismatchError | None = None  # set once a replay has left the recorded path, under `fail`
        self._next = 0
        self._encoded: list[str | None] = [None] * len(self.records)

    def claim(self, function: str, arguments: str, *, on_mismatch_fail: bool) -> tuple[int, CallRecord, bool, bool]:
        """The next call's ordinal and record; whether it was recorded before; whether the tail was dropped for it.

        Raises:
            JournalMismatchError: the recorded call at this place is another one, and the policy is ``fail``.
        """
        ordinal = self._next
        mismatch = False
        if ordinal < self.recovered:
            record = self.records[ordinal]
            if record.function == function and record.arguments == arguments:
                self._next += 1
                return ordinal, record, True, False
            if on_mismatch_fail:
                self.left = JournalMismatchError(
                    f"durable call {ordinal} is {function} with arguments {arguments}, but the journal has "
                    f"{record.function} with arguments {record.arguments}",
                    fix="make the action deterministic (no clocks, randomness or changed code before a durable call), "
                    "or set durable.on-mismatch to rerun",
                )
                raise self.left
            del self.records[ordinal:]
            del self._encoded[ordinal:]
            self.recovered = ordinal
            self.generation += 1
            mismatch = True
        self._next += 1
        record = CallRecord(function, arguments, generation=self.generation)
        self.records.append(record)
        self._encoded.append(None)
        return ordinal, record, False, mismatch

    def changed(self, ordinal: int) -> None:
        """Note that a record was modified (its encoded form is cached between checkpoints)."""
        if ordinal < len(self._encoded):
            self._encoded[ordinal] = None

    def to_json(self) -> str:
        texts = self._encoded
        for index, text in enumerate(texts):
            if text is None:
                texts[index] = self.records[index].to_json()
        return f"[{','.join(texts)}]"  # type: ignore[arg-type]

    @classmethod
    def from_plain(cls, records: list[list[Any]]) -> Journal:
        return cls([CallRecord.from_plain(record) for record in records])


def function_id(func: Callable[..., Any]) -> str:
    """Identity of a function across processes: ``module:qualname``.

    Values bound by ``functools.partial`` or captured by a closure are not part of it, as the engine cannot see the
    latter either; what shall distinguish two calls belongs into their arguments.
    """
    while isinstance(func, functools.partial):
        func = func.func
    func = getattr(func, "__func__", func)
    qualname = getattr(func, "__qualname__", None)
    if qualname is None:
        cls = type(func)
        return f"{cls.__module__}:{cls.__qualname__}"
    return f"{getattr(func, '__module__', None) or 'builtins'}:{qualname}"


_NO_ARGUMENTS = digest([[], {}])


def arguments_digest(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Digest of the canonical form of a call's arguments (S5)."""
    if not args and not kwargs:
        return _NO_ARGUMENTS
    return digest([list(args), kwargs])


def takes_idempotency_key(func: Callable[..., Any]) -> bool:
    """Whether the function declares a parameter named ``idempotency_key`` (S7)."""
    code = getattr(getattr(func, "__func__", func), "__code__", None)
    if code is not None:
        return "idempotency_key" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        return "idempotency_key" in inspect.signature(func).parameters
    except (TypeError, ValueError):
        return False  # builtins without a signature
