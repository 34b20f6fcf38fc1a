"""What to do when things go wrong: retries, timeouts, and the fate of a failed action."""

from __future__ import annotations

import random
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

OnError = Literal["fail", "dead_letter", "skip"]
"""Fate of an input whose action raised: fail the job (default), side output ``dead-letters``, or skip and count."""


class RetryPolicy(BaseModel):
    """When and how often a failed durable call is made again.

    The delay before attempt *n+1* is ``min(initial * factor**(n-1), maximum)`` seconds plus a jitter of up to
    ``jitter`` times that delay, seeded by the call's idempotency key so that a replay waits equally long (S8).
    An error that carries ``retry_after`` (seconds) is waited for at least that long.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_attempts: int = Field(default=3, ge=1, description="attempts in all, the first included")
    initial: float = Field(default=0.5, ge=0, description="seconds before the second attempt")
    factor: float = Field(default=2.0, ge=1)
    maximum: float = Field(default=60.0, ge=0, description="cap of one delay, seconds, before jitter")
    jitter: float = Field(default=0.1, ge=0, le=1)
    retry_on: tuple[str, ...] = Field(
        default=("Exception",),
        description="class names of errors worth another attempt, matched against the error's class and its bases",
    )
    give_up_on: tuple[str, ...] = Field(default=(), description="class names never retried; wins over retry_on")

    def delay_s(self, attempt: int, seed: str, retry_after: float | None = None) -> float:
        """Seconds to wait after the failed attempt number ``attempt`` (1 is the first)."""
        # factor ** attempt overflows a float for absurd attempt numbers; the cap makes the value irrelevant then.
        try:
            base = min(self.initial * self.factor ** (attempt - 1), self.maximum)
        except OverflowError:
            base = self.maximum
        # A seeded generator, not a secure one: the point is that a replay draws the same number.
        delay = base + base * self.jitter * random.Random(f"{seed}:{attempt}").random()  # noqa: S311
        return max(delay, retry_after or 0.0)

    def retries(self, error: BaseException) -> bool:
        """Whether ``error`` is worth another attempt under this policy."""
        names = {cls.__name__ for cls in type(error).__mro__}
        names |= {f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__}
        return not names.intersection(self.give_up_on) and bool(names.intersection(self.retry_on))


class Timeouts(BaseModel):
    """Limits of one durable call, in seconds; ``None`` means no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempt: float | None = Field(default=None, gt=0, description="one attempt, from when it starts running")
    total: float | None = Field(default=None, gt=0, description="the whole call: queueing, all attempts and waits")

    @model_validator(mode="before")
    @classmethod
    def _number_means_total(cls, value: Any) -> Any:
        return {"total": value} if isinstance(value, (int, float)) and not isinstance(value, bool) else value


NO_RETRY = RetryPolicy(max_attempts=1)
NO_TIMEOUTS = Timeouts()


def retry_after_of(error: BaseException) -> float | None:
    """Seconds an error asks to wait: its ``retry_after``, or a ``Retry-After`` header of its ``response``."""
    try:
        return _retry_after(error)
    except Exception:  # noqa: BLE001 - attributes of somebody else's class: a property may raise, headers be a list
        return None


def _retry_after(error: BaseException) -> float | None:
    value = getattr(error, "retry_after", None)
    if value is None:
        headers = getattr(getattr(error, "response", None), "headers", None)
        if headers is not None:
            milliseconds = headers.get("retry-after-ms")
            if milliseconds is not None:
                seconds = _seconds(milliseconds)
                return None if seconds is None else seconds / 1000.0
            value = headers.get("retry-after", headers.get("Retry-After"))
    return _seconds(value)


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None  # an HTTP date or garbage: the policy's own delay applies
    return seconds if 0 <= seconds < float("inf") else None
