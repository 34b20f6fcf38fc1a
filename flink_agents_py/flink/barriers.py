"""Pipelines that unaligned checkpoints can stop for good.

Flink does not let barriers overtake records on a pointwise connection, nor on a broadcast one. Take a step that reads
two streams, one of them over such a connection. When the barrier has come there, Flink reads no more from it until the
barrier of the other stream has come, too. Now let both streams go back to one step, the first by way of a keyed one::

    read -> agent   -(forward)-> union -> sink
    read -> rejects -(forward)-> union

With aligned barriers that is fine: the agent passes the barrier on after ``read`` has. An unaligned one the agent
passes on as soon as *any* of its inputs, a small source of its own say, has brought it. If ``read`` is just then giving
out more than the buffers hold (the results of a Python bundle, of a window, of a flat map), it waits for the agent, the
agent for the union, the union for ``rejects`` and that for the barrier of ``read``, which a step that is giving out
cannot send. No timeout of Flink ends it.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

_ALIGNED = frozenset({"FORWARD", "RESCALE", "BROADCAST"})
"""Connections that barriers do not overtake records on, as execution plans name them."""

_SOURCE = "Data Source"


class Deadlock(NamedTuple):
    """Names of steps: ``giving`` waits for ``passing``, this for ``joining``, and this for ``giving``."""

    giving: str
    passing: str
    joining: str

    def __str__(self) -> str:
        return (
            f"{self.joining!r} reads from {self.giving!r} twice, once by way of {self.passing!r} and over a connection "
            "that barriers do not overtake records on"
        )


@dataclass(frozen=True)
class _Step:
    name: str
    source: bool
    inputs: tuple[tuple[int, bool], ...]  # of which step, and whether barriers are aligned there


def deadlock_in(execution_plan: str) -> Deadlock | None:
    """A place where an unaligned checkpoint may stop the pipeline, None if there is none.

    Args:
        execution_plan: JSON, of ``StreamExecutionEnvironment.get_execution_plan()``.
    """
    steps = {node["id"]: _step(node) for node in json.loads(execution_plan)["nodes"]}
    for joining in steps.values():
        for one, aligned in joining.inputs:
            if not aligned or len(joining.inputs) == 1:
                continue
            others = [other for other, _ in joining.inputs if other != one]
            for passing in _upstream(steps, one):
                if all(aligned for _, aligned in steps[passing].inputs):
                    continue  # it has no barrier before those in front of it do
                around = {step for other in others for step in _upstream(steps, other, without=passing)}
                for giving in _upstream(steps, passing)[1:]:
                    # A source gives out record by record, and looks for barriers in between.
                    if giving in around and not steps[giving].source:
                        return Deadlock(steps[giving].name, steps[passing].name, joining.name)
    return None


def _step(node: dict[str, Any]) -> _Step:
    inputs = tuple((edge["id"], edge["ship_strategy"] in _ALIGNED) for edge in node.get("predecessors", ()))
    return _Step(node["type"], node["pact"] == _SOURCE, inputs)


def _upstream(steps: dict[int, _Step], of: int, without: int | None = None) -> list[int]:
    """A step and all that it gets records from, over no path through ``without``, the nearest first."""
    found: dict[int, None] = {}
    to_look_at = deque([of])
    while to_look_at:
        step = to_look_at.popleft()
        if step != without and step not in found:
            found[step] = None
            to_look_at += (one for one, _ in steps[step].inputs)
    return list(found)
