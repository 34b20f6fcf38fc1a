"""What makes ids and stored records those of one job and one agent of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flink_agents_py.config import AgentOptions
from flink_agents_py.errors import ConfigError

if TYPE_CHECKING:
    from flink_agents_py.plan.plan import AgentPlan


def job_identity(plan: AgentPlan) -> str:
    """What makes ids and stored records those of this job and this agent of it (S4, S7, S9).

    Stable over restarts and upgrades, as long as the agent keeps its name and the job its ``job-identifier``.

    Raises:
        ConfigError: there is an action state store and no ``job-identifier``: two jobs with an agent of one name would
            take each other's records for their own.
    """
    job = plan.config.get(AgentOptions.JOB_IDENTIFIER)
    backend = plan.config.get(AgentOptions.ACTION_STATE_STORE_BACKEND)
    if job is None and backend != "none":
        raise ConfigError(
            f"action-state-store.backend is {backend!r}, but job-identifier is not set",
            where=f"agent {plan.agent_name}",
            fix="set job-identifier to a name that only this job has in the store, and keep it over upgrades",
        )
    return plan.agent_name if job is None else f"{job}/{plan.agent_name}"
