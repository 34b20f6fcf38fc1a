"""What a failed action leaves behind under ``on_error="dead_letter"``."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from flink_agents_py.engine.tracebacks import in_words
from flink_agents_py.errors import ActionFailedError, EncodeError, FlinkAgentsError
from flink_agents_py.serde import to_plain

if TYPE_CHECKING:
    from flink_agents_py.engine.task import ActionTask


def dead_letter(agent: str, task: ActionTask, error: BaseException) -> dict[str, Any]:
    """A JSON-like account of the failure: who, where, why, and the event to replay."""
    return {
        "agent": agent,
        "action": task.route.name,
        "key": _plain(task.run.key),
        "sequence": task.run.sequence,
        "plan_version": task.plan_version,
        "timestamp": task.run.timestamp,
        "event": {
            "id": str(task.event.id),
            "type": task.event.type,
            "attributes": {name: _plain(value) for name, value in task.event.all_attributes().items()},
        },
        "error": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": message_of(error),
        "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
    }


def failure_of(task: ActionTask, error: BaseException) -> ActionFailedError:
    """What ends the job under ``on_error="fail"``: one message with one place and one next step."""
    place, what = task.place(), message_of(error)
    fix = 'fix the action, or declare on_error="dead_letter" or "skip" to keep the job running'
    if isinstance(error, FlinkAgentsError):
        what = f"[{error.code}] {error.what}"
        if error.where and error.where != place:
            place = f"{error.where}; {place}"
        fix = error.fix or fix
    return ActionFailedError(
        f"action {task.route.name} failed: {type(error).__name__}: {what}", where=f"{place}{in_words(error)}", fix=fix
    )


def message_of(error: BaseException) -> str:
    """``str(error)``, whatever the class makes of it: reporting a failure must not fail."""
    try:
        return str(error)
    except Exception as problem:  # noqa: BLE001 - a __str__ of the user's may raise anything
        return f"<no message: its __str__ raised {type(problem).__name__}>"


def _plain(value: Any) -> Any:
    try:
        return to_plain(value)
    except EncodeError as error:
        return f"<{type(value).__name__} without encoding: {error.what}>"
