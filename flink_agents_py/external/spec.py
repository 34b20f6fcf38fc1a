"""What an external action is, as data: its parameters, its target and the limits it is called under."""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from flink_agents_py.external.codes import KNOWN_CODES, RETRYABLE
from flink_agents_py.policies import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self


class _Data(BaseModel):
    """Frozen, and what was derived from the fields is derived anew in a changed copy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed; ``update`` is not validated."""
        copy = super().model_copy(update=update, deep=deep)
        for name in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[name]
        return copy


class ActionTimeouts(_Data):
    """Three limits in seconds, each of which says something else about what went wrong."""

    connect: float = Field(default=3.0, gt=0, description="until there is a connection")
    read: float = Field(default=30.0, gt=0, description="from there until the answer, and between two parts of it")
    total: float = Field(default=60.0, gt=0, description="all of it: queueing, every attempt, the waits between them")


class ActionRetry(_Data):
    """When an attempt that failed is followed by another.

    The wait after attempt *n* is ``min(initial * factor**(n-1), maximum)`` seconds plus up to ``jitter`` times that,
    drawn from the idempotency key, so that calls that failed together do not come back together. It is a timer, and
    survives restarts. A ``retry_after`` of the error is waited for at least.
    """

    max_attempts: int = Field(default=3, ge=1, description="attempts in all, the first included")
    initial: float = Field(default=1.0, ge=0, description="seconds before the second attempt")
    factor: float = Field(default=2.0, ge=1)
    maximum: float = Field(default=30.0, ge=0, description="cap of one wait, seconds, before jitter")
    jitter: float = Field(default=0.5, ge=0, le=1)
    on: tuple[str, ...] = Field(default=RETRYABLE, description="codes worth another attempt")

    @field_validator("on")
    @classmethod
    def _known(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        unknown = sorted(set(codes) - KNOWN_CODES)
        if unknown:
            raise ValueError(f"no such code: {', '.join(unknown)}; there are {', '.join(sorted(KNOWN_CODES))}")
        return codes

    @cached_property
    def policy(self) -> RetryPolicy:
        """The same waits as a policy of durable calls."""
        return RetryPolicy(
            max_attempts=self.max_attempts,
            initial=self.initial,
            factor=self.factor,
            maximum=self.maximum,
            jitter=self.jitter,
        )


class CircuitBreaker(_Data):
    """Leave a target alone that keeps failing: after ``failures`` in a row, for ``open_s`` seconds, then try one call.

    Failures are attempts that ended in one of the retryable codes. All actions with the same target share the state,
    each subtask has its own; a restart forgets it.
    """

    failures: int = Field(default=5, ge=1, description="failed attempts in a row that open it")
    open_s: float = Field(default=30.0, gt=0, description="seconds until one call may try again")


class ActionSpec(_Data):
    """An external action: data alone, so that it travels in the plan and in files, and can change while a job runs.

    Limits hold **per subtask**, over all its keys. With ``divide_by_parallelism`` they are what all subtasks of the
    operator may do together, each taking an equal part (rounded down, at least 1 at a time, so a limit below the
    parallelism is exceeded).

    Args:
        name: what calls name it by.
        description: for models that are offered the action as a tool.
        parameters: a JSON Schema of an object, or a pydantic model class, which stands for its schema (validators
            written in Python do not run); ``None`` takes any object.
        target: what is called; breakers are per target, metrics and audit name it. Default: the name.
        max_concurrent: attempts at one time.
        rate_per_s: attempts begun per second; they are evenly spaced, at 95 % of it, so that the target never sees more
            in a second even where some arrive late. ``None``: no limit.
        max_queued: calls that may wait for their turn. While the queue is full no new input is taken in; calls made
            beyond that by what runs already end as ``QUEUE_FULL``.
        max_result_bytes: of the result as JSON; what is longer is cut off, with a mark, its size and digest kept.
        version: yours to count; results and audit name it.
        idempotency_ttl_s: how long a success is remembered and returned instead of a second call; 0 is not at all.
        grace_wait_ms: the callback that makes calls may wait so long for them to finish, which spares writing
            them down as in flight. It blocks the subtask: a few milliseconds at most.
        breaker: ``None``: the target is asked whatever happened before.
    """

    name: str = Field(min_length=1, max_length=200, pattern=r"^[^\s]+$")
    description: str = ""
    parameters: dict[str, Any] | None = None
    target: str = ""
    timeouts: ActionTimeouts = ActionTimeouts()
    retry: ActionRetry = ActionRetry()
    max_concurrent: int = Field(default=10, ge=1)
    rate_per_s: float | None = Field(default=None, gt=0)
    max_queued: int = Field(default=1000, ge=1)
    divide_by_parallelism: bool = False
    max_result_bytes: int = Field(default=64 * 1024, ge=64)
    version: str = "1"
    idempotency_ttl_s: float = Field(default=24 * 3600.0, ge=0)
    grace_wait_ms: int = Field(default=0, ge=0, le=1000)
    breaker: CircuitBreaker | None = None

    @field_validator("parameters", mode="before")
    @classmethod
    def _schema(cls, given: Any) -> Any:
        if isinstance(given, type) and issubclass(given, BaseModel):
            return given.model_json_schema()
        return given

    @field_validator("version", mode="before")
    @classmethod
    def _counted(cls, given: Any) -> Any:
        return str(given) if isinstance(given, int) and not isinstance(given, bool) else given

    @cached_property
    def where(self) -> str:
        """The target, or the name where none is given."""
        return self.target or self.name

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything in the spec: what audit names beside ``version``, which somebody may forget to raise."""
        return blake2b(self.to_json().encode(), digest_size=8).hexdigest()

    def to_json(self) -> str:
        """The spec as JSON text; equal specs give equal text."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    def as_tool(self) -> dict[str, Any]:
        """Name, description and parameter schema, as models are told of tools."""
        schema = self.parameters or {"type": "object", "properties": {}, "additionalProperties": True}
        return {"name": self.name, "description": self.description, "parameters": schema}
