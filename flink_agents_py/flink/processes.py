"""Background processes told apart from others that got the same pid later."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_POLL_S = 0.05


@dataclass(frozen=True)
class Daemon:
    """A process of ours: its pid, and when it was born, which no later owner of the pid shares.

    It leads a process group of its own, so what it started can be ended with it.
    """

    pid: int
    birth: str
    # Held so that the process, while it is our child, can be reaped; absent if another process started it.
    popen: subprocess.Popen[bytes] | None = field(default=None, compare=False, repr=False)

    def alive(self) -> bool:
        """Whether it still runs."""
        if self.popen is not None and self.popen.poll() is not None:
            return False
        return birth_of(self.pid) == self.birth


def start_daemon(command: Sequence[str], *, environment: Mapping[str, str], output: Path) -> Daemon:
    """Start ``command`` in the background, in its own session, with both output streams going to ``output``."""
    with output.open("ab") as stream:
        popen = subprocess.Popen(  # noqa: S603 - the commands are Flink's own scripts
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Daemon(popen.pid, birth_of(popen.pid) or "", popen)


def stop_daemons(daemons: Iterable[Daemon], *, grace_s: float) -> None:
    """Ask all to end (SIGTERM), wait up to ``grace_s`` seconds for all of them, then kill what is left."""
    daemons = list(daemons)
    for daemon in daemons:
        if daemon.alive():
            with suppress(ProcessLookupError):
                os.kill(daemon.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and any(daemon.alive() for daemon in daemons):
        time.sleep(_POLL_S)
    for daemon in daemons:
        kill_daemon(daemon)


def kill_daemon(daemon: Daemon) -> None:
    """SIGKILL the daemon and its whole process group (Python workers outlive their TaskManager otherwise)."""
    # While any process of the group lives, the kernel gives its number to nobody else; a number that now belongs to
    # another process means that the group has died out.
    if birth_of(daemon.pid) in (daemon.birth, None):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(daemon.pid, signal.SIGKILL)
    if daemon.popen is not None:
        daemon.popen.wait()
        return
    while daemon.alive():
        time.sleep(_POLL_S)


def birth_of(pid: int) -> str | None:
    """When the process of that pid started, as the system words it; ``None`` if there is none (or only a zombie)."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # "pid (name) state ... starttime(22nd) ..."; the name may contain spaces and parentheses.
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else fields[19]
    answer = subprocess.run(  # noqa: S603
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],  # noqa: S607 - where ps is, is the system's affair
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split(maxsplit=1)
    return answer[1].strip() if len(answer) == 2 and not answer[0].startswith("Z") else None  # noqa: PLR2004
