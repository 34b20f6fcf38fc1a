"""A file that may change at any time, looked at by whoever asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from flink_agents_py.errors import ConfigError


class FileWatch:
    """Tells when a file has new content.

    What is looked at often is the file's time, size and number; its bytes are read when one of them has changed.

    Args:
        what: the file is, for messages.
    """

    def __init__(self, path: str, interval_s: float, what: str) -> None:
        self.path = path
        self._what = what
        self._interval_ms = max(1, round(interval_s * 1000))
        self._next_ms = 0
        self._stamp: tuple[int, int, int] | None = None
        self._digest = b""

    def changed(self, now_ms: int) -> Callable[[], bytes] | None:
        """How to read what is new (it may raise ConfigError); ``None`` if it is not time to look, or nothing is."""
        if now_ms < self._next_ms:
            return None
        self._next_ms = now_ms + self._interval_ms
        try:
            status = os.stat(self.path)  # noqa: PTH116 - a Path made for each look costs more than the look
        except OSError as error:
            if self._stamp == (0, 0, 0):
                return None  # still missing; said once
            self._stamp = (0, 0, 0)
            return self._raiser(error)
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        return self._read_new

    def _read_new(self) -> bytes:
        try:
            content = Path(self.path).read_bytes()
        except OSError as error:
            raise self._unreadable(error, "check path and permissions") from error
        digest = blake2b(content).digest()
        if digest == self._digest:
            raise Unchanged
        self._digest = digest
        return content

    def _raiser(self, error: OSError) -> Callable[[], bytes]:
        def fail() -> bytes:
            raise self._unreadable(error, "bring it back")

        return fail

    def _unreadable(self, error: OSError, fix: str) -> ConfigError:
        return ConfigError(f"the watched file of {self._what} cannot be read: {error}", where=self.path, fix=fix)


class Unchanged(Exception):  # noqa: N818 - no error: the file was touched, and says what it said before
    """The file has another time, and the same content."""
