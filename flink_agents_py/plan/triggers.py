"""What the entries of ``trigger_conditions`` mean: each names an event type, or is a condition expression (CEL)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from flink_agents_py.errors import TriggerError

# What no name of an event type has in it, and every expression that gives true or false has: operators, brackets,
# quotes, a call, blanks around a dot. Names with other characters have to be in quotes.
_EXPRESSION = re.compile(
    r"==|!=|<|>|&&|\|\||[()\[\]{}?!,'\"]|\sin\s|\s\.|\.\s|^EventType\.|^(?:true|false|null)$|^[\d.]+$"
)
_LOCAL = re.compile(r"<(?:locals|lambda)>")  # in the names of classes that functions define
_QUOTED = re.compile(r"(['\"])([^\s'\"\\]+)\1")


class Triggers(NamedTuple):
    """The entries of one action; any of them triggers it."""

    event_types: list[str]
    expressions: list[str]


def event_type_of(trigger: str, where: str) -> str | None:
    """The event type a trigger entry names, ``None`` if it is an expression; a name in quotes may be any text.

    Raises:
        TriggerError: the entry is blank.
    """
    entry = trigger.strip()
    if not entry:
        raise TriggerError("a trigger is blank", where=where, fix="name an event type, e.g. EventType.InputEvent")
    quoted = _QUOTED.fullmatch(entry)
    if quoted is not None:
        return quoted.group(2)
    return None if _EXPRESSION.search(_LOCAL.sub("", entry)) else entry


def triggers_of(entries: Sequence[str], where: str) -> Triggers:
    """Event types and expressions of all entries, each once, in order.

    Raises:
        TriggerError: there is no entry, or one is blank.
    """
    if not entries:
        raise TriggerError(
            "the action has no trigger, so it would never run",
            where=where,
            fix="name at least one event type: @action(EventType.InputEvent)",
        )
    event_types: dict[str, None] = {}
    expressions: dict[str, None] = {}
    for entry in entries:
        event_type = event_type_of(entry, where)
        if event_type is None:
            expressions[entry.strip()] = None
        else:
            event_types[event_type] = None
    return Triggers(list(event_types), list(expressions))
