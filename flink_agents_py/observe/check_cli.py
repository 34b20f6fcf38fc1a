"""The command ``plan check`` of ``flink-agents-py``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flink_agents_py.observe.plan_check import Finding
    from flink_agents_py.plan.plan import AgentPlan

_MARKS = {True: "ok   ", False: "WRONG", None: "     "}


def add_command(commands: Any, load: Callable[..., AgentPlan]) -> None:
    """Add the command to those of ``plan``; ``load`` finds the plan that the command line names."""
    check = commands.add_parser(
        "check",
        help="whether a plan finds here what it needs",
        description="Looks at a plan without running it: whether it can be read or compiled, its functions and classes "
        "can be imported, its resources can be built, and the secrets and extras they need are here. Run it where the "
        "workers run, as they need the same. Exit code 1 if something is wrong.",
    )
    check.add_argument("plan", metavar="PLAN", help="a plan file, or module:Agent of a class or object")
    check.add_argument("--connect", action="store_true", help="start or contact MCP servers, and list their tools")
    check.add_argument(
        "--timeout", type=_seconds, default=10.0, metavar="S", help="seconds a server has to answer (%(default)g)"
    )
    check.add_argument("--format", choices=("text", "json"), default="text", help="(%(default)s)")
    check.add_argument("--trust", action="store_true", help="load functions that are pickled in the plan file")
    check.set_defaults(run=lambda options: _check(options, load))


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("a number of seconds above 0")
    return seconds


def _check(options: argparse.Namespace, load: Callable[..., AgentPlan]) -> int:
    from flink_agents_py.observe.plan_check import PlanCheck
    from flink_agents_py.plan.plan import AgentPlan

    def as_a_worker_reads_it() -> AgentPlan:
        return AgentPlan.from_json(load(options.plan, trusted=options.trust).to_json(), allow_pickled=True)

    check = PlanCheck(patience_s=options.timeout)
    plan = check.read(as_a_worker_reads_it)
    if plan is not None:
        check.check(plan, connect=options.connect)
    problems = sum(finding.ok is False for finding in check.findings)
    if options.format == "json":
        findings = [dataclasses.asdict(finding) for finding in check.findings]
        text = json.dumps({"problems": problems, "findings": findings}, indent=2)
    else:
        count = f"{problems} problems" if problems != 1 else "1 problem"
        text = "\n".join([*map(_line, check.findings), count])
    sys.stdout.write(f"{text}\n")
    return 1 if problems else 0


def _line(finding: Finding) -> str:
    line = f"{_MARKS[finding.ok]} {finding.subject}: {finding.said}"
    return f"{line}\n        {finding.fix}" if finding.fix else line
