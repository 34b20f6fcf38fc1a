"""The compiled agent: what the engine asks at run time, and its JSON form."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentConfiguration
from flink_agents_py.errors import AgentDefinitionError, DecodeError, DuplicateNameError, PlanFormatError, TriggerError
from flink_agents_py.events import Event
from flink_agents_py.plan.action import PlanAction
from flink_agents_py.plan.built_in import built_in_actions
from flink_agents_py.plan.compile import SharedResources, compile_agent
from flink_agents_py.plan.document import PLAN_VERSION, ConfigDocument, json_schema, parse, read_json
from flink_agents_py.plan.external import ExternalActionsDocument
from flink_agents_py.plan.fingerprint import fingerprint
from flink_agents_py.plan.functions import PlanCode, untrusted
from flink_agents_py.plan.peer import from_peer
from flink_agents_py.plan.providers import PlainResource
from flink_agents_py.plan.resources import Providers, ResourceCache

if TYPE_CHECKING:
    from flink_agents_py.agent import Agent
    from flink_agents_py.external.registry import ActionRegistry
    from flink_agents_py.metrics import MetricGroup
    from flink_agents_py.resources.base import ResourceType

_log = logging.getLogger(__name__)

DIGEST_LENGTH = 12


class AgentPlan:
    """An agent, compiled: which action runs on which event, with which resources and configuration.

    Made by :meth:`from_agent` on the client and by :meth:`from_json` on the workers; not changed after that.

    Args:
        actions: in plan order, which is the order in which actions of one event run.
        code: what the actions' functions share.
        agents: those that this one calls, by name.
        external: the external actions that ``ctx.call`` can call.

    Raises:
        DuplicateNameError: two actions share a name.
        TriggerError: a trigger is blank, or an expression that cannot be one.
    """

    version = PLAN_VERSION

    def __init__(
        self,
        *,
        agent_name: str,
        actions: Iterable[PlanAction],
        resource_providers: Providers | None = None,
        config: AgentConfiguration | None = None,
        code: PlanCode | None = None,
        external: ExternalActionsDocument | None = None,
        agents: Mapping[str, AgentPlan] | None = None,
    ) -> None:
        self.agent_name = agent_name
        self.actions: dict[str, PlanAction] = {}
        self.actions_by_event: dict[str, list[str]] = {}
        self.resource_providers: Providers = resource_providers or {}
        # A copy: what the caller sets later is not part of this plan.
        self.config = AgentConfiguration.from_plain(config.to_plain()) if config is not None else AgentConfiguration()
        self.ignored: tuple[str, ...] = ()
        """Names of actions a foreign plan had and this one has not."""
        self.external = external
        self.agents: dict[str, AgentPlan] = dict(agents or {})
        self._code = code or PlanCode(None, agent_name)
        self._listeners: dict[str, list[PlanAction]] = {}
        self._resources = ResourceCache(self.resource_providers, self.config)
        for action in actions:
            self._add(action)
        self.renamed = self._renamed()
        """Action by each of its earlier names."""

    def _renamed(self) -> dict[str, PlanAction]:
        renamed: dict[str, PlanAction] = {}
        for action in self.actions.values():
            for alias in action.aliases:
                other = self.actions.get(alias) or renamed.get(alias)
                if other is not None:
                    raise DuplicateNameError(
                        f"{alias!r} is an alias of action {action.name!r}, and a name of action {other.name!r}",
                        where=f"plan of agent {self.agent_name!r}",
                        fix="an alias is a name that no action has any more; keep it for one action",
                    )
                renamed[alias] = action
        return renamed

    def _add(self, action: PlanAction) -> None:
        if action.name in self.actions:
            raise DuplicateNameError(
                f"action {action.name!r} occurs twice",
                where=f"plan of agent {self.agent_name!r}",
                fix="give each action of an agent its own name",
            )
        self.actions[action.name] = action
        _ = action.conditions  # reads them: a plan with a wrong one is refused as a whole
        for event_type in action.event_types:
            self.actions_by_event.setdefault(event_type, []).append(action.name)
            self._listeners.setdefault(event_type, []).append(action)

    def _replace_built_in(self, theirs: list[str]) -> None:
        """Ours in place of the built-in actions of another framework, where the plan has resources for them."""
        for action in built_in_actions(self.resource_providers, self.actions, self.config):
            self._add(action)
        self.ignored = tuple(name for name in theirs if name not in self.actions)
        if self.ignored:
            _log.warning("built-in actions of Apache Flink Agents were left out: %s", ", ".join(self.ignored))

    @classmethod
    def from_agent(
        cls,
        agent: Agent,
        config: AgentConfiguration | None = None,
        agent_name: str | None = None,
        *,
        shared_resources: SharedResources | None = None,
        shared_registries: Iterable[ActionRegistry] = (),
    ) -> AgentPlan:
        """Compile an agent; see :func:`~flink_agents_py.plan.compile.compile_agent`."""
        return compile_agent(agent, config, agent_name, shared_resources, shared_registries)

    # --- what the engine asks ---------------------------------------------------------------------------------------

    def get_actions(self, event_type: str) -> list[PlanAction]:
        """Actions that ``event_type`` triggers by itself, in plan order; those with conditions are not among them."""
        return self._listeners.get(event_type, [])

    def expects(self, event_type: str, *, of_any: bool = False) -> bool:
        """Whether an action may listen to events of a type.

        Args:
            of_any: also where only conditions that name no type are there to hold for one.
        """
        heard = [action.heard_types for action in self.actions.values()]
        return (
            event_type in self.actions_by_event
            or any(types is not None and event_type in types for types in heard)
            or (of_any and None in heard)
        )

    @property
    def has_conditions(self) -> bool:
        """Whether an action has a trigger that is an expression."""
        return any(action.conditions for action in self.actions.values())

    def get_action_config(self, action_name: str) -> dict[str, Any]:
        """Configuration given with an action.

        Raises:
            AgentDefinitionError: there is no such action.
        """
        action = self.actions.get(action_name)
        if action is None:
            raise AgentDefinitionError(
                f"there is no action {action_name!r}",
                where=f"plan of agent {self.agent_name!r}",
                fix=f"its actions are: {', '.join(self.actions) or 'none'}",
            )
        return action.config

    def get_action_config_value(self, action_name: str, key: str) -> Any:
        """One value of an action's configuration, ``None`` if it was not given."""
        return self.get_action_config(action_name).get(key)

    def get_resource(self, name: str, type: ResourceType) -> Any:
        """The resource of that name and type: built, with those it depends on, and opened at the first call.

        Raises:
            UnknownResourceError: nobody declared it; the message lists what there is.
            ResourceCycleError: it depends on itself; the message shows the circle.
        """
        return self._resources.get(name, type)

    def add_own_resource(self, name: str, type: ResourceType, clazz: str, **arguments: Any) -> None:
        """Let the framework have a resource that nobody has declared; it is no part of the plan's JSON."""
        self._resources.add_own(name, type, clazz, arguments)

    def count_resources_in(self, metrics: MetricGroup) -> None:
        """Give the resources that are built from now on a metric group each: ``resource.<type>``, ``name.<name>``."""
        self._resources.metrics = metrics
        for agent in self.agents.values():
            agent.count_resources_in(metrics)

    def close(self) -> None:
        """Close the resources that were built, in reverse order; closing twice does nothing.

        Raises:
            Exception: the first a resource raised, after all were closed.
        """
        try:
            self._resources.close()
        finally:
            for agent in self.agents.values():
                agent.close()

    def event_classes(self) -> dict[str, type[Event]]:
        """Event classes the actions are annotated with, by ``module:QualName``, for reading events from state."""
        return {
            f"{cls.__module__}:{cls.__qualname__}": cls
            for action in self.actions.values()
            for cls in action.event_classes
        }

    # --- JSON -------------------------------------------------------------------------------------------------------

    @property
    def pickled_actions(self) -> list[str]:
        """Names of actions whose functions travel by value: loading them needs a trusted plan and the same Python."""
        own = [action.name for action in self.actions.values() if action.exec.is_by_value]
        return own + [f"{name}.{each}" for name, agent in self.agents.items() for each in agent.pickled_actions]

    @cached_property
    def fingerprint(self) -> str:
        """Digest of what the plan means; see :mod:`flink_agents_py.plan.fingerprint`."""
        actions = [action.to_document() for action in self.actions.values()]
        external = None if self.external is None else self.external.meaning()
        agents = {name: agent.fingerprint for name, agent in self.agents.items()}
        return fingerprint(self.agent_name, actions, self._providers_document(), external, agents)

    @property
    def digest(self) -> str:
        """The version of the plan, as runs, logs and outputs say it: the first 12 digits of :attr:`fingerprint`."""
        return self.fingerprint[:DIGEST_LENGTH]

    def to_json(self) -> str:
        """The plan as JSON; a plan read from it writes the same bytes."""
        return json.dumps(self.to_document(), ensure_ascii=False, indent=2)

    def to_document(self, *, with_code: bool = True) -> dict[str, Any]:
        """What :meth:`to_json` writes; without the functions of actions that travel by value, if so asked."""
        document: dict[str, Any] = {
            "plan_version": self.version,
            "agent_name": self.agent_name,
            "fingerprint": self.fingerprint,
            "actions": {name: action.to_document() for name, action in self.actions.items()},
            "actions_by_event": self.actions_by_event,
            "resource_providers": self._providers_document(),
            "config": self.config.to_plain(),
        }
        if self.external is not None:
            document["external"] = self.external.to_document()
        if with_code and self._code.pickled is not None:
            document["pickled_functions"] = self._code.pickled.model_dump()
        if self.agents:
            document["agents"] = {name: agent.to_document(with_code=with_code) for name, agent in self.agents.items()}
        return document

    @classmethod
    def from_json(
        cls, text: str, allow_pickled: bool = False, *, config: AgentConfiguration | None = None
    ) -> AgentPlan:
        """Read a plan of ours, or of Apache Flink Agents; imports none of the agent's code yet.

        Args:
            allow_pickled: whether whoever wrote the plan is trusted to run code here.
            config: instead of the configuration in the plan.

        Raises:
            PlanFormatError: it is malformed, newer than this release, contradicts itself, or needs Java.
            ConfigError: a configuration value does not fit its option.
            UntrustedCodeError: it carries pickled functions and ``allow_pickled`` is false.
        """
        source = read_json(text)
        theirs: list[str] | None = None
        if "plan_version" not in source:
            source, theirs = from_peer(source)
        document = parse(source)
        code = PlanCode(document.pickled_functions, document.agent_name)
        pickled = [name for name, action in document.actions.items() if action.exec.is_by_value]
        pickled += [
            name
            for named in document.resource_providers.values()
            for name, provider in named.items()
            if isinstance(provider, PlainResource) and provider.has_pickled_code
        ]
        if (pickled or document.pickled_functions is not None) and not allow_pickled:
            raise untrusted(pickled or ["pickled_functions"], where=f"plan of agent {document.agent_name!r}")
        if document.external is not None and not allow_pickled:
            document.external.refuse_pickled(f"plan of agent {document.agent_name!r}")
        for name, action in document.actions.items():
            if name != action.name:
                raise _contradiction(f"action {action.name!r} is filed as {name!r}", f"actions.{name}")
            action.exec.attach(code)
        for kind, named in document.resource_providers.items():
            for name, provider in named.items():
                if (provider.type, provider.name) != (kind, name):
                    raise _contradiction(
                        f"{provider.label} is filed as {kind.value} {name!r}", f"resource_providers.{kind.value}.{name}"
                    )
        try:
            plan = cls(
                agent_name=document.agent_name,
                actions=document.actions.values(),
                resource_providers=document.resource_providers,
                config=_configuration(document.config) if config is None else config,
                code=code,
                external=document.external,
                agents={
                    name: cls.from_json(json.dumps(agent), allow_pickled, config=config)
                    for name, agent in document.agents.items()
                },
            )
        except TriggerError as error:
            raise PlanFormatError(error.what, where=error.where, fix=error.fix) from error
        if document.actions_by_event is not None and document.actions_by_event != plan.actions_by_event:
            raise _contradiction(_difference(document.actions_by_event, plan.actions_by_event), "actions_by_event")
        if theirs is not None:
            plan._replace_built_in(theirs)
        return plan

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """The JSON Schema (2020-12) that plans written by this release satisfy."""
        return json_schema()

    def _providers_document(self) -> dict[str, Any]:
        return {
            kind.value: {name: provider.model_dump(mode="json") for name, provider in named.items()}
            for kind, named in self.resource_providers.items()
        }


def _configuration(document: ConfigDocument) -> AgentConfiguration:
    try:
        return AgentConfiguration.from_plain(document.model_dump())
    except DecodeError as error:
        raise PlanFormatError(error.what, where="config.conf_data", fix=error.fix) from error


def _contradiction(what: str, where: str) -> PlanFormatError:
    return PlanFormatError(
        f"the plan contradicts itself: {what}", where=where, fix="compile the agent anew instead of editing its plan"
    )


def _difference(given: dict[str, list[str]], derived: dict[str, list[str]]) -> str:
    event_type = next(name for name in [*derived, *given] if given.get(name) != derived.get(name))
    return (
        f"by its actions, {event_type!r} triggers {derived.get(event_type, [])}, "
        f"by actions_by_event {given.get(event_type, [])}"
    )
