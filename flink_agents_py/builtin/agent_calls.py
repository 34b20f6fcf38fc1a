"""The action behind :class:`AgentRequestEvent`: calls another agent of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flink_agents_py.agent_events import AgentRequestEvent, AgentResponseEvent

if TYPE_CHECKING:
    from flink_agents_py.context import RunnerContext


async def agent_call_action(event: AgentRequestEvent, ctx: RunnerContext) -> None:
    """Call the agent and send what it answers; what it raises is raised here."""
    outputs = await ctx.call_agent(event.agent, event.input)
    ctx.send_event(AgentResponseEvent(request_id=event.id, agent=event.agent, outputs=outputs))
