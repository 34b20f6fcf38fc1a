"""What a plan consists of, and how it hangs together, as a graph to draw."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from flink_agents_py.errors import FlinkAgentsError
from flink_agents_py.events import Event, InputEvent, OutputEvent
from flink_agents_py.plan.signature import function_of

if TYPE_CHECKING:
    from flink_agents_py.plan.action import PlanAction
    from flink_agents_py.plan.plan import AgentPlan

Kind = Literal["event", "action", "resource", "external"]
_NAMES = {InputEvent.EVENT_TYPE: "InputEvent", OutputEvent.EVENT_TYPE: "OutputEvent"}


@dataclass(frozen=True)
class Node:
    """An event type, action, resource or external action."""

    kind: Kind
    id: str
    """Unique in its graph."""
    label: str
    detail: str = ""


@dataclass
class PlanGraph:
    """Edges are pairs of ids: event -> action (listens), action -> event (sends), action -> resource (uses)."""

    agent: str
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)

    def of(self, kind: Kind) -> list[Node]:
        """Nodes of a kind, in plan order."""
        return [node for node in self.nodes.values() if node.kind == kind]

    def after(self, node_id: str, kind: Kind) -> list[Node]:
        """Nodes of a kind an edge leads to."""
        return [self.nodes[to] for start, to in self.edges if start == node_id and self.nodes[to].kind == kind]

    def before(self, node_id: str, kind: Kind) -> list[Node]:
        """Nodes of a kind an edge comes from."""
        return [self.nodes[start] for start, to in self.edges if to == node_id and self.nodes[start].kind == kind]


def graph_of(plan: AgentPlan) -> PlanGraph:
    """The graph of a plan.

    What an action listens to is in the plan. What it sends and uses is read off its code: event classes it names, and
    texts in it that are an event type, a resource or an external action of the plan. Where its code is not here, or
    puts such names together at run time, those edges are missing.
    """
    graph = PlanGraph(plan.agent_name)
    for event_type in _heard(plan):
        _add_event(graph, event_type)
    for action in plan.actions.values():
        _add(graph, Node("action", f"action:{action.name}", action.name, _detail(action)))
        for event_type in _heard_by(action):
            _link(graph, f"event:{event_type}", f"action:{action.name}")
    for kind, named in plan.resource_providers.items():
        for name, provider in named.items():
            target = getattr(getattr(provider, "descriptor", None), "target_clazz", "") or kind.value
            _add(graph, Node("resource", f"resource:{kind.value}:{name}", name, f"{kind.value}, {target}"))
    for name, target in _external(plan):
        _add(graph, Node("external", f"external:{name}", name, target))
    _add_what_code_shows(graph, plan)
    return graph


def _add_what_code_shows(graph: PlanGraph, plan: AgentPlan) -> None:
    by_name: dict[str, list[str]] = {}
    for node in (*graph.of("resource"), *graph.of("external")):
        by_name.setdefault(node.label, []).append(node.id)
    for action in plan.actions.values():
        for event_type in _sent_by(action, set(_heard(plan))):
            _add_event(graph, event_type)
            _link(graph, f"action:{action.name}", f"event:{event_type}")
        for text in _texts_of(action):
            for target in by_name.get(text, []):
                _link(graph, f"action:{action.name}", target)
    for kind, named in plan.resource_providers.items():
        for name, provider in named.items():
            for text in _strings(getattr(getattr(provider, "descriptor", None), "arguments", {})):
                for target in by_name.get(text, []):
                    if target != f"resource:{kind.value}:{name}":
                        _link(graph, f"resource:{kind.value}:{name}", target)


def _add(graph: PlanGraph, node: Node) -> None:
    graph.nodes.setdefault(node.id, node)


def _add_event(graph: PlanGraph, event_type: str) -> None:
    label = _NAMES.get(event_type) or event_type.rpartition(".")[2]
    _add(graph, Node("event", f"event:{event_type}", label, "" if label == event_type else event_type))


def _link(graph: PlanGraph, start: str, to: str) -> None:
    if (start, to) not in graph.edges:
        graph.edges.append((start, to))


def _heard(plan: AgentPlan) -> dict[str, None]:
    """Event types that triggers name, in expressions too."""
    types = dict.fromkeys(plan.actions_by_event)
    for action in plan.actions.values():
        types.update(dict.fromkeys(_heard_by(action)))
    return types


def _heard_by(action: PlanAction) -> list[str]:
    conditional = [name for condition in action.conditions for name in condition.event_types or ()]
    return list(dict.fromkeys([*action.event_types, *conditional]))


def _detail(action: PlanAction) -> str:
    parts = [f"when {condition.source}" for condition in action.conditions]
    if action.on_error != "fail":
        parts.append(f"on_error={action.on_error}")
    if action.retry.max_attempts > 1:
        parts.append(f"up to {action.retry.max_attempts} attempts")
    return ", ".join(parts)


def _external(plan: AgentPlan) -> Iterator[tuple[str, str]]:
    document = plan.external
    if document is not None:
        for name, action in document.actions.items():
            yield name, str(action.spec.target or "")


def _code_of(action: PlanAction) -> tuple[list[types.CodeType], dict[str, Any]]:
    try:
        function = inspect.unwrap(function_of(action.callable))
    except FlinkAgentsError:
        return [], {}  # its code is not here
    code = getattr(function, "__code__", None)
    if code is None:
        return [], {}
    found, inside = [code], [code]
    while inside:
        nested = [const for const in inside.pop().co_consts if isinstance(const, types.CodeType)]
        found += nested
        inside += nested
    names = dict(getattr(function, "__globals__", {}))
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(code.co_freevars, cells, strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    return found, names


def _sent_by(action: PlanAction, known: set[str]) -> Iterator[str]:
    codes, names = _code_of(action)
    for code in codes:
        for name in (*code.co_names, *code.co_freevars):
            cls = names.get(name)
            if isinstance(cls, type) and issubclass(cls, Event) and cls.EVENT_TYPE and cls is not InputEvent:
                yield cls.EVENT_TYPE
        for const in code.co_consts:
            if isinstance(const, str) and const in known and const not in _heard_by(action):
                yield const


def _texts_of(action: PlanAction) -> Iterator[str]:
    for code in _code_of(action)[0]:
        for const in code.co_consts:
            if isinstance(const, str):
                yield const


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)
