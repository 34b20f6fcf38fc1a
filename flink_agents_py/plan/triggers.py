"""What the entries of ``trigger_conditions`` mean: each names one event type."""

from __future__ import annotations

import re

from flink_agents_py.errors import TriggerError

# The spellings in which flink-agents' condition expressions (CEL) differ from a type name. This version runs none, and
# a condition taken for a type name would never fire without a word.
_EXPRESSION = re.compile(r"==|!=|<=|>=|&&|\|\||\(|\)|\s[<>]\s|\sin\s|^!|^EventType\.|^(?:true|false|null)$")
_QUOTED = re.compile(r"(['\"])([^\s'\"\\]+)\1")


def event_type_of(trigger: str, where: str) -> str:
    """The event type a trigger entry names; a name in quotes may contain any character.

    Raises:
        TriggerError: the entry is blank, or is a condition expression.
    """
    entry = trigger.strip()
    if not entry:
        raise TriggerError("a trigger is blank", where=where, fix="name an event type, e.g. EventType.InputEvent")
    quoted = _QUOTED.fullmatch(entry)
    if quoted is not None:
        return quoted.group(2)
    if _EXPRESSION.search(entry):
        raise TriggerError(
            f"trigger {entry!r} is a condition expression; only event types are supported",
            where=where,
            fix="trigger on the event type and test the condition at the top of the action",
        )
    return entry


def event_types_of(triggers: list[str], where: str) -> list[str]:
    """Event types of all entries, each once, in order.

    Raises:
        TriggerError: there is no entry, or one is wrong.
    """
    if not triggers:
        raise TriggerError(
            "the action has no trigger, so it would never run",
            where=where,
            fix="name at least one event type: @action(EventType.InputEvent)",
        )
    return list(dict.fromkeys(event_type_of(trigger, where) for trigger in triggers))
