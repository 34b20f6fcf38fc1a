"""Arming of failpoints, in this process or by the environment of a worker.

``FLINK_AGENTS_PY_FAILPOINTS`` holds entries separated by commas: ``POINT=ACTION@N`` or ``POINT=ACTION@N:MARKER``. At
the N-th hit of POINT in a process, ACTION happens: ``raise`` (the callback fails, so the job restarts), ``kill``
(SIGKILL to the process: in thread mode the whole TaskManager). With MARKER, a path, it happens at the N-th hit or the
first one after it that finds no such file, and creates it first: once over all processes and attempts, and, where the
file is there from the beginning, once when somebody removes it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from flink_agents_py.engine import failpoints
from flink_agents_py.errors import ConfigError

VARIABLE = "FLINK_AGENTS_PY_FAILPOINTS"


class FailpointError(Exception):
    """Raised at a failpoint that was armed with ``raise``."""


def arm(point: str, action: Callable[[], None]) -> None:
    """Call ``action`` whenever ``point`` is hit, until :func:`disarm`.

    Raises:
        ConfigError: there is no such point.
    """
    if point not in failpoints.POINTS:
        raise ConfigError(f"there is no failpoint {point!r}", fix=f"choose from {', '.join(failpoints.POINTS)}")
    failpoints.armed[point] = action


def disarm() -> None:
    """Disarm every failpoint."""
    failpoints.armed.clear()


def arm_from_environment(environ: Mapping[str, str] = os.environ) -> None:
    """Arm what :data:`VARIABLE` asks for; nothing is armed if it is not set.

    Raises:
        ConfigError: an entry is malformed.
    """
    for entry in filter(None, environ.get(VARIABLE, "").split(",")):
        point, _, rest = entry.partition("=")
        what, _, marker = rest.partition(":")
        kind, _, count = what.partition("@")
        if kind not in ("raise", "kill") or not count.isdigit():
            raise ConfigError(
                f"{entry!r} is no failpoint",
                where=f"environment {VARIABLE}",
                fix="write POINT=raise@N or POINT=kill@N, with :PATH behind it for once over all processes",
            )
        arm(point, _Trigger(point, kind, int(count), Path(marker) if marker else None))


class _Trigger:
    """Counts hits over all subtasks of the process."""

    def __init__(self, point: str, kind: str, count: int, marker: Path | None) -> None:
        self._point = point
        self._kind = kind
        self._left = count
        self._marker = marker
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left > 0 or (self._left < 0 and self._marker is None):
                return
        if self._marker is not None:
            try:
                self._marker.touch(exist_ok=False)
            except FileExistsError:
                return
        if self._kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise FailpointError(f"failpoint {self._point}")
