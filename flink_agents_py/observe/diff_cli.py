"""The command ``plan diff`` of ``flink-agents-py``."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from flink_agents_py.plan.diff import PlanDiff
    from flink_agents_py.plan.plan import AgentPlan

DOES_NOT_SURVIVE = 3
"""Exit code where interrupted runs may come to something that is not there any more."""


def add_command(commands: Any, load: Callable[..., AgentPlan]) -> None:
    """Add the command to those of ``flink-agents-py plan``.

    Args:
        load: reads what the command line names as a plan.
    """
    diff = commands.add_parser(
        "diff",
        help="what a savepoint of one plan survives under another",
        description="Compares two plans, and says of each difference what it means for runs that a savepoint of the "
        "old one has interrupted. Exit code 0: all of them go on; 3: not all of them.",
    )
    diff.add_argument("old", metavar="OLD", help="the plan of the savepoint: a file (plan show --format json wrote it)")
    diff.add_argument("new", metavar="NEW", help="the plan to restore with: a file, or module:Agent")
    diff.add_argument("--json", action="store_true", help="for machines")
    diff.add_argument("--trust", action="store_true", help="load functions that are pickled in the plan files")
    diff.set_defaults(run=lambda options: _diff(options, load))


def _diff(options: argparse.Namespace, load: Callable[..., AgentPlan]) -> int:
    from flink_agents_py.plan.diff import diff

    found = diff(load(options.old, trusted=options.trust), load(options.new, trusted=options.trust))
    print(json.dumps(found.to_plain(), indent=2, ensure_ascii=False) if options.json else as_text(found))
    return 0 if found.survives else DOES_NOT_SURVIVE


def as_text(found: PlanDiff) -> str:
    """The differences, a line each, and what comes of them."""
    if not found.changes:
        return f"the same plan, {found.new}" if found.old == found.new else f"no difference: {found.old} -> {found.new}"
    lines = [f"plan {found.old} -> {found.new}"]
    for change in found.changes:
        text = f": {change.text}" if change.text else ""
        lines.append(f"  {change.effect:<10}  {change.kind} {change.name} {change.what}{text}")
    if found.survives:
        lines.append("every interrupted run goes on")
    elif any(change.effect == "lost" for change in found.changes):
        lines.append("the savepoint's state is not found by the new job")
    else:
        lines.append(f"interrupted runs that come to what is missing: plan.on-missing-action = {found.policy}")
    return "\n".join(lines)
