"""External actions against ``tests/support/fault_server.py``: a stream of calls, or an agent that makes them."""

from __future__ import annotations

from typing import Any

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from flink_agents_py.external import (
    ActionCall,
    ActionFailedEvent,
    ActionRegistry,
    ActionSession,
    ActionSpec,
    NotExecuted,
)
from tests.flink.programs.sinks import append_to
from tests.flink.programs.sources import numbers


async def post(call: ActionCall, session: ActionSession) -> Any:
    """Do it; the server is told how to fail, and under which version of the spec it is asked."""
    script = call.params.get("script", "ok")
    response = await session.http.post(
        f"/do/{call.action}?script={script}&version={session.spec.version}", json=call.params
    )
    return response.result()


class Careful:
    """The same, and asks after a crash whether it was done."""

    async def handle(self, call: ActionCall, session: ActionSession) -> Any:
        return await post(call, session)

    async def reconcile(self, call: ActionCall, session: ActionSession) -> Any:
        response = await session.http.get(f"/known/{session.idempotency_key}", expected=(404,))
        if response.status == 404:
            raise NotExecuted
        return response.result()


HANDLERS = {"post": post, "careful": Careful}


def registry_of(spec: dict[str, Any]) -> ActionRegistry:
    """``actions``: specs as dictionaries, with ``handler``, a name of :data:`HANDLERS`; ``watch``: a file."""
    registry = ActionRegistry(watch=spec.get("watch"), watch_interval_s=0.2)
    for entry in spec["actions"]:
        about = dict(entry)
        handler = HANDLERS[about.pop("handler", "post")]
        registry.register(ActionSpec(**about), handler)
    return registry


class Caller(Agent):
    """Makes the call it is given, and by its event asks for ``instead`` when it fails."""

    @action(InputEvent)
    @staticmethod
    async def make(event: InputEvent, ctx: RunnerContext) -> None:
        call = ActionCall.from_plain(event.input)
        result = await ctx.call(call.action, call.params, trace_id=call.trace_id)
        ctx.send_event(OutputEvent({"trace_id": call.trace_id, "code": result.code, "what": "call"}))

    @action(ActionFailedEvent)
    @staticmethod
    async def find_another_way(event: ActionFailedEvent, ctx: RunnerContext) -> None:
        failed = event.failed
        if failed.call.action != "instead":
            result = await ctx.call("instead", {}, trace_id=failed.call.trace_id)
            ctx.send_event(OutputEvent({"trace_id": failed.call.trace_id, "code": result.code, "what": "instead"}))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: calls, actions, watch, per_second, forever; results, dead_letters, outputs (files); agent, config."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    for key, value in spec.get("config", {}).items():
        agents.get_config().set(key, value)
    calls = spec["calls"]
    stream = (
        numbers(env, len(calls), 1, spec.get("per_second", 0), forever=spec.get("forever", False))
        .map(lambda row: calls[row[1]], Types.PICKLED_BYTE_ARRAY())
        .set_parallelism(1)
        .uid("calls")
    )
    registry = registry_of(spec)
    builder = agents.from_datastream(stream, lambda call: str(call.get("trace_id")), Types.STRING(), event_time=False)
    if spec.get("agent"):
        applied = builder.apply(Caller().add_action_registry(registry))
        append_to(applied.to_datastream(), spec["outputs"], "outputs")
        append_to(applied.side_output("action-results"), spec["results"], "results")
        append_to(applied.side_output("dead-letters"), spec["dead_letters"], "dead-letters")
        return
    streams = builder.execute_actions(registry)
    append_to(streams.results, spec["results"], "results")
    append_to(streams.dead_letters, spec["dead_letters"], "dead-letters")
