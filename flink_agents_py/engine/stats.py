"""What the engine counts. Plain integers on the hot path; hosts export them as metrics."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Levels(NamedTuple):
    """How much there is in one engine at a moment."""

    calls_in_flight: int
    calls_waiting: int  # for a place among those in flight
    runs: int  # unfinished, as far as this attempt has seen
    inputs_waiting: int  # behind a run of their key


class Stats:
    """Counters of one engine since it opened, and the high-water mark of calls in flight."""

    __slots__ = (
        "actions",
        "attempts",
        "condition_failures",
        "dead_letters",
        "discarded",
        "events",
        "in_flight_max",
        "inputs",
        "journal_hits",
        "journal_misses",
        "mismatches",
        "never_awaited",
        "plan_updates",
        "plans_refused",
        "recalled",
        "reconciled",
        "restarted",
        "resumed",
        "retries",
        "retries_by_code",
        "runs",
        "skipped",
        "state_bytes",
        "state_writes",
        "timeouts",
        "unhandled",
        "unmatched",
    )

    def __init__(self) -> None:
        self.inputs = 0  # accepted
        self.runs = 0  # finished
        self.events = 0  # handled, outputs included
        self.actions = 0  # finished
        self.attempts = 0  # of durable calls, the first included
        self.retries = 0
        self.timeouts = 0
        self.journal_hits = 0  # calls that were answered by their record
        self.journal_misses = 0  # calls that had none, or one without outcome
        self.mismatches = 0
        self.reconciled = 0
        self.recalled = 0  # finished actions whose effects came from the action state store
        self.discarded = 0  # sequences whose records in the store belonged to another input
        self.never_awaited = 0
        self.resumed = 0  # runs rebuilt from keyed state
        self.plan_updates = 0  # times the plan was exchanged
        self.plans_refused = 0
        self.restarted = 0  # runs begun anew, as they came to an action that is not there any more
        self.skipped = 0  # actions that failed under on_error="skip"
        self.dead_letters = 0
        self.unhandled = 0  # events nobody listens to
        self.unmatched = 0  # events for which no condition held
        self.condition_failures = 0  # conditions that failed and were taken for false
        self.in_flight_max = 0
        self.state_writes = 0  # records of suspended runs
        self.state_bytes = 0  # characters in them
        self.retries_by_code: dict[str, int] = {}  # by code of the error, else its class

    def retried(self, error: BaseException) -> None:
        """An attempt failed with ``error`` and another one will be made."""
        self.retries += 1
        code = code_of(error)
        self.retries_by_code[code] = self.retries_by_code.get(code, 0) + 1

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "retries_by_code"}


def code_of(error: BaseException) -> str:
    """What an error is counted under: its ``code``, if it has one (ours do, those of external actions too)."""
    code = getattr(error, "code", None)
    if isinstance(code, Enum):
        code = code.value
    return code if isinstance(code, str) and code else type(error).__name__
