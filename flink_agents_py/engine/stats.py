"""What the engine counts. Plain integers on the hot path; hosts export them as metrics."""

from __future__ import annotations


class Stats:
    """Counters of one engine since it opened, and the high-water mark of calls in flight."""

    __slots__ = (
        "actions",
        "attempts",
        "dead_letters",
        "discarded",
        "events",
        "in_flight_max",
        "inputs",
        "journal_hits",
        "mismatches",
        "never_awaited",
        "recalled",
        "reconciled",
        "resumed",
        "retries",
        "runs",
        "skipped",
        "timeouts",
        "unhandled",
    )

    def __init__(self) -> None:
        self.inputs = 0  # accepted
        self.runs = 0  # finished
        self.events = 0  # handled, outputs included
        self.actions = 0  # finished
        self.attempts = 0  # of durable calls, the first included
        self.retries = 0
        self.timeouts = 0
        self.journal_hits = 0
        self.mismatches = 0
        self.reconciled = 0
        self.recalled = 0  # finished actions whose effects came from the action state store
        self.discarded = 0  # sequences whose records in the store belonged to another input
        self.never_awaited = 0
        self.resumed = 0  # runs rebuilt from keyed state
        self.skipped = 0  # actions that failed under on_error="skip"
        self.dead_letters = 0
        self.unhandled = 0  # events nobody listens to
        self.in_flight_max = 0

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}
