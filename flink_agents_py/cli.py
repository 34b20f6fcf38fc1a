"""``flink-agents-py``: what is done to agents from a shell."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from flink_agents_py import config_cli, dlq_cli
from flink_agents_py.config import AgentConfiguration, AgentOptions, ConfigOption
from flink_agents_py.errors import ConfigError, FlinkAgentsError
from flink_agents_py.flink import package_cli
from flink_agents_py.observe import cli as observe_cli

_OLDER_THAN = ConfigOption("--older-than", int, 0, unit="ms", minimum=0)
_KEEP_CHECKPOINTS = 3  # the newest one, n-1 and n-2
_CLOCKS_DIFFER_MS = 60_000  # the JobManager says when a checkpoint began, the workers when a record was written


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except FlinkAgentsError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # `flink-agents-py dlq list ... | head`
        # What is still in the buffer must not be written to the broken pipe when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="flink-agents-py", description="Agents inside Flink jobs.")
    groups = parser.add_subparsers(required=True, metavar="config | dlq | errors | package | plan | store | trace")
    config_cli.add_command(groups)
    dlq_cli.add_commands(groups)
    package_cli.add_command(groups)
    observe_cli.add_commands(groups)
    store = groups.add_parser("store", help="the action state store")
    commands = store.add_subparsers(required=True, metavar="prune")

    prune = commands.add_parser(
        "prune",
        help="drop records that no restore needs",
        description="Drops records of finished runs that were written before the checkpoints you may still restore. "
        "Which store is said by the options action-state-store.* (-D, --config, or FLINK_AGENTS_PY__... in the "
        "environment). After pruning by checkpoints, do not restore savepoints that are older than those.",
    )
    prune.add_argument("--job", required=True, metavar="NAME", help="job identifier, else the agent's name")
    prune.add_argument("--rest", metavar="URL", help="the JobManager to ask for completed checkpoints")
    prune.add_argument("--job-id", metavar="ID", help="Flink's id of the job there")
    prune.add_argument(
        "--keep-checkpoints",
        type=_positive,
        default=_KEEP_CHECKPOINTS,
        metavar="N",
        help="how many of the newest completed ones must stay restorable (%(default)s)",
    )
    prune.add_argument(
        "--older-than",
        metavar="AGE",
        help="such as 24h; with --rest both must hold (action-state-store.retention, if neither is given)",
    )
    prune.add_argument("--config", type=Path, metavar="FILE", help="JSON or YAML file with options")
    prune.add_argument(
        "-D", dest="settings", action="append", default=[], type=_setting, metavar="KEY=VALUE", help="an option"
    )
    prune.set_defaults(run=_prune)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _prune(options: argparse.Namespace) -> int:
    from flink_agents_py.stores.factory import open_store

    config = AgentConfiguration.load(options.config)
    for key, value in options.settings:
        config.set(key, value)
    before_ms = _cutoff(options, config)
    store = open_store(config, options.job)
    if store is None:
        raise ConfigError(
            "action-state-store.backend is 'none': there is nothing to prune",
            fix="say which store the job uses: -D action-state-store.backend=... -D action-state-store.url=...",
        )
    try:
        dropped = store.prune(before_ms=before_ms)
    finally:
        store.close()
    before = datetime.fromtimestamp(before_ms / 1000, timezone.utc).isoformat(timespec="seconds")
    print(f"dropped {dropped} records of {options.job} written before {before}")
    return 0


def _cutoff(options: argparse.Namespace, config: AgentConfiguration) -> int:
    """What was written before this time, in ms, may go."""
    if (options.rest is None) != (options.job_id is None):
        raise ConfigError("--rest and --job-id belong together", fix="give both, or neither")
    cutoffs = []
    if options.rest is not None:
        from flink_agents_py.flink.rest import JobManagerClient

        answer = JobManagerClient(options.rest.rstrip("/")).checkpoints(options.job_id)
        cutoffs.append(oldest_kept_checkpoint(answer, options.keep_checkpoints) - _CLOCKS_DIFFER_MS)
    if options.older_than is not None or options.rest is None:
        age_ms = (
            config.get(AgentOptions.ACTION_STATE_STORE_RETENTION)
            if options.older_than is None
            else _OLDER_THAN.parse(options.older_than, "the command line")
        )
        cutoffs.append(time.time_ns() // 1_000_000 - age_ms)
    return min(cutoffs)


def oldest_kept_checkpoint(answer: dict[str, Any], keep: int) -> int:
    """When the ``keep``-th newest completed checkpoint began (ms), from the answer of ``/jobs/ID/checkpoints``.

    Raises:
        ConfigError: there are not so many.
    """
    completed = sorted(
        (
            checkpoint["trigger_timestamp"]
            for checkpoint in answer["history"]
            if checkpoint["status"] == "COMPLETED" and not checkpoint["is_savepoint"]
        ),
        reverse=True,
    )
    if len(completed) < keep:
        raise ConfigError(
            f"{keep} checkpoints must stay restorable, but the job has only {len(completed)} completed ones to tell of",
            fix="wait for more of them; or give a smaller --keep-checkpoints, or --older-than without --rest. The "
            "JobManager remembers web.checkpoints.history of them",
        )
    return int(completed[keep - 1])
