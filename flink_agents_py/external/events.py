"""The event by which an agent learns of a call that failed for good."""

from __future__ import annotations

from typing import Any, ClassVar

from flink_agents_py.events import Event, fill
from flink_agents_py.external.records import FailedAction


class ActionFailedEvent(Event):
    """An external action was given up; sent to the agent whose call it was, if an action of it listens.

    It comes when the action that made the call has finished. Choose another way, ask a model, or declare failure: the
    dead letter has been written already. Answering with the same call again is a circle nothing but its success ends.
    """

    EVENT_TYPE: ClassVar[str] = "_action_failed_event"

    def __init__(self, failed: FailedAction) -> None:
        fill(self, "_action_failed_event", {"failed": failed.to_plain()})

    @property
    def failed(self) -> FailedAction:
        """The dead letter."""
        document: dict[str, Any] = self.attributes["failed"]
        return FailedAction.from_plain(document)
