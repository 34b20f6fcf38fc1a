"""Events that call another agent, and bring what it has answered."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from pydantic import Field

from flink_agents_py.events import Event


class AgentRequestEvent(Event):
    """Calls an agent that was added with ``agent.add_agent(name, ...)``; its answer is an :class:`AgentResponseEvent`.

    Several requests of one action are worked on at the same time.

    Args:
        agent: its name.
        input: what it gets as ``InputEvent``.
    """

    EVENT_TYPE: ClassVar[str] = "_agent_request_event"

    agent: str
    input: Any = None


class AgentResponseEvent(Event):
    """What a called agent has answered.

    Args:
        request_id: id of the request.
        agent: its name.
        outputs: values of its ``OutputEvent``, in order.
    """

    EVENT_TYPE: ClassVar[str] = "_agent_response_event"

    request_id: UUID
    agent: str
    outputs: list[Any] = Field(default_factory=list)
