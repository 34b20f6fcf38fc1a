"""What a new plan means for a savepoint of an old one: for runs that were interrupted, and for the state beside them.

Run where the new code is: whether the functions of the old plan are still there is found out by importing them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from flink_agents_py.config import AgentOptions
from flink_agents_py.plan.importing import resolve
from flink_agents_py.plan.providers import DescribedResource

if TYPE_CHECKING:
    from flink_agents_py.plan.action import PlanAction
    from flink_agents_py.plan.plan import AgentPlan
    from flink_agents_py.plan.providers import PlainResource

Effect = Literal["later runs", "all runs", "policy", "lost"]
"""``later runs``: interrupted runs go on as they began. ``all runs``: it holds for interrupted ones too. ``policy``: an
interrupted run that comes to it is for ``plan.on-missing-action`` to decide. ``lost``: the state is not found."""


@dataclass(frozen=True)
class Change:
    """One difference.

    Args:
        kind: of thing: ``agent``, ``action``, ``resource`` or ``external action``.
        what: ``added``, ``removed``, ``renamed``, ``moved``, or what of it has changed.
    """

    kind: str
    name: str
    what: str
    effect: Effect
    text: str


@dataclass
class PlanDiff:
    """All differences of two plans."""

    old: str
    new: str
    policy: str
    changes: list[Change] = field(default_factory=list)

    @property
    def survives(self) -> bool:
        """Whether every run that may have been interrupted goes on, whatever it was at."""
        return all(change.effect in ("later runs", "all runs") for change in self.changes)

    def to_plain(self) -> dict[str, Any]:
        """As ``flink-agents-py plan diff --json`` writes it."""
        return {
            "old": self.old,
            "new": self.new,
            "survives": self.survives,
            "on_missing_action": self.policy,
            "changes": [asdict(change) for change in self.changes],
        }


def diff(old: AgentPlan, new: AgentPlan) -> PlanDiff:
    """Compare two plans; imports the functions of the old one, as far as they are here."""
    found = PlanDiff(old.digest, new.digest, new.config.get(AgentOptions.PLAN_ON_MISSING_ACTION))
    if old.agent_name != new.agent_name:
        found.changes.append(
            Change(
                "agent",
                new.agent_name,
                "renamed",
                "lost",
                f"the agent was called {old.agent_name!r}: its operator has another uid, and ids are made of the name. "
                f"Apply it with agent_name={old.agent_name!r}",
            )
        )
    found.changes += _actions(old, new)
    found.changes += _resources(old, new)
    found.changes += _external(old, new)
    found.changes += _agents(old, new)
    return found


def _agents(old: AgentPlan, new: AgentPlan) -> list[Change]:
    """Called agents run inside of the actions that call them: what they need is needed as those need their function."""
    changes = []
    for name, agent in old.agents.items():
        inside = [] if name not in new.agents else diff(agent, new.agents[name]).changes
        problems = [problem for action in agent.actions.values() if (problem := _problem(action))]
        if problems and (inside or name not in new.agents):
            changes.append(Change("agent", name, "functions", "policy", f"gone: {problems[0]}"))
        elif name not in new.agents:
            changes.append(Change("agent", name, "removed", "later runs", "interrupted runs still find its functions"))
        elif inside:
            what = ", ".join(dict.fromkeys(f"{change.kind} {change.name} {change.what}" for change in inside))
            changes.append(Change("agent", name, "changed", "later runs", what))
    added = [name for name in new.agents if name not in old.agents]
    return changes + [Change("agent", name, "added", "later runs", "") for name in added]


# --- actions --------------------------------------------------------------------------------------------------------


def _actions(old: AgentPlan, new: AgentPlan) -> list[Change]:
    changes = []
    for name, action in old.actions.items():
        successor = new.actions.get(name) or new.renamed.get(name)
        problem = _problem(action)
        if successor is None:
            changes.append(_removed(name, problem))
        elif successor.name != name:
            changes.append(_renamed(name, successor.name, problem))
        else:
            changes += _changed(action, successor, problem)
    for name, action in new.actions.items():
        if name not in old.actions and not set(action.aliases).intersection(old.actions):
            changes.append(_action(name, "added", "later runs", "runs that were interrupted do not see it"))
    return changes


def _action(name: str, what: str, effect: Effect, text: str) -> Change:
    return Change("action", name, what, effect, text)


def _removed(name: str, problem: str) -> Change:
    if problem:
        return _action(name, "removed", "policy", f"its function is gone too ({problem})")
    return _action(name, "removed", "later runs", "interrupted runs still find its function")


def _renamed(old: str, new: str, problem: str) -> Change:
    how = "its function is gone, interrupted runs" if problem else "interrupted runs find its old function, or"
    return _action(new, "renamed", "all runs" if problem else "later runs", f"was {old}; {how} go on in {new}")


def _changed(old: PlanAction, new: PlanAction, problem: str) -> list[Change]:
    changes = []
    name = new.name
    if old.exec != new.exec:
        place = f"{old.exec.module}:{old.exec.qualname} -> {new.exec.module}:{new.exec.qualname}"
        if problem:
            text = f"{place}; the old one is gone, interrupted runs go on in the new one"
            changes.append(_action(name, "moved", "all runs", text))
        else:
            changes.append(_action(name, "moved", "later runs", f"{place}; interrupted runs keep the old one"))
    elif problem:
        changes.append(_action(name, "function", "policy", f"it cannot be loaded here: {problem}"))
    for what in ("trigger_conditions", "encoded_config", "on_error", "retry", "timeouts"):
        before, after = getattr(old, what), getattr(new, what)
        if before != after:
            label = {"trigger_conditions": "triggers", "encoded_config": "config"}.get(what, what)
            changes.append(_action(name, label, "later runs", f"{before} -> {after}"))
    return changes


def _problem(action: PlanAction) -> str:
    """Why the function of an action is not here; ``""`` if it is."""
    try:
        _ = action.callable
    except Exception as error:  # noqa: BLE001 - importing anybody's module
        return str(getattr(error, "what", error))
    return ""


# --- resources and external actions ---------------------------------------------------------------------------------


def _resources(old: AgentPlan, new: AgentPlan) -> list[Change]:
    before = {
        (kind.value, name): each for kind, named in old.resource_providers.items() for name, each in named.items()
    }
    after = {(kind.value, name): each for kind, named in new.resource_providers.items() for name, each in named.items()}
    changes = []
    for key in [*before, *(key for key in after if key not in before)]:
        kind, name = key
        label = f"{kind} {name}"
        if key not in before:
            changes.append(Change("resource", label, "added", "later runs", "interrupted runs do not see it"))
            continue
        if key in after and before[key].model_dump(mode="json") == after[key].model_dump(mode="json"):
            continue
        what = "changed" if key in after else "removed"
        problem = _class_problem(before[key])
        if problem:
            text = f"interrupted runs need it as it was, and {problem}"
            changes.append(Change("resource", label, what, "policy", text))
        else:
            part = _part(before[key], after[key]) if key in after else ""
            changes.append(Change("resource", label, what, "later runs", f"{part}interrupted runs have it as it was"))
    return changes


def _class_problem(provider: DescribedResource | PlainResource) -> str:
    place = (
        (provider.descriptor.target_module, provider.descriptor.target_clazz)
        if isinstance(provider, DescribedResource)
        else (provider.module, provider.clazz)
    )
    try:
        resolve(*place, what=provider.label)
    except Exception as error:  # noqa: BLE001 - importing anybody's module
        return str(getattr(error, "what", error))
    return ""


def _part(before: DescribedResource | PlainResource, after: DescribedResource | PlainResource) -> str:
    """What of a tool's schema has changed, in words: the part of a resource that models and their answers depend on."""
    schemas = [_parameters(provider) for provider in (before, after)]
    if schemas[0] == schemas[1]:
        return ""
    names = [set(schema.get("properties", {})) for schema in schemas]
    parts = [
        f"{word} {', '.join(sorted(which))}"
        for word, which in (("new", names[1] - names[0]), ("without", names[0] - names[1]))
        if which
    ]
    return f"schema: {'; '.join(parts) or 'other types'}; "


def _parameters(provider: DescribedResource | PlainResource) -> dict[str, Any]:
    serialized = {} if isinstance(provider, DescribedResource) else provider.serialized
    metadata = serialized.get("metadata") or {}
    parameters: dict[str, Any] = metadata.get("parameters") or {}
    return parameters


def _external(old: AgentPlan, new: AgentPlan) -> list[Change]:
    """External actions belong to the job, not to a run: what changes, changes for all."""
    before = {} if old.external is None else old.external.meaning()["actions"]
    after = {} if new.external is None else new.external.meaning()["actions"]
    changes = []
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after:
            text = "calls that were in flight end as UNKNOWN_ACTION"
            changes.append(Change("external action", name, "removed", "all runs", text))
        elif name not in before:
            changes.append(Change("external action", name, "added", "all runs", ""))
        elif before[name] != after[name]:
            parts = [
                part
                for part in after[name]["spec"] | before[name]["spec"]
                if _spec(before, name, part) != _spec(after, name, part)
            ]
            text = f"{', '.join(parts) or 'handler'}; calls that were in flight go on under the new spec"
            changes.append(Change("external action", name, "changed", "all runs", text))
    return changes


def _spec(actions: dict[str, Any], name: str, part: str) -> Any:
    return actions[name]["spec"].get(part)
