"""Lines of the event log that are noted first and become text later, many at once.

Between two records Flink fills the caches of the processor with its own work. Code that makes a line of text then runs
cold, for each record anew; a hundred lines in a row cost half as much each (measured in a job; in a plain loop there is
no such difference).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flink_agents_py.observe.stamps import Stamps
from flink_agents_py.serde.text import dumps, is_unicode, quote

if TYPE_CHECKING:
    from flink_agents_py.engine.ports import Clock
    from flink_agents_py.engine.run import Run
    from flink_agents_py.observe.shorten import Shortener

Write = Callable[[str, "Run | None"], None]
"""Takes lines without the last line feed, and the run they are about if it is one line; may raise, which is counted."""

Held = tuple[Any, ...]
"""A line to be: what it is made with by ``%``, when it was noted (monotonic seconds), the key, and more values."""


class Json(str):
    """Text that is JSON already."""

    __slots__ = ()


class HeldLines:
    """Lines in the order in which they were noted.

    One thread notes them, by appending to :attr:`lines`; any may flush them.

    Args:
        short: of the values; for this object alone.
        failed: is told what a line could not be made or written for.
    """

    def __init__(self, write: Write, clock: Clock, short: Shortener, failed: Callable[[BaseException], None]) -> None:
        self.lines: list[Held | str] = []
        """Those to be made, as :data:`Held`, and those that are text already."""
        self.truncated = 0
        """Lines of which something was cut here."""
        self._write = write
        self._short = short
        self._stamps = Stamps(clock)
        self._failed = failed
        self._lock = threading.Lock()

    def flush(self, run: Run | None = None) -> None:
        """Write what has been noted; ``run`` if that is one line."""
        with self._lock:
            lines = self.lines[:]
            if not lines:
                return
            del self.lines[: len(lines)]  # what is noted meanwhile stays
            try:
                text = self._text_of(lines)
                if not text.isascii() and not is_unicode(text):
                    raise ValueError("half a character")
            except Exception:  # noqa: BLE001 - one by one it turns out which
                text = "\n".join(filter(None, map(self._one, lines)))
            if text:
                try:
                    self._write(text, run)
                except Exception as error:  # noqa: BLE001 - watching must not fail what it watches
                    self._failed(error)

    def _text_of(self, lines: list[Any]) -> str:
        """The lines, made by one ``%``: this is a third of the time it takes one by one."""
        formats: list[str] = []
        values: list[Any] = []
        stamps = self._stamps
        for line in lines:
            if type(line) is str:
                formats.append("%s")
                values.append(line)
                continue
            formats.append(line[0])
            now = line[1]
            values.append(stamps.text if stamps.begin <= now < stamps.end else stamps.at(now))
            for value in line[2:]:
                values.append(quote(value) if type(value) is str else value)  # noqa: PERF401 - quicker than extend
        return "\n".join(formats) % (*values,)

    def _one(self, line: Held | str) -> str | None:
        """One line, with values that may be none in JSON."""
        if isinstance(line, str):
            return line
        short = self._short
        try:
            template, now, key, *values = line
            values = [dumps(short.plain(value)) if type(value) is str else _shown(value) for value in values]
            text: str = template % (self._stamps.at(now), quote(key) if type(key) is str else key, *values)
        except Exception as error:  # noqa: BLE001
            self._failed(error)
            return None
        if short.cut:
            short.cut = False
            self.truncated += 1
        return text


def _shown(value: Any) -> Any:
    try:
        f"{value}"
    except ValueError as error:  # an integer of thousands of digits
        return quote(f"<not shown: {type(error).__name__}>")
    return value
