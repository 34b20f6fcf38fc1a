"""Where lines of the event log go."""

from __future__ import annotations

import atexit
import glob
import logging
import re
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from flink_agents_py.engine.effects import Effects
    from flink_agents_py.engine.run import Run

EVENT_LOG_TAG = "event-log"
"""The side output lines go to, as text."""

log = logging.getLogger("flink_agents_py.observe")
_events = logging.getLogger("flink_agents_py.events")

_FLUSH_S = 0.5
HOLD = 256
"""Lines that are held back and come as one text."""

_FLUSH_BYTES = 1 << 20  # from so many on the thread is woken to write
_MOST_BYTES = 64 << 20


class FileDestination:
    """One file; lines gather in memory and a daemon thread writes them, at most half a second later.

    The operator thread never waits for the disk: if lines come faster than it takes them, what is above 64 MiB is
    dropped and counted.

    Args:
        max_bytes: from this size on the file is put aside, as one of :func:`parts_of`, and another one begun.
        keep: how many files there may be then, this one included; the oldest ones are deleted.
    """

    def __init__(self, path: Path, *, max_bytes: int | None = None, keep: int = 2) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self.failures = 0
        """Lines lost: dropped, or refused by the disk."""
        self.pull: Callable[[], None] = _nothing
        """Makes whoever holds lines back write them."""
        self._texts: list[bytes] = []  # appended to by one thread, taken from the front by another
        self._taken = self._done = 0  # bytes; writers take turns, and one thread is done with them
        self._wake = threading.Event()
        self._writing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="flink-agents-py event log", daemon=True)
        self._thread.start()
        # Where Flink never calls close(), the interpreter's exit is the last chance.
        atexit.register(self.close)

    def write(self, text: str, _: Run | None = None) -> None:
        """Take one or more lines, without the last line feed."""
        waiting = self._taken - self._done
        if waiting >= _MOST_BYTES:
            self.failures += text.count("\n") + 1
            return
        # Half a surrogate pair, in a key for instance, becomes the escape that JSON has for it.
        encoded = text.encode(errors="backslashreplace")
        self._texts.append(encoded)
        self._taken += len(encoded)
        if waiting >= _FLUSH_BYTES and not self._wake.is_set():
            self._wake.set()

    def flush(self) -> None:
        """Write what has gathered."""
        with self._writing:
            self.pull()
            texts = self._texts[:]
            if not texts:
                return
            del self._texts[: len(texts)]
            self._done += sum(map(len, texts))
            try:
                with self._open() as file:
                    file.write(b"\n".join((*texts, b"")))
                    size = file.tell()
                if self._max_bytes is not None and size >= self._max_bytes:
                    self._put_aside()
            except OSError as error:
                if not self.failures:
                    log.warning(
                        "the event log cannot be written to %s: %s; further failures are counted", self.path, error
                    )
                self.failures += sum(text.count(b"\n") + 1 for text in texts)

    def _open(self) -> BinaryIO:
        try:
            return self.path.open("ab")
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return self.path.open("ab")

    def _put_aside(self) -> None:
        parts = parts_of(self.path)
        number = int(parts[-1].name.split(".")[-2]) + 1 if parts else 1
        with suppress(OSError):  # nothing is lost: the file grows on, and the next lines try again
            self.path.rename(self.path.with_name(f"{self.path.stem}.{number:06}.jsonl"))
            for old in parts[: max(0, len(parts) + 2 - self._keep)]:
                old.unlink()

    def close(self) -> None:
        """Write the rest and let the thread end."""
        self._closed = True
        self._wake.set()
        self.flush()
        atexit.unregister(self.close)

    def _work(self) -> None:
        while not self._closed:
            self._wake.wait(_FLUSH_S)
            self._wake.clear()
            self.flush()


class LoggerDestination:
    """The Python logger ``flink_agents_py.events``, level INFO."""

    failures = 0

    def write(self, line: str, _: Run | None) -> None:
        _events.info(line)

    def close(self) -> None:
        """Nothing is held back."""


class SideOutput:
    """Beside another destination, the side output :data:`EVENT_LOG_TAG`."""

    def __init__(self, other: FileDestination | LoggerDestination | None) -> None:
        self._other = other
        self.effects: Effects | None = None
        """Of the engine; set once there is one."""

    @property
    def failures(self) -> int:
        """Lines the other destination has lost."""
        return 0 if self._other is None else self._other.failures

    def write(self, line: str, run: Run | None) -> None:
        if self.effects is not None and run is not None:
            self.effects.side_outputs.append((EVENT_LOG_TAG, line, run))
        if self._other is not None:
            self._other.write(line, run)

    def close(self) -> None:
        if self._other is not None:
            self._other.close()


def _nothing() -> None:
    pass


def parts_of(path: Path) -> list[Path]:
    """The files that hold what was in the file before, the oldest first; by name they come before it."""
    return sorted(path.parent.glob(f"{glob.escape(path.stem)}.[0-9][0-9][0-9][0-9][0-9][0-9].jsonl"))


def file_of(directory: str | None, agent: str, submission: str, subtask: int) -> Path:
    """The file of a subtask; all attempts of one submission append to it."""
    folder = Path(directory) if directory else Path(tempfile.gettempdir()) / "flink-agents-py"
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", agent)
    return folder / f"events-{name}-{submission[:8]}-{subtask}.jsonl"
