"""Times of the event log's lines."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flink_agents_py.engine.ports import Clock


class Stamps:
    """The beginning of a line: the time, and the name of what follows it, ``kind``. For one thread at a time.

    Many lines are of the same millisecond, and most of the same second: what they have in common is made once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms = 0
        self._second = -1
        self.begin = self.end = 0.0
        """The millisecond that :attr:`text` is about, as monotonic seconds."""
        self.text = ""
        self._second_text = ""

    def at(self, monotonic: float) -> str:
        """What a line of that time begins with."""
        if self.begin <= monotonic < self.end:
            return self.text
        ms = int(monotonic * 1000)
        second, rest = divmod(ms + self._offset_ms, 1000)
        if second != self._second:
            # Again each second, as the clock of the machine may be set.
            self._offset_ms = self._clock.now_ms() - int(self._clock.monotonic_s() * 1000)
            second, rest = divmod(ms + self._offset_ms, 1000)
            self._second = second
            self._second_text = datetime.fromtimestamp(second, timezone.utc).strftime(
                '{"timestamp":"%Y-%m-%dT%H:%M:%S.'
            )
        self.begin, self.end = ms / 1000, (ms + 1) / 1000
        self.text = f'{self._second_text}{rest:03d}Z","kind":"'
        return self.text
