"""The commands ``trace``, ``plan show`` (with ``plan check``) and ``errors`` of ``flink-agents-py``."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flink_agents_py.errors import ConfigError, PlanFormatError
from flink_agents_py.observe import check_cli, diff_cli

if TYPE_CHECKING:
    from flink_agents_py.observe.trace import TracedRun
    from flink_agents_py.plan.plan import AgentPlan

_RUNS_SHOWN = 20


def add_commands(groups: Any) -> None:
    """Add the commands to those of ``flink-agents-py``."""
    trace = groups.add_parser(
        "trace",
        help="what runs did, from event logs",
        description="Rebuilds each run from event logs: its events, the actions that handled them, their calls. Failed "
        "runs come first, then the slowest.",
    )
    trace.add_argument("logs", nargs="+", type=Path, metavar="LOGS", help="files, or folders with .jsonl files")
    trace.add_argument("--format", choices=("text", "json", "html"), default="text", help="(%(default)s)")
    trace.add_argument("--out", type=Path, metavar="FILE", help="where to write it, stdout if not given")
    trace.add_argument("--key", metavar="TEXT", help="only runs whose key contains this")
    trace.add_argument("--action", metavar="NAME", help="only runs in which this action ran")
    trace.add_argument(
        "--outcome",
        action="append",
        choices=("failed", "dead-letter", "skipped", "unfinished", "finished"),
        help="only runs that ended so; may be given several times",
    )
    trace.add_argument(
        "--limit", type=int, metavar="N", help=f"runs to show, 0 for all; text shows {_RUNS_SHOWN} if not given"
    )
    trace.set_defaults(run=_trace)

    plan = groups.add_parser("plan", help="compiled agents")
    commands = plan.add_subparsers(required=True, metavar="check | diff | show")
    show = commands.add_parser(
        "show",
        help="actions, events, resources and external actions of a plan",
        description="Draws a plan. What actions send and use is read off their code, as far as it shows there.",
    )
    show.add_argument(
        "plan", metavar="PLAN", help="a plan file, module:Agent of a class or object, or agents.yaml:agent"
    )
    show.add_argument("--format", choices=("text", "mermaid", "svg", "json"), default="text", help="(%(default)s)")
    show.add_argument("--out", type=Path, metavar="FILE", help="where to write it, stdout if not given")
    show.add_argument("--trust", action="store_true", help="load functions that are pickled in the plan file")
    show.set_defaults(run=_show)

    check_cli.add_command(commands, _plan)
    diff_cli.add_command(commands, _plan)

    errors = groups.add_parser("errors", help="what an error code means")
    errors.add_argument("code", nargs="?", metavar="CODE", help="such as FA302; the whole list, in Markdown, without")
    errors.set_defaults(run=_errors)


def _trace(options: argparse.Namespace) -> int:
    from flink_agents_py.observe.trace import log_files, read
    from flink_agents_py.observe.trace_html import as_html
    from flink_agents_py.observe.trace_text import as_json, as_text, by_urgency

    trace = read(log_files(options.logs))
    for warning in trace.warnings:
        print(warning, file=sys.stderr)
    found = [run for run in by_urgency(trace.runs) if _chosen(run, options)]
    limit = options.limit if options.limit is not None else (_RUNS_SHOWN if options.format == "text" else 0)
    trace.runs = found[:limit] if limit else found
    if options.format == "text":
        text = "\n".join(as_text(trace.runs))
        if len(found) > len(trace.runs):
            text += f"\n{len(found) - len(trace.runs)} more runs; --limit 0 shows them all"
    elif options.format == "json":
        text = as_json(trace)
    else:
        text = as_html(trace, f"Runs of {', '.join(sorted({run.agent for run in trace.runs})) or 'no agent'}")
    _write(text, options.out)
    return 0


def _chosen(run: TracedRun, options: argparse.Namespace) -> bool:
    return (
        (options.key is None or options.key in str(run.key))
        and (options.action is None or any(action.name == options.action for action in run.actions))
        and (not options.outcome or run.outcome in options.outcome)
    )


def _show(options: argparse.Namespace) -> int:
    from flink_agents_py.observe.plan_graph import graph_of
    from flink_agents_py.observe.plan_pictures import as_mermaid, as_svg, as_text

    plan = _plan(options.plan, trusted=options.trust)
    if options.format == "json":
        _write(plan.to_json(), options.out)
    else:
        _write({"text": as_text, "mermaid": as_mermaid, "svg": as_svg}[options.format](graph_of(plan)), options.out)
    return 0


def _plan(name: str, *, trusted: bool) -> AgentPlan:
    from flink_agents_py.agent import Agent
    from flink_agents_py.declarative.compiled import file_and_agent, plan_of_file
    from flink_agents_py.plan.plan import AgentPlan

    declared = file_and_agent(name)
    if declared is not None:
        sys.path.insert(0, str(Path.cwd()))
        return plan_of_file(*declared)
    path = Path(name)
    if path.exists():
        return AgentPlan.from_json(path.read_text(encoding="utf-8"), allow_pickled=trusted)
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ConfigError(f"there is no file {name}", fix="give a plan file, module:Agent, or agents.yaml:agent")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{name} cannot be imported: {error}", fix="give module:Agent as Python finds it") from error
    if isinstance(found, type):
        found = found()
    if isinstance(found, AgentPlan):
        return found
    if not isinstance(found, Agent):
        raise PlanFormatError(f"{name} is no agent but a {type(found).__name__}", fix="name an Agent class or object")
    return AgentPlan.from_agent(found)


def _errors(options: argparse.Namespace) -> int:
    from flink_agents_py.observe.error_list import as_markdown, describe

    print(as_markdown() if options.code is None else describe(options.code))
    return 0


def _write(text: str, path: Path | None) -> None:
    if path is None:
        print(text)
    else:
        path.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
        print(f"wrote {path} ({path.stat().st_size:,} bytes)", file=sys.stderr)
