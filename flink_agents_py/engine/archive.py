"""The plans that interrupted runs may be under, kept in keyed state.

A run's record says which plan it began with, by its digest. The plan itself is too large to be in every record; it is
kept once in each key group, under the *home* of its keys (see :mod:`flink_agents_py.engine.registry`), so it moves with
them when the job is rescaled. It is written when the first run of an attempt suspends, and when a plan is exchanged.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flink_agents_py.engine.ports import KeyScope, MapPort
    from flink_agents_py.engine.registry import Homes

PLANS = "agent.plans"
"""Name of the state."""
_ORDER = "order"
_INSTEAD = "instead"


class PlanArchive:
    """Plans by digest.

    Args:
        state: map state (``agent.plans``); under a home: digest -> packed plan, the digests in order of arrival, and
            which plan is in force instead of the one that was submitted.
        owned: the homes of this subtask.
        limit: plans that are kept, beside those that are said to be in use.
    """

    def __init__(self, state: MapPort, scope: KeyScope, homes: Homes, owned: Sequence[Any], limit: int) -> None:
        self._state = state
        self._scope = scope
        self._homes = homes
        self._owned = owned
        self._limit = limit

    def keep(self, digest: str, text: str, in_use: Collection[str], *, instead_of: str = "") -> None:
        """Keep a plan as the newest one under all homes of this subtask; the scope stays where it is.

        Args:
            instead_of: the plan that the job was submitted with, if runs begin under this one instead.
        """
        here = self._scope.current()
        packed = base64.b85encode(zlib.compress(text.encode())).decode("ascii")
        for home in self._owned:
            self._scope.switch(self._homes.handle_of(home))
            if instead_of:
                self._state.put(_INSTEAD, f"{instead_of}:{digest}")
            order = self._order()
            if order and order[-1] == digest:
                continue
            if digest in order:
                order.remove(digest)
            else:
                self._state.put(digest, packed)
            order.append(digest)
            spare = [each for each in order[:-1] if each not in in_use]
            for each in spare[: max(0, len(order) - self._limit)]:
                order.remove(each)
                self._state.remove(each)
            self._state.put(_ORDER, json.dumps(order))
        self._scope.switch(here)

    def find(self, digest: str, key: Any) -> str | None:
        """The plan that a run of ``key`` began with, if it was kept; the scope stays where it is."""
        return self._read(self._homes.home_of(key), digest)

    def instead_of(self, submitted: str) -> str | None:
        """The plan that was exchanged for ``submitted`` when state was written, by an attempt of the same submission.

        A job that is submitted with another plan begins with that.
        """
        return self._read(self._owned[0], "", submitted) if self._owned else None

    def _read(self, home: Any, digest: str, submitted: str = "") -> str | None:
        here = self._scope.current()
        self._scope.switch(self._homes.handle_of(home))
        if submitted:
            before, _, after = (self._state.get(_INSTEAD) or "").partition(":")
            digest = after if before == submitted else ""
        packed = self._state.get(digest)
        self._scope.switch(here)
        return None if packed is None else zlib.decompress(base64.b85decode(packed)).decode()

    def _order(self) -> list[str]:
        order: list[str] = json.loads(self._state.get(_ORDER) or "[]")
        return order
