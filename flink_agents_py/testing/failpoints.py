"""Failpoints for tests: let a run fail or be killed at a named point of the engine.

The points are listed in :mod:`flink_agents_py.engine.failpoints`; across processes they are armed by an environment
variable, see :mod:`flink_agents_py.host.failpoints`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flink_agents_py.host.failpoints import VARIABLE, FailpointError, arm, disarm

__all__ = ["VARIABLE", "FailpointError", "failpoint"]


@contextmanager
def failpoint(point: str, *, hits: int = 1, action: Callable[[], None] | None = None) -> Iterator[None]:
    """Within the block, do ``action`` (default: raise :class:`FailpointError`) at the ``hits``-th hit of ``point``."""
    left = [hits]

    def hit() -> None:
        left[0] -= 1
        if left[0] == 0:
            if action is None:
                raise FailpointError(f"failpoint {point}")
            action()

    arm(point, hit)
    try:
        yield
    finally:
        disarm()
