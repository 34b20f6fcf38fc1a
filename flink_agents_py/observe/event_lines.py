"""What lines of events have in common: templates for ``%``, by the type of the event and the shape of its value."""

from __future__ import annotations

from typing import Any

from flink_agents_py.observe.levels import NAMES, STANDARD
from flink_agents_py.observe.shorten import Shortener
from flink_agents_py.serde.text import dumps, quote

LEVEL_TEXTS = tuple(f'","logLevel":"{name}"' for name in NAMES)
ID = ',"eventId":"'
ENDED = ',"upstreamAction":{"outcome":"finished","sent":'

QUICK = frozenset({str, int})
"""Types of values that become text when lines are made; others do at once."""

_MOST_KNOWN = 1000
_STR_ONLY = frozenset({str})


class EventKind:
    """Events of one type.

    Args:
        attribute: the one there is in events of the framework's own types; none if there may be any.
        mixed: whether other types have other levels.
    """

    __slots__ = ("_attribute", "_ends", "_short", "end", "head", "level", "names", "names_end", "quick", "tail")

    def __init__(self, event_type: str, level: int, attribute: str, short: Shortener, *, mixed: bool) -> None:
        self.level = level
        self.quick = level == STANDARD and not mixed
        """Whether lines may be made later, and tell the end of the action before."""
        self.head = f"event{LEVEL_TEXTS[level]}"
        """Behind the time of a line."""
        name = f"{quote(attribute)}:" if attribute else ""
        self.tail = f',"eventType":{quote(event_type)},"eventAttributes":{{{name}'
        """Behind the lineage of a line, up to what the event shows."""
        self.end = self._ending("%s")
        """Template of all behind the lineage, for what an event shows as one text."""
        self.names: list[str] = []
        """Of the row that came last."""
        self.names_end = ""
        """:meth:`end_of` them."""
        self._attribute = attribute
        self._short = short
        self._ends: dict[Any, str] = {}

    def shown(self, value: Any, short: Shortener) -> str:
        """What the event shows as JSON: its one attribute, or what is inside the braces around them all.

        Args:
            value: the attribute, or the event.
        """
        return short.text(value, 1) if self._attribute else dumps(short.attributes(value.all_attributes()))[1:-1]

    def end_of(self, names: tuple[Any, ...] | int) -> str:
        """Template of all behind the lineage, for a value that is an object with these names, or a list of so many.

        There is one ``%s`` for each value in it. It is empty where a closer look is needed, and once a thousand are
        known: where names are data, there is always another one.
        """
        known = self._ends.get(names)
        if known is None:
            if len(self._ends) >= _MOST_KNOWN:
                return ""
            known = self._ends[names] = self._make_end(names)
        return known

    def end_of_row(self, names: list[str] | None, count: int) -> str:
        """:meth:`end_of` a row of so many values; rows of the same names come in a row."""
        if not names or len(names) != count:
            return self.end_of(count)
        self.names = names[:]
        self.names_end = self.end_of((*names,))
        return self.names_end

    def _make_end(self, names: tuple[Any, ...] | int) -> str:
        short = self._short
        if isinstance(names, int):
            values = f"[{','.join(['%s'] * names)}]"
        else:
            if not _STR_ONLY.issuperset(map(type, names)) or len(set(names)) < len(names):
                return ""
            fields = {name: short.text(name) for name in names}
            values = f"{{{','.join(text.replace('%', '%%') + ':%s' for text in fields.values())}}}"
        if short.depth < 2 or short.cut:  # noqa: PLR2004 - attributes, and this
            short.cut = False
            return ""
        return self._ending(values)

    def _ending(self, values: str) -> str:
        return f"{self.tail.replace('%', '%%')}{values}}}}}"
