"""Agent -> AgentPlan. All mistakes are looked for; the first is raised and tells of the others."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from flink_agents_py.agent import Agent
from flink_agents_py.config import AgentConfiguration
from flink_agents_py.errors import AgentDefinitionError, FlinkAgentsError, SignatureError
from flink_agents_py.events import Event
from flink_agents_py.plan.action import PlanAction
from flink_agents_py.plan.agents import missing_agents
from flink_agents_py.plan.built_in import built_in_actions
from flink_agents_py.plan.conditions import Condition, read_condition
from flink_agents_py.plan.external import ExternalActionsDocument
from flink_agents_py.plan.functions import Entry, PickledCode, PlanCode, PythonFunction, not_picklable
from flink_agents_py.plan.members import (
    DeclaredAction,
    DeclaredResource,
    declared_actions,
    declared_resources,
    given,
)
from flink_agents_py.plan.providers import DescribedResource, provider_of, refuse_literal_secrets
from flink_agents_py.plan.references import check_references
from flink_agents_py.plan.resources import Id, Providers
from flink_agents_py.plan.signature import EventHint, check_signature, event_hint
from flink_agents_py.plan.triggers import triggers_of
from flink_agents_py.plan.values import to_document
from flink_agents_py.resources.base import ResourceDescriptor, ResourceType, SerializableResource

if TYPE_CHECKING:
    from flink_agents_py.external.registry import ActionRegistry
    from flink_agents_py.plan.plan import AgentPlan

_log = logging.getLogger(__name__)

SharedResources = Mapping[ResourceType, Mapping[str, ResourceDescriptor | SerializableResource]]


def compile_agent(
    agent: Agent,
    config: AgentConfiguration | None = None,
    agent_name: str | None = None,
    shared_resources: SharedResources | None = None,
    shared_registries: Iterable[ActionRegistry] = (),
    *,
    callers: tuple[Agent, ...] = (),
) -> AgentPlan:
    """Compile ``agent``, which is only read.

    Args:
        config: the agent's configuration, carried by the plan.
        agent_name: default is the name of the agent's class.
        shared_resources: resources of the environment; the agent's own win over one of the same type and name.
        shared_registries: external actions of the environment, beside the agent's own.
        callers: the agents that this one is called by.

    Raises:
        AgentDefinitionError: (or a subclass) the first mistake found; its ``fix`` lists the others.
    """
    from flink_agents_py.plan.plan import AgentPlan  # AgentPlan.from_agent comes here

    if not isinstance(agent, Agent):
        made = f"; write {agent.__name__}()" if isinstance(agent, type) else ""
        raise AgentDefinitionError(f"{agent!r} is not an Agent", fix=f"pass an instance of a subclass of Agent{made}")
    name = type(agent).__name__ if agent_name is None else agent_name
    if not name.strip():
        raise AgentDefinitionError("the agent's name is blank", fix="leave agent_name out, or give it a name")
    errors: list[FlinkAgentsError] = []
    actions = _actions(declared_actions(agent, errors.append), errors)
    providers = _providers(declared_resources(agent, errors.append), shared_resources or {}, errors, config)
    agents: dict[str, AgentPlan] = {}
    for called, other in agent.agents.items():
        try:
            agents[called] = _called(called, other, (*callers, agent), config, shared_resources, shared_registries)
        except FlinkAgentsError as error:
            errors.append(error)
    errors += missing_agents(providers, agents)
    external: ExternalActionsDocument | None = None
    try:
        known = _registries(agent) if len(agents) == len(agent.agents) else agent.action_registries
        external = ExternalActionsDocument.of([*shared_registries, *known])
    except FlinkAgentsError as error:
        errors.append(error)
    _raise(errors)
    code = PlanCode(_pickle(actions), name)
    own = [action for action, _ in actions]
    for action in own:
        action.exec.attach(code)
    return AgentPlan(
        agent_name=name,
        actions=own + built_in_actions(providers, {action.name for action in own}, config, calls_agents=bool(agents)),
        resource_providers=providers,
        config=config,
        code=code,
        external=external,
        agents=agents,
    )


def _called(
    name: str,
    agent: Agent,
    callers: tuple[Agent, ...],
    config: AgentConfiguration | None,
    shared_resources: SharedResources | None,
    shared_registries: Iterable[ActionRegistry],
) -> AgentPlan:
    if any(agent is caller for caller in callers):
        raise AgentDefinitionError(
            f"agent {name!r} would call itself",
            where=f"{type(callers[-1]).__qualname__}.add_agent({name!r})",
            fix="let it send an event to itself instead, or add another object of its class",
        )
    return compile_agent(agent, config, name, shared_resources, shared_registries, callers=callers)


def _registries(agent: Agent) -> list[ActionRegistry]:
    """Those of an agent and of the agents it calls: the engine has one set of external actions."""
    return [*agent.action_registries, *(each for called in agent.agents.values() for each in _registries(called))]


def _raise(errors: list[FlinkAgentsError]) -> None:
    if not errors:
        return
    first, *others = errors
    fix = first.fix or ""
    for other in others:
        fix += f"\n  also: [{other.code}] {other.what} ({other.where})"
    error = type(first)(first.what, where=first.where, fix=fix)
    raise error from first.__cause__


# --- actions --------------------------------------------------------------------------------------------------------

Compiled = tuple[PlanAction, DeclaredAction]


def _actions(declared: list[DeclaredAction], errors: list[FlinkAgentsError]) -> list[Compiled]:
    compiled = []
    for item in declared:
        try:
            compiled.append((_action(item), item))
        except FlinkAgentsError as error:
            errors.append(error)
    return compiled


def _action(item: DeclaredAction) -> PlanAction:
    if not item.name.strip():
        raise AgentDefinitionError("the action's name is blank", where=item.where, fix="give it a name")
    check_signature(item.function, item.where)
    triggers = list(item.marker.triggers)
    entries = triggers_of(triggers, item.where)
    conditions = [read_condition(source, item.where) for source in entries.expressions]
    for condition in conditions:
        condition.program(item.where)  # its mistakes are shown here, not on a worker
    event_types = [*entries.event_types, *_types_in(conditions)]
    hint = _hint(item, event_types)
    if all(condition.event_types is not None for condition in conditions):
        _check_event_fits(hint, event_types, item.where)
    action = PlanAction(
        name=item.name,
        exec=item.reference or PythonFunction.by_value(item.function, pickled_as=item.name),
        trigger_conditions=triggers,
        config=to_document(item.marker.config, f"config of {item.where}"),
        on_error=item.marker.on_error,
        retry=item.marker.retry,
        timeouts=item.marker.timeouts,
        aliases=list(item.marker.aliases),
    )
    action.remember(item.function, hint)
    return action


def _types_in(conditions: list[Condition]) -> list[str]:
    return [event_type for condition in conditions for event_type in condition.event_types or ()]


def _hint(item: DeclaredAction, event_types: list[str]) -> EventHint:
    # Only what travels by value may be looked up among all classes here: the class then travels with it. A function
    # that is imported on the worker has to find its class there by itself, or both sides would disagree.
    nearby = [cls for cls in _subclasses(Event) if cls.EVENT_TYPE in event_types] if item.reference is None else []
    hint = event_hint(item.function, owner=item.owner, nearby=nearby)
    if hint.unresolved is not None:
        _log.warning(
            "%s: the annotation %r cannot be evaluated, so its event is delivered as it was sent; "
            "import the class at run time, not only under TYPE_CHECKING",
            item.where,
            hint.unresolved,
        )
    return hint


def _check_event_fits(hint: EventHint, event_types: list[str], where: str) -> None:
    if hint.anything:
        return
    for cls in hint.classes:
        types = {cls.EVENT_TYPE, *(sub.EVENT_TYPE for sub in _subclasses(cls))}
        if types.intersection(event_types):
            return
    names = ", ".join(f"{cls.__qualname__} (type {cls.EVENT_TYPE!r})" for cls in hint.classes)
    raise SignatureError(
        f"the event parameter is annotated {names}, but the action is triggered by {', '.join(map(repr, event_types))}",
        where=where,
        fix=f"trigger on the class, @action({hint.classes[0].__name__}), or annotate the parameter as Event",
    )


def _subclasses(cls: type[Event]) -> list[type[Event]]:
    return [found for direct in cls.__subclasses__() for found in (direct, *_subclasses(direct))]


def _pickle(compiled: list[Compiled]) -> PickledCode | None:
    """All by-value functions in one pickle, so that they share classes, globals and the agent object."""
    entries: dict[str, Entry] = {
        action.name: (item.function, action.event_classes, action.event_class is None)
        for action, item in compiled
        if action.exec.is_by_value
    }
    if not entries:
        return None
    try:
        return PickledCode.of(entries)
    except Exception as error:  # noqa: BLE001 - a user's __reduce__ may raise anything
        culprit, cause = _culprit(entries, error)
        wheres = {action.name: item.where for action, item in compiled}
        raise not_picklable(cause, where=wheres.get(culprit, culprit)) from cause


def _culprit(entries: dict[str, Entry], error: Exception) -> tuple[str, Exception]:
    for name, entry in entries.items():
        try:
            PickledCode.of(entry)
        except Exception as own:  # noqa: BLE001 - (the same)
            return name, own
    return ", ".join(entries), error


# --- resources ------------------------------------------------------------------------------------------------------


def _place_of(name: str, shared: Any) -> str:
    return getattr(shared, "place", None) or f"environment.add_resource({name!r})"


def _providers(
    declared: list[DeclaredResource],
    shared: SharedResources,
    errors: list[FlinkAgentsError],
    config: AgentConfiguration | None,
) -> Providers:
    own = {(item.type, item.name) for item in declared}
    everything = [
        DeclaredResource(name, kind, given(instance), _place_of(name, instance))
        for kind, named in shared.items()
        for name, instance in named.items()
        if (kind, name) not in own
    ] + declared
    providers: Providers = {}
    places: dict[Id, str] = {}
    count = len(errors)
    for item in everything:
        try:
            provider = provider_of(item.name, item.type, item.make(), item.where)
            if isinstance(provider, DescribedResource) and config is not None:
                refuse_literal_secrets(provider, config.conf_data)
        except FlinkAgentsError as error:
            errors.append(error)
            continue
        providers.setdefault(item.type, {})[item.name] = provider
        places[item.type, item.name] = item.where
    if len(errors) == count:  # else a reference to a wrong resource would be reported as unknown
        try:
            check_references(providers, places)
        except FlinkAgentsError as error:
            errors.append(error)
    return providers
