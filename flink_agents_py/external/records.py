"""Calls of external actions and what came of them: plain records that JSON can carry."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from flink_agents_py.external.codes import ActionCode
from flink_agents_py.serde import canonical, from_plain, to_plain

PHASES = ("validate", "idempotency", "execute", "return")
"""The phases of a call, in order. A failed call names the one it got to."""


@dataclass(frozen=True)
class ActionCall:
    """One call of an external action.

    Args:
        trace_id: what the call belongs to: with the same trace id, the same action with the same parameters is the
            same deed, and is done once (while its success is remembered). Inside an agent the run, unless given.
        action: name of the action.
        params: its parameters, by name.
        sequence: the caller's number, for people; it is no part of the identity.
    """

    trace_id: str
    action: str
    params: dict[str, Any] = field(default_factory=dict)
    sequence: int = 0

    @property
    def idempotency_key(self) -> str:
        """Digest of trace id, action and content; no time and no randomness in it.

        Raises:
            EncodeError: a parameter has no stable form.
        """
        content = canonical(self.params)
        parts = (self.trace_id.encode(), self.action.encode(), content)
        framed = b"".join(b"%d:%b" % (len(part), part) for part in parts)
        return blake2b(framed, digest_size=16).hexdigest()

    def to_plain(self) -> dict[str, Any]:
        """As a JSON-like dictionary."""
        return {
            "trace_id": self.trace_id,
            "action": self.action,
            "params": to_plain(self.params),
            "sequence": self.sequence,
        }

    @classmethod
    def from_plain(cls, plain: Any) -> ActionCall:
        """Read what :meth:`to_plain` wrote, or anybody who writes the same shape.

        Raises:
            ValueError: it has another shape; the message says where.
        """
        if not isinstance(plain, dict):
            raise ValueError(f"a call is an object, not a {type(plain).__name__}")  # noqa: TRY004 - data, not a program error
        call = cls(
            trace_id=plain.get("trace_id", ""),
            action=plain.get("action", ""),
            params=from_plain(plain.get("params", {}), allow_pickle=False),
            sequence=plain.get("sequence", 0),
        )
        problem = call.problem()
        if problem is not None:
            raise ValueError(problem)
        return call

    def problem(self) -> str | None:
        """What is wrong with the structure of the call, ``None`` if nothing is."""
        for name in ("trace_id", "action"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                return f"{name} is {value!r}, not a non-empty text"
        params: Any = self.params
        sequence: Any = self.sequence
        if not isinstance(params, dict) or not all(isinstance(name, str) for name in params):
            return f"params are a {type(params).__name__}, not an object of named values"
        if not isinstance(sequence, int) or isinstance(sequence, bool):
            return f"sequence is {sequence!r}, not a number"
        return None


@dataclass(frozen=True)
class AttemptError:
    """One attempt that failed.

    Args:
        attempt: its number, from 1; 0 if it was refused before any attempt.
        code: see :class:`ActionCode`.
        message: what the handler or the engine said.
        error: class of the exception.
        at_ms: when it failed, ms since the epoch.
        detail: JSON-like data the handler gave.
    """

    attempt: int
    code: str
    message: str
    error: str
    at_ms: int
    detail: Any = None

    def to_plain(self) -> dict[str, Any]:
        """As a JSON-like dictionary."""
        return {
            "attempt": self.attempt,
            "code": self.code,
            "message": self.message,
            "error": self.error,
            "at_ms": self.at_ms,
            "detail": to_plain(self.detail),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> AttemptError:
        """Read what :meth:`to_plain` wrote."""
        return cls(**{**plain, "detail": from_plain(plain.get("detail"), allow_pickle=False)})


@dataclass(frozen=True)
class ActionResult:
    """What came of a call. A failure is data too: look at ``ok`` or ``code``.

    Args:
        code: see :class:`ActionCode`.
        value: what the handler returned; ``None`` for failures. If ``truncated``, the first part of it as text.
        action: name of the action.
        trace_id: of the call.
        sequence: of the call.
        idempotency_key: see :attr:`ActionCall.idempotency_key`; empty if the call had no stable content.
        attempts: how many were made.
        errors: of the attempts that failed, in order; of a success too.
        phase: the phase the call got to.
        truncated: whether the value was longer than the spec allows.
        size: bytes of the whole value, as JSON (of text or bytes: of itself).
        digest: hex blake2b-128 of those bytes; empty for failures.
        deduplicated: whether the result is that of an earlier call, and none was made for this one.
        version: of the spec that was in force.
        spec: fingerprint of that spec.
        target: of that spec.
        started_ms: when the call was made, ms since the epoch.
        finished_ms: when it had its outcome.
    """

    code: str
    value: Any = None
    action: str = ""
    trace_id: str = ""
    sequence: int = 0
    idempotency_key: str = ""
    attempts: int = 0
    errors: tuple[AttemptError, ...] = ()
    phase: str = "return"
    truncated: bool = False
    size: int = 0
    digest: str = ""
    deduplicated: bool = False
    version: str = ""
    spec: str = ""
    target: str = ""
    started_ms: int = 0
    finished_ms: int = 0

    @property
    def ok(self) -> bool:
        """Whether the action was done."""
        return self.code == ActionCode.SUCCESS

    @property
    def message(self) -> str:
        """What the last failed attempt said; empty if none failed."""
        return self.errors[-1].message if self.errors else ""

    def to_plain(self) -> dict[str, Any]:
        """As a JSON-like dictionary: what goes to the side output ``action-results``."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["value"] = to_plain(self.value)
        plain["errors"] = [error.to_plain() for error in self.errors]
        return plain

    @classmethod
    def from_plain(cls, plain: dict[str, Any], *, allow_pickle: bool = False) -> ActionResult:
        """Read what :meth:`to_plain` wrote; fields of later releases are left out."""
        known = {name: value for name, value in plain.items() if name in cls.__dataclass_fields__}
        known["value"] = from_plain(known.get("value"), allow_pickle=allow_pickle)
        known["errors"] = tuple(AttemptError.from_plain(error) for error in known.get("errors", ()))
        return cls(**known)


@dataclass(frozen=True)
class FailedAction:
    """A dead letter: a call that was not done, and everything that is known about why.

    Args:
        call: the call, fit to be made again.
        phase: the phase it got to: ``validate`` (nothing external was touched) or ``execute``.
        code: the last one.
        message: that belongs to it.
        attempts: how many were made.
        errors: of all attempts, in order.
        idempotency_key: of the call; the same when it is replayed with the same trace id.
        agent: name of the agent, ``action_of`` its action that made the call.
        key: key of the run, as text for people.
        started_ms: when the call was made first, ms since the epoch.
        failed_ms: when it was given up.
        version: of the spec, ``spec`` its fingerprint, ``target`` its target.
    """

    call: ActionCall
    phase: str
    code: str
    message: str
    attempts: int
    errors: tuple[AttemptError, ...] = ()
    idempotency_key: str = ""
    agent: str = ""
    action_of: str = ""
    key: str = ""
    started_ms: int = 0
    failed_ms: int = 0
    version: str = ""
    spec: str = ""
    target: str = ""

    def to_plain(self) -> dict[str, Any]:
        """As a JSON-like dictionary: what goes to the side output ``dead-letters``, with ``kind`` to tell it apart."""
        plain: dict[str, Any] = {"kind": DEAD_LETTER_KIND}
        plain.update((name, getattr(self, name)) for name in self.__dataclass_fields__)
        plain["call"] = self.call.to_plain()
        plain["errors"] = [error.to_plain() for error in self.errors]
        return plain

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> FailedAction:
        """Read what :meth:`to_plain` wrote; fields of later releases are left out."""
        known = {name: value for name, value in plain.items() if name in cls.__dataclass_fields__}
        call = known["call"]
        # Not ActionCall.from_plain: what was dead-lettered for its structure must come back too.
        known["call"] = ActionCall(
            call["trace_id"], call["action"], from_plain(call["params"], allow_pickle=False), call["sequence"]
        )
        known["errors"] = tuple(AttemptError.from_plain(error) for error in known.get("errors", ()))
        return cls(**known)


DEAD_LETTER_KIND = "external-action"
"""Tells the dead letter of an external action from that of an agent's action; both are under ``dead-letters``."""


@dataclass(frozen=True)
class Oversized:
    """What a handler returns instead of a value it did not want to hold in memory as a whole (a 50 MB body).

    Args:
        head: the first part; cut to the spec's limit if it is longer.
        size: bytes of the whole.
        digest: hex blake2b-128 of the whole.
    """

    head: str | bytes
    size: int
    digest: str
