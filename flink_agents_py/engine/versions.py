"""The versions of an agent's plan that the runs of one engine are under.

There is one as long as nobody changes anything. A run is under the plan it began with until it ends: after a restore
with another plan, and after the plan was exchanged while the job runs. What it needs of an earlier plan is in the
:class:`~flink_agents_py.engine.archive.PlanArchive`; functions are those that are found here now, by their old name or
as an action that says it was called so (``aliases``).
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.conditions import Conditions
from flink_agents_py.engine.driver import RunDriver
from flink_agents_py.engine.memory_observer import MemoryObserver
from flink_agents_py.engine.routes import Route, event_classes_of, routes_of
from flink_agents_py.errors import AgentDefinitionError, FlinkAgentsError, MissingActionError
from flink_agents_py.external.events import ActionFailedEvent
from flink_agents_py.plan.plan import AgentPlan

if TYPE_CHECKING:
    from flink_agents_py.engine.archive import PlanArchive
    from flink_agents_py.engine.engine import Engine
    from flink_agents_py.events import Event
    from flink_agents_py.plan.action import PlanAction

log = logging.getLogger("flink_agents_py.engine")


class PlanVersion:
    """A plan as runs are driven under it.

    Args:
        missing: routes of its actions whose code is not here, by name.
    """

    __slots__ = ("_agents", "_engine", "by_event", "digest", "driver", "hears_failures", "missing", "plan", "routes")

    def __init__(
        self, engine: Engine, plan: AgentPlan, routes: dict[str, Route], by_event: dict[str, list[Route]]
    ) -> None:
        self._engine = engine
        self._agents: dict[str, PlanVersion] = {}
        self.plan = plan
        self.digest = plan.digest
        self.routes = routes
        self.by_event = by_event
        self.driver = RunDriver(engine, by_event, Conditions.of(engine, plan, routes, by_event))
        self.hears_failures = plan.expects(ActionFailedEvent.EVENT_TYPE, of_any=True)
        self.missing: dict[str, Route] = {}
        for route in routes.values():
            route.version = self

    def agent(self, name: str) -> PlanVersion:
        """An agent of the plan that is called by this one.

        Raises:
            AgentDefinitionError: there is no agent of that name.
            FunctionNotFoundError: a function of it is not here.
        """
        known = self._agents.get(name)
        if known is None:
            plan = self.plan.agents.get(name)
            if plan is None:
                raise AgentDefinitionError(
                    f"there is no agent {name!r} to call",
                    where=f"agent {self.plan.agent_name}",
                    fix=f"add it: agent.add_agent({name!r}, ...); there are: {', '.join(self.plan.agents) or 'none'}",
                )
            known = self._agents[name] = PlanVersion(self._engine, plan, *routes_of(plan))
        return known


class PlanVersions:
    """Knows the version that runs begin under, and finds those of runs that began earlier.

    Args:
        event_classes: those of ``plan``.
        archive: where earlier plans are; ``None`` if nowhere.
    """

    def __init__(
        self, engine: Engine, plan: AgentPlan, event_classes: dict[str, type[Event]], archive: PlanArchive | None
    ) -> None:
        self._engine = engine
        self._archive = archive
        self._policy = plan.config.get(AgentOptions.PLAN_ON_MISSING_ACTION)
        self.event_classes = event_classes
        """Of all versions, by reference: the one dictionary that whoever reads events has."""
        self.current = PlanVersion(engine, plan, *routes_of(plan))
        self._known: dict[str, PlanVersion | None] = {self.current.digest: self.current}
        self._retired: dict[str, int] = {}  # executions under versions that were let go, by action
        self.unkept = archive is not None
        """Whether the current plan has still to be kept for the runs that suspend."""

    def adopt(self, plan: AgentPlan) -> bool:
        """Let runs that begin from now on be under ``plan``; False if they are already.

        Raises:
            FlinkAgentsError: what it listens to would need an engine of another kind.
        """
        if plan.digest == self.current.digest:
            return False
        known = self._known.get(plan.digest)
        if known is None:
            self._refuse_other_memory(plan)
            known = PlanVersion(self._engine, plan, *routes_of(plan))
            plan.count_resources_in(self._engine.metrics)
            for reference, cls in event_classes_of(plan.actions.values()).items():
                self.event_classes.setdefault(reference, cls)
        self._known[plan.digest] = self.current = known
        self.keep(instead_of=self._engine.plan.digest)
        return True

    def exchanged_before(self) -> str | None:
        """The plan that was in force when state was written, if that is not the submitted one; needs a key scope."""
        return None if self._archive is None else self._archive.instead_of(self._engine.plan.digest)

    def forget(self, in_use: set[str]) -> None:
        """Let go of versions that no run is under any more."""
        for digest, version in list(self._known.items()):
            if version is not self.current and digest not in in_use:
                del self._known[digest]
                if version is not None:
                    _count(version, self._retired)
                    self._close(version)

    def _refuse_other_memory(self, plan: AgentPlan) -> None:
        kinds = [
            None if observer is None else (observer.reads, observer.writes)
            for observer in (MemoryObserver.of(plan), self._engine.observer)
        ]
        if kinds[0] != kinds[1]:
            raise AgentDefinitionError(
                "the plan has actions that listen to memory events, or had and has none any more",
                where=f"update of agent {plan.agent_name!r}",
                fix="restart the job with it, or set memory.generate-event for the job in the first place",
            )

    def keep(self, *, instead_of: str = "") -> None:
        """Keep the current plan: a run is about to outlive its callback under it."""
        self.unkept = False
        if self._archive is not None:
            plan = self.current.plan
            text = json.dumps(plan.to_document(with_code=self._engine.updates is not None), ensure_ascii=False)
            self._archive.keep(self.current.digest, text, self._known, instead_of=instead_of)

    def of(self, digest: str, key: Any) -> PlanVersion:
        """The version with that digest, for a run of ``key`` that is rebuilt; ``""`` in records of old."""
        if digest not in self._known:
            self._known[digest] = self._earlier(digest, key) if digest else None
        return self._known[digest] or self.current

    def route(self, version: PlanVersion, name: str) -> Route:
        """The action a run was interrupted in."""
        known = version.routes.get(name) or version.missing.get(name)
        if known is None:
            renamed = self.current.plan.renamed.get(name)
            known = self._missing(name) if renamed is None else _under(name, renamed)
            known.version = version
            version.missing[name] = known
        return known

    def executed(self) -> dict[str, int]:
        """How often each action has finished, by name, under all versions."""
        counts = dict(self._retired)
        for version in self._known.values():
            if version is not None:
                _count(version, counts)
        return counts

    def executed_by_version(self) -> dict[str, int]:
        """How often actions have finished under each version, by digest."""
        return {
            version.digest: sum(route.executed for route in version.routes.values())
            for version in self._known.values()
            if version is not None
        }

    def close(self) -> None:
        """Close the resources of the plans that were found here; the first one is the host's."""
        for version in self._known.values():
            if version is not None:
                self._close(version)

    def _close(self, version: PlanVersion) -> None:
        if version.plan is not self._engine.plan:
            try:
                version.plan.close()
            except Exception:  # a resource of the user's may raise anything
                log.exception("closing the resources of plan %s failed", version.digest)

    # --- earlier plans ----------------------------------------------------------------------------------------------

    def _earlier(self, digest: str, key: Any) -> PlanVersion | None:
        text = None if self._archive is None else self._archive.find(digest, key)
        if text is None:
            log.warning(
                "runs of agent %s that began under plan %s go on under plan %s: the earlier plan was not kept",
                self._engine.plan.agent_name,
                digest,
                self.current.digest,
            )
            return None
        # What was written to the state of this job is as trusted as its state.
        plan = AgentPlan.from_json(text, allow_pickled=True, config=self._engine.config)
        if self._engine.updates is None:
            agents = self.current.plan.agents
            plan.agents |= {
                name: agents[name] for name, agent in plan.agents.items() if agent.pickled_actions and name in agents
            }
        plan.count_resources_in(self._engine.metrics)
        routes, by_event = routes_of(plan, self._route)
        here = [action for name, action in plan.actions.items() if routes[name].call is action.__dict__.get("callable")]
        for reference, cls in event_classes_of(here).items():
            self.event_classes.setdefault(reference, cls)
        log.info("runs that began under plan %s go on under it; new ones begin under %s", digest, self.current.digest)
        return PlanVersion(self._engine, plan, routes, by_event)

    def _route(self, action: PlanAction) -> Route:
        """An action of an earlier plan: its own function, else the one that has taken its place.

        Code is that of the deployment: a function that travels by value has no name under which it could be found
        here, so what goes by the action's name takes its place. Where plans are exchanged, each brings its own code.
        """
        problem: Exception | None = None
        if self._engine.updates is not None or not action.exec.is_by_value:
            try:
                return Route.of(action)
            except Exception as error:  # noqa: BLE001 - importing anybody's module
                problem = error
        here = self.current.plan
        successor = here.actions.get(action.name) or here.renamed.get(action.name)
        return self._missing(action.name, problem) if successor is None else _under(action.name, successor)

    def _missing(self, name: str, cause: Exception | None = None) -> Route:
        def refuse(*_: Any) -> None:
            raise MissingActionError(
                f"a run that was interrupted under another plan is inside action {name!r}, which this plan does not "
                "have",
                where="" if cause is None else cause.what if isinstance(cause, FlinkAgentsError) else repr(cause),
                fix="bring the action back until such runs have finished, or give its successor "
                f"aliases=[{name!r}], or set plan.on-missing-action to dead_letter or restart_run",
            )

        route = Route(name, refuse)
        route.on_error = self._policy
        return route


def _count(version: PlanVersion, counts: dict[str, int]) -> None:
    for name, route in version.routes.items():
        counts[name] = counts.get(name, 0) + route.executed


def _under(name: str, successor: PlanAction) -> Route:
    """An action under its earlier name: ids and idempotency keys are made of names, and must stay the same."""
    route = Route.of(successor)
    route.name = name
    return route
