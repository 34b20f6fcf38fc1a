"""What a failed action leaves behind under ``on_error="dead_letter"``."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from flink_agents_py.serde import to_plain

if TYPE_CHECKING:
    from flink_agents_py.engine.task import ActionTask


def dead_letter(agent: str, task: ActionTask, error: BaseException) -> dict[str, Any]:
    """A JSON-like account of the failure: who, where, why, and the event to replay."""
    return {
        "agent": agent,
        "action": task.route.name,
        "key": to_plain(task.run.key),
        "sequence": task.run.sequence,
        "timestamp": task.run.timestamp,
        "event": {
            "id": str(task.event.id),
            "type": task.event.type,
            "attributes": to_plain(task.event.all_attributes()),
        },
        "error": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": str(error),
        "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
    }
