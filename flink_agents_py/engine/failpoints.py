"""Named points at which a test can make the process stop, crash or fail. Nothing happens unless one is armed.

Armed in this process by :mod:`flink_agents_py.testing.failpoints`, or across processes by the environment variable
``FLINK_AGENTS_PY_FAILPOINTS``. The points:

* ``call-made``: calls have had their effect; their outcomes are not recorded.
* ``before-record``: records are about to be written to the action state store.
* ``after-record``: they are written; nothing has come of it yet.
* ``before-emit``: the callback is over; its effects have not left the operator, keyed state is up to date.
"""

from __future__ import annotations

from collections.abc import Callable

POINTS = ("call-made", "before-record", "after-record", "before-emit")

armed: dict[str, Callable[[], None]] = {}


def hit(point: str) -> None:
    """Called by the engine at ``point``."""
    if armed:
        action = armed.get(point)
        if action is not None:
            action()
