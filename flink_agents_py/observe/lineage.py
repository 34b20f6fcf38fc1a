"""Where events stand in their run, and what lines of the event log say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flink_agents_py.serde.text import quote

if TYPE_CHECKING:
    from flink_agents_py.engine.task import ActionTask
    from flink_agents_py.events import Event


def path_of(event: Event) -> str:
    """Where an event stands in its run; its id in hexadecimal, if it came back from state."""
    values = event.__dict__
    path: str | None = values.get("_path")
    if path is None:
        origin = values.get("_origin")
        if origin is None:
            path = event.id_bytes.hex()
        else:
            parent, action, ordinal = origin
            path = f"{path_of(parent)}/{quote(action)[1:-1]}.{ordinal}" if action else str(ordinal)
        values["_path"] = path
    return path


def lineage_of(upstream: str, action: str, ordinal: int) -> tuple[str, str]:
    """Path of an event, and the path and what lines say of its origin."""
    if not action:
        return str(ordinal), f'{ordinal}"'
    name = quote(action)
    path = f"{upstream}/{name[1:-1]}.{ordinal}"
    return path, f'{path}","upstreamEventId":"{upstream}","upstreamActionName":{name}'


def recorded_lineage(event: Event) -> str:
    """What lines say of an event that came back from state, where its origin is no more than ids."""
    upstream, action = event.upstream_event_id, event.upstream_action_name
    own = event.id_bytes.hex()
    if upstream is None or action is None:
        return f'{own}"'
    return f'{own}","upstreamEventId":"{upstream.hex}","upstreamActionName":{quote(action)}'


def place_of(task: ActionTask) -> str:
    """What lines say of where something happened in a run: the action, and the event it handles."""
    event = task.event
    return f',"actionName":{quote(task.route.name)},"eventId":"{path_of(event)}","eventType":{quote(event.type)}'
