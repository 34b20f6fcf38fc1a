"""Triggers that are expressions, evaluated for each event; a plan without any has no use for this.

Which actions an event of a type may trigger is known beforehand: those that name the type, those with a condition that
can hold for it. Of the event only the attributes that these conditions read are converted for the evaluator, once for
all of them.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.condition_values import Problems, Tree, part_of, tree_of
from flink_agents_py.errors import ConditionError

if TYPE_CHECKING:
    from flink_agents_py.engine.engine import Engine
    from flink_agents_py.engine.routes import Route
    from flink_agents_py.engine.run import Run
    from flink_agents_py.events import Event
    from flink_agents_py.plan.action import PlanAction
    from flink_agents_py.plan.conditions import Condition
    from flink_agents_py.plan.plan import AgentPlan

log = logging.getLogger("flink_agents_py.engine")

_UNKNOWN = re.compile(r"Undefined variable or function: '(\w+)'")


class _Test:
    """A condition, compiled."""

    __slots__ = ("action", "condition", "evaluate", "said")

    def __init__(self, action: str, condition: Condition) -> None:
        self.action = action
        self.condition = condition
        self.evaluate: Callable[[Any], Any] = condition.program(f"action {action!r}")
        self.said = False  # that it has failed

    def holds_for(self, event_type: str | None) -> bool:
        """Whether it can be true for events of a type; ``None`` for those that no trigger names."""
        types = self.condition.event_types
        return types is None or event_type in types


class _Table:
    """What to do with events of one type. Actions in plan order, those without a test are triggered by the type."""

    __slots__ = ("entries", "reads", "reads_id", "tests")

    def __init__(self, entries: list[tuple[Route, _Test | None]]) -> None:
        self.entries = [(route, None if test is None else test.evaluate, test) for route, test in entries]
        self.tests = [test for _, test in entries if test is not None]
        conditions = [test.condition for test in self.tests]
        self.reads: Tree = tree_of(path for condition in conditions for path in condition.paths)
        self.reads_id = any(condition.reads_id for condition in conditions)


class Conditions:
    """The triggers of a plan that has expressions among them.

    Args:
        by_event: routes that a type triggers by itself.

    Raises:
        TriggerError: an expression is wrong.
        EnvironmentSetupError: the evaluator is not installed here.
    """

    def __init__(
        self, engine: Engine, plan: AgentPlan, routes: dict[str, Route], by_event: dict[str, list[Route]]
    ) -> None:
        self._engine = engine
        self._agent = plan.agent_name
        self._fails = plan.config.get(AgentOptions.CONDITION_FAILURE_STRATEGY) == "FAIL"
        tests = {
            name: tuple(_Test(name, condition) for condition in action.conditions)
            for name, action in plan.actions.items()
        }
        self._context: Callable[[dict[str, Any]], Any] = importlib.import_module("cel").Context
        actions = list(plan.actions.values())
        named = set(by_event).union(
            name for each in tests.values() for test in each for name in test.condition.event_types or ()
        )
        self._tables = {name: self._table(name, actions, routes, tests) for name in named}
        self._table_of_others = self._table(None, actions, routes, tests)
        self._unconditional = {name: by_event.get(name, []) for name, table in self._tables.items() if not table.tests}

    @staticmethod
    def of(
        engine: Engine, plan: AgentPlan, routes: dict[str, Route], by_event: dict[str, list[Route]]
    ) -> Conditions | None:
        """The conditions of a plan, ``None`` if it has none."""
        return Conditions(engine, plan, routes, by_event) if plan.has_conditions else None

    def weigh(self, event_type: str) -> bool:
        """Whether conditions are evaluated for events of a type: if none holds, that is what the agent wants."""
        return bool(self._tables.get(event_type, self._table_of_others).tests)

    def routes(self, event: Event, run: Run) -> list[Route] | None:
        """The actions that the event triggers, each once, in plan order; ``None`` if there is none (S4).

        Raises:
            ConditionError: a condition has failed, and the strategy is FAIL.
        """
        event_type = event.type
        found = self._unconditional.get(event_type)
        if found is not None:
            return found
        table = self._tables.get(event_type, self._table_of_others)
        problems: Problems = {}
        variables: dict[str, Any] = {"type": event_type}
        if table.reads_id:
            variables["id"] = str(event.id)
        if table.reads is None or table.reads:
            variables["attributes"] = part_of(event.all_attributes(), table.reads, problems)
        else:
            variables["attributes"] = {}
        context = self._context(variables)
        found = []
        newest: Route | None = None  # of those found: its other conditions need no look
        for route, evaluate, test in table.entries:
            if evaluate is None or test is None:
                found.append(route)
                continue
            if route is newest:
                continue
            try:
                if problems:
                    self._refuse_unread(test, problems)
                held = evaluate(context)
            except Exception as error:  # noqa: BLE001 - the evaluator raises errors of many classes
                self._failed(test, event, run, error)
                continue
            if held is True:
                newest = route
                found.append(route)
            elif held is not False:
                self._failed(test, event, run, TypeError(f"it gave {held!r:.80}, not true or false"))
        return found or None

    def _table(
        self,
        event_type: str | None,
        actions: list[PlanAction],
        routes: dict[str, Route],
        tests: dict[str, tuple[_Test, ...]],
    ) -> _Table:
        entries: list[tuple[Route, _Test | None]] = []
        for action in actions:
            route = routes[action.name]
            if event_type is not None and event_type in action.event_types:
                entries.append((route, None))
            else:
                entries += [(route, test) for test in tests[action.name] if test.holds_for(event_type)]
        return _Table(entries)

    @staticmethod
    def _refuse_unread(test: _Test, problems: Problems) -> None:
        for path in test.condition.paths:
            for place, problem in problems.items():
                if place[: len(path)] == path:
                    raise TypeError(f"attribute {'.'.join(map(str, place))}: {problem}")

    def _failed(self, test: _Test, event: Event, run: Run, error: Exception) -> None:
        what = f"the trigger condition {test.condition.source!r} failed: {_in_words(error)}"
        where = (
            f"agent {self._agent}, action {test.action}, key {run.key!r}, sequence {run.sequence}, event {event.type}"
        )
        if self._fails:
            fix = "test with has(...) what may be missing, or name the type of the events that have it"
            raise ConditionError(what, where=where, fix=fix) from error
        self._engine.stats.condition_failures += 1
        if not test.said:
            test.said = True
            log.warning("%s (%s); it is taken for false, and counted (said once per condition)", what, where)


def _in_words(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r}"
    unknown = _UNKNOWN.match(str(error))
    if unknown is not None:  # that there are all functions it calls was checked when it was read
        return f"{unknown[1]}(...) does not take the values it was given"
    if "No such overload" in str(error):
        return "values of these types cannot be compared, or computed with"
    return f"{type(error).__name__}: {error}"
