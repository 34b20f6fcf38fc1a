"""The keyed states of external actions: successes that are remembered, and the audit (``agent.idem``, ``agent.audit``).

Calls in flight need no state of their own: they are in the journals of their actions (``agent.run``).

Both are maps of text under the agent's key. ``agent.idem`` has the result of each success until it expires;
``agent.audit`` is a ring of the last records. The entry ``~`` of each says what is where.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flink_agents_py.external.records import ActionResult
from flink_agents_py.serde.text import dumps

if TYPE_CHECKING:
    from flink_agents_py.engine.ports import Clock, MapPort, Timers

_HEAD = "~"
_SHORTEST_CYCLE_MS = 1000
_MOST_KNOWN = 100_000


class ExternalState:
    """Reads and writes both under the key scope of the moment.

    Args:
        audit_limit: records kept per key.
    """

    def __init__(self, idem: MapPort, audit: MapPort, clock: Clock, timers: Timers, audit_limit: int) -> None:
        self._idem = idem
        self._audit = audit
        self._clock = clock
        self._timers = timers
        self._limit = audit_limit
        # Token -> when its map of successes is to be swept; 0: never. Bounded: what fell out is read again.
        self._sweeps: dict[Any, int] = {}

    # --- successes --------------------------------------------------------------------------------------------------

    def recall(self, key: str) -> ActionResult | None:
        """The result that is remembered under an idempotency key."""
        text = self._idem.get(key)
        if text is None:
            return None
        expires_ms, result = json.loads(text)
        if expires_ms <= self._clock.now_ms():
            return None
        return ActionResult.from_plain(result, allow_pickle=True)

    def remember(self, token: Any, key: str, result: dict[str, Any], expires_ms: int) -> None:
        """Remember a result until ``expires_ms``."""
        now = self._clock.now_ms()
        if expires_ms <= now:
            return
        due = self._due(token)
        if due and due <= now:
            due = self.sweep(token)
        self._idem.put(key, f"[{expires_ms},{dumps(result)}]")
        if not due:
            self._arm(token, expires_ms)

    def timer(self, token: Any) -> None:
        """A processing-time timer fired under the key, for whatever reason."""
        due = self._due(token)
        if due and due <= self._clock.now_ms():
            self.sweep(token)

    def sweep(self, token: Any) -> int:
        """Remove what has expired under the key; when to look again, 0 if nothing is left."""
        now = self._clock.now_ms()
        earliest = 0
        for key in list(self._idem.keys()):
            if key == _HEAD:
                continue
            text = self._idem.get(key)
            expires_ms = 0 if text is None else int(text[1 : text.index(",")])
            if expires_ms <= now:
                self._idem.remove(key)
            elif not earliest or expires_ms < earliest:
                earliest = expires_ms
        if earliest:
            return self._arm(token, earliest)
        self._idem.remove(_HEAD)
        self._note(token, 0)
        return 0

    def _due(self, token: Any) -> int:
        known = self._sweeps.get(token)
        if known is None:
            known = int(self._idem.get(_HEAD) or 0)
            self._note(token, known)
        return known

    def _arm(self, token: Any, expires_ms: int) -> int:
        # Rounded up to an eighth of the time left, so that successes that follow each other share a timer.
        now = self._clock.now_ms()
        cycle = max(_SHORTEST_CYCLE_MS, (expires_ms - now) // 8)
        due = -(-expires_ms // cycle) * cycle
        self._idem.put(_HEAD, str(due))
        self._timers.processing_time(due)
        self._note(token, due)
        return due

    def _note(self, token: Any, due: int) -> None:
        if token not in self._sweeps and len(self._sweeps) >= _MOST_KNOWN:
            del self._sweeps[next(iter(self._sweeps))]
        self._sweeps[token] = due

    # --- audit ------------------------------------------------------------------------------------------------------

    def audit(self, record: dict[str, Any]) -> None:
        """Append a record; the oldest goes when there are too many."""
        limit = self._limit
        if limit == 0:
            return
        head = self._audit.get(_HEAD)
        count, stored_limit = (0, limit) if head is None else map(int, head.split(","))
        if stored_limit != limit:
            count = self._resize(limit)
        self._audit.put(str(count % limit), dumps({"n": count, **record}))
        self._audit.put(_HEAD, f"{count + 1},{limit}")

    def audited(self) -> list[dict[str, Any]]:
        """The records of the key, oldest first."""
        slots = list(self._audit.keys())
        texts = [self._audit.get(slot) for slot in slots if slot != _HEAD]
        return sorted((json.loads(text) for text in texts if text is not None), key=lambda record: int(record["n"]))

    def _resize(self, limit: int) -> int:
        records = self.audited()
        for slot in list(self._audit.keys()):
            self._audit.remove(slot)
        for number, record in enumerate(records[-limit:]):
            self._audit.put(str(number % limit), dumps({**record, "n": number}))
        return min(len(records), limit)
