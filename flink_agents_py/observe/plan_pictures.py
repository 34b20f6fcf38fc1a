"""Plans as text, as a Mermaid flowchart, and as SVG."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flink_agents_py.observe.plan_graph import Node, PlanGraph

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 200, 46, 70, 18, 24
_COLORS = {
    "event": ("#eef4fb", "#2f6fb3"),
    "action": ("#eef8f0", "#237a3b"),
    "resource": ("#fbf5ea", "#b4570a"),
    "external": ("#f5f0fb", "#5a4fcf"),
}
_LONGEST = 26  # characters in a box


def as_text(graph: PlanGraph) -> str:
    """The plan in words."""
    lines = [f"agent {graph.agent}", "", "actions:"]
    for action in graph.of("action"):
        lines.append(f"  {action.label}{_in_brackets(action.detail)}")
        for word, nodes in (
            ("listens to", graph.before(action.id, "event")),
            ("sends", graph.after(action.id, "event")),
            ("uses", [*graph.after(action.id, "resource"), *graph.after(action.id, "external")]),
        ):
            if nodes:
                lines.append(f"    {word}: {', '.join(node.label for node in nodes)}")
    lonely = [node for node in graph.of("event") if not graph.after(node.id, "action") and node.label != "OutputEvent"]
    if lonely:
        lines += ["", "events nobody listens to:", *(f"  {node.label}{_in_brackets(node.detail)}" for node in lonely)]
    for title, kind in (("resources", "resource"), ("external actions", "external")):
        nodes = graph.of(kind)  # type: ignore[arg-type]
        if nodes:
            lines += ["", f"{title}:"]
            for node in nodes:
                uses = ", ".join(other.label for other in graph.after(node.id, "resource"))
                lines.append(f"  {node.label}{_in_brackets(node.detail)}{f' -> {uses}' if uses else ''}")
    return "\n".join(lines)


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def as_mermaid(graph: PlanGraph) -> str:
    """A Mermaid flowchart, as GitHub and most documentation tools draw it."""
    shapes: dict[str, tuple[str, str]] = {
        "event": ("([", "])"),
        "action": ("[", "]"),
        "resource": ("[(", ")]"),
        "external": ("{{", "}}"),
    }
    numbers = {node_id: f"n{number}" for number, node_id in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    for node in graph.nodes.values():
        before, after = shapes[node.kind]
        label = node.label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
        lines.append(f'  {numbers[node.id]}{before}"{label}"{after}:::{node.kind}')
    for start, to in graph.edges:
        arrow = "-->" if graph.nodes[to].kind in {"event", "action"} else "-.->"
        lines.append(f"  {numbers[start]} {arrow} {numbers[to]}")
    lines += [f"  classDef {kind} fill:{fill},stroke:{stroke}" for kind, (fill, stroke) in _COLORS.items()]
    return "\n".join(lines)


def as_svg(graph: PlanGraph) -> str:
    """A drawing in columns, from what comes in to what goes out; resources stand below."""
    places = _places(graph)
    width = max(x for x, _ in places.values()) + _WIDTH + _MARGIN if places else 2 * _MARGIN
    height = max(y for _, y in places.values()) + _HEIGHT + _MARGIN if places else 2 * _MARGIN
    drawn = [_edge(graph, places, start, to) for start, to in graph.edges]
    drawn += [_box(node, *places[node.id]) for node in graph.nodes.values()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="13"><title>agent {escape(graph.agent)}</title>'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#5b6672"/></marker></defs>'
        f"{''.join(drawn)}</svg>"
    )


def _places(graph: PlanGraph) -> dict[str, tuple[int, int]]:
    """Left upper corners of the boxes."""
    flow = [node for node in graph.nodes.values() if node.kind in {"event", "action"}]
    column = dict.fromkeys((node.id for node in flow), 0)
    for _ in flow:  # the longest way from the left; circles stop growing after as many rounds as there are nodes
        changed = False
        for start, to in graph.edges:
            if start in column and to in column and column[to] <= column[start] and column[start] + 1 < len(flow):
                column[to] = column[start] + 1
                changed = True
        if not changed:
            break
    columns: dict[int, list[str]] = {}
    for node_id, number in sorted(column.items(), key=lambda item: item[1]):
        columns.setdefault(number, []).append(node_id)
    x_of: Callable[[int], int] = lambda number: _MARGIN + number * (_WIDTH + _GAP_X)  # noqa: E731
    places: dict[str, tuple[int, int]] = {}
    for number, nodes in enumerate(columns.values()):
        for row, node_id in enumerate(nodes):
            places[node_id] = x_of(number), _MARGIN + row * (_HEIGHT + _GAP_Y)
    below = max((y for _, y in places.values()), default=-_HEIGHT) + _HEIGHT + 3 * _GAP_Y
    others = [node.id for node in graph.nodes.values() if node.kind in {"resource", "external"}]
    in_row = max(3, len(columns))
    for index, node_id in enumerate(others):
        places[node_id] = x_of(index % in_row), below + (index // in_row) * (_HEIGHT + 2 * _GAP_Y)
    return places


def _edge(graph: PlanGraph, places: dict[str, tuple[int, int]], start: str, to: str) -> str:
    (x1, y1), (x2, y2) = places[start], places[to]
    if graph.nodes[to].kind in {"event", "action"}:
        x1, y1, y2 = x1 + _WIDTH, y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
        bend = max(40, abs(x2 - x1) // 2)
        path = f"M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2},{y2}"
        return f'<path d="{path}" fill="none" stroke="#5b6672" marker-end="url(#tip)"/>'
    x1, x2, y1 = x1 + _WIDTH // 2, x2 + _WIDTH // 2, y1 + _HEIGHT
    middle = (y1 + y2) // 2
    path = f"M{x1},{y1} C{x1},{middle} {x2},{middle} {x2},{y2}"
    return f'<path d="{path}" fill="none" stroke="#9aa5b1" stroke-dasharray="4 3" marker-end="url(#tip)"/>'


def _box(node: Node, x: int, y: int) -> str:
    fill, stroke = _COLORS[node.kind]
    round_by = _HEIGHT // 2 if node.kind == "event" else 6
    second = escape(_fitting(node.detail, _LONGEST + 8))
    text_y = y + (_HEIGHT // 2 + 5 if not second else _HEIGHT // 2 - 2)
    lines = (
        f'<text x="{x + _WIDTH // 2}" y="{text_y}" text-anchor="middle">{escape(_fitting(node.label, _LONGEST))}</text>'
    )
    if second:
        lines += (
            f'<text x="{x + _WIDTH // 2}" y="{y + _HEIGHT - 9}" text-anchor="middle" font-size="10" '
            f'fill="#5b6672">{second}</text>'
        )
    return (
        f"<g><title>{escape(node.kind)} {escape(node.label)} {escape(node.detail)}</title>"
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="{round_by}" fill="{fill}" stroke="{stroke}"/>'
        f"{lines}</g>"
    )


def _fitting(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
