"""Where new versions of a plan come from while a job runs, and what is asked of them before they are in force."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flink_agents_py.errors import AgentDefinitionError
from flink_agents_py.external.filewatch import FileWatch
from flink_agents_py.plan.importing import resolve
from flink_agents_py.plan.plan import AgentPlan
from flink_agents_py.plan.providers import DescribedResource
from flink_agents_py.plan.references import check_references
from flink_agents_py.plan.resources import label

if TYPE_CHECKING:
    from flink_agents_py.config import AgentConfiguration


@dataclass(frozen=True)
class PlanFile:
    """A file of plan JSON that is watched while the job runs: ``builder.apply(agent, updates=PlanFile("plan.json"))``.

    ``AgentPlan.to_json`` and ``flink-agents-py plan show --format json`` write such files. Replace the file as a whole
    (write another one, rename it): a part of one is refused.

    Args:
        path: at the same place on every machine; each subtask reads it when inputs come.
        interval_s: between two looks at it.
        trust_pickled: whether whoever can write the file may run code in the job: load functions that are pickled in
            it. Functions that are found by name need no such trust.
    """

    path: str | Path
    interval_s: float = 1.0
    trust_pickled: bool = False

    def watch(self) -> FileWatch:
        """Begin to look at it."""
        return FileWatch(str(Path(self.path).absolute()), self.interval_s, "plans")


def plan_file(updates: PlanFile | str | Path | None) -> PlanFile | None:
    """What ``apply(..., updates=...)`` was given, where it is a file."""
    return PlanFile(updates) if isinstance(updates, (str, Path)) else updates


def read_update(text: str, current: AgentPlan, config: AgentConfiguration, *, trust_pickled: bool) -> AgentPlan:
    """A new version of ``current``, checked as far as that is possible before a run begins under it.

    Args:
        config: the job's. That in the plan is not used: what the engine was opened with cannot change while it runs.

    Raises:
        FlinkAgentsError: it is malformed, of another agent, names code or resources that are not here, or changes what
            belongs to the job.
    """
    plan = AgentPlan.from_json(text, trust_pickled, config=config)
    if plan.agent_name != current.agent_name:
        raise AgentDefinitionError(
            f"the plan is one of agent {plan.agent_name!r}",
            where=f"update of agent {current.agent_name!r}",
            fix="compile it under the same name: AgentPlan.from_agent(agent, agent_name=...)",
        )
    meanings = [None if each.external is None else each.external.meaning() for each in (plan, current)]
    if meanings[0] != meanings[1]:
        raise AgentDefinitionError(
            "the plan has other external actions than the job",
            where=f"update of agent {current.agent_name!r}",
            fix="external actions are changed by their own file, ActionRegistry(watch=...), or with a restart",
        )
    _check_here(plan)
    return plan


def _check_here(plan: AgentPlan) -> None:
    """Whether what the plan, and those of the agents it calls, consist of is here."""
    check_references(
        plan.resource_providers,
        {(kind, name): label((kind, name)) for kind, named in plan.resource_providers.items() for name in named},
    )
    for action in plan.actions.values():
        _ = action.callable, action.event_classes, action.config
    for kind, named in plan.resource_providers.items():
        for name, provider in named.items():
            if isinstance(provider, DescribedResource):
                resolve(provider.descriptor.target_module, provider.descriptor.target_clazz, what=provider.label)
            else:
                plan.get_resource(name, kind)  # plain data, read back
    for agent in plan.agents.values():
        _check_here(agent)
