"""The built-in actions of a plan: those that work on resources it declares."""

from __future__ import annotations

from collections.abc import Collection

from flink_agents_py.builtin.actions import BUILT_IN_ACTIONS
from flink_agents_py.config import AgentConfiguration, AgentOptions
from flink_agents_py.plan.action import PlanAction
from flink_agents_py.plan.functions import PythonFunction
from flink_agents_py.plan.resources import Providers
from flink_agents_py.policies import OnError

_FATES: dict[str | None, OnError] = {"ignore": "skip", "dead_letter": "dead_letter"}


def built_in_actions(
    providers: Providers, taken: Collection[str], config: AgentConfiguration | None, *, calls_agents: bool = False
) -> list[PlanAction]:
    """The actions that join; an action of the agent's own that has such a name stands in for it.

    Args:
        taken: names of the agent's own actions.
        calls_agents: whether other agents were added to the agent.
    """
    strategy = None if config is None else config.get(AgentOptions.ERROR_HANDLING_STRATEGY)
    declared = {kind for kind, named in providers.items() if named}
    return [
        PlanAction(
            name=built_in.name,
            exec=PythonFunction.from_callable(built_in.function),
            trigger_conditions=list(built_in.triggers),
            on_error=_FATES.get(strategy, "fail") if built_in.handles_errors else "fail",
        )
        for built_in in BUILT_IN_ACTIONS
        if built_in.name not in taken
        and (calls_agents if built_in.calls_agents else not built_in.needs.isdisjoint(declared))
    ]
