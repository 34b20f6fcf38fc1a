"""The command line of :mod:`flink_agents_py.flink.standalone`; ``./dev cluster`` is a shorthand for it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from flink_agents_py.errors import FlinkAgentsError
from flink_agents_py.flink.standalone import StandaloneCluster


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except FlinkAgentsError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster", description="A standalone Flink cluster on this machine.")
    parser.add_argument("--home", type=Path, default=Path(".flink-cluster"), help="folder of the cluster (%(default)s)")
    commands = parser.add_subparsers(required=True, metavar="start | submit | status | stop")

    start = commands.add_parser("start", help="start a cluster on free ports")
    start.add_argument("--taskmanagers", type=int, default=1, metavar="N", help="how many (%(default)s)")
    start.add_argument("--slots", type=int, default=2, metavar="N", help="task slots of each (%(default)s)")
    start.add_argument(
        "-D", dest="config", action="append", default=[], metavar="KEY=VALUE", type=_setting, help="a Flink option"
    )
    start.set_defaults(run=_start)

    submit = commands.add_parser("submit", help="submit a PyFlink script and wait until it ends")
    submit.add_argument("-d", "--detached", action="store_true", help="do not wait")
    submit.add_argument("-p", "--parallelism", type=int, metavar="N")
    submit.add_argument("job", type=Path, help="path of the script")
    submit.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    submit.set_defaults(run=_submit)

    commands.add_parser("status", help="say what runs").set_defaults(run=_status)
    commands.add_parser("stop", help="stop what `start` started").set_defaults(run=_stop)
    return parser


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _start(options: argparse.Namespace) -> int:
    cluster = StandaloneCluster(options.taskmanagers, options.slots, home=options.home, config=dict(options.config))
    print("starting, this takes some ten seconds", file=sys.stderr)
    cluster.start()
    return _status(options)


def _submit(options: argparse.Namespace) -> int:
    cluster = StandaloneCluster.attach(options.home)
    if not options.job.is_file():
        print(f"there is no file {options.job}", file=sys.stderr)
        return 2
    flags = ["-d"] if options.detached else []
    if options.parallelism is not None:
        flags += ["-p", str(options.parallelism)]
    command = cluster.submit_command(options.job, *options.arguments, options=flags)
    return subprocess.run(command, env=cluster.submit_environment(), check=False).returncode  # noqa: S603


def _status(options: argparse.Namespace) -> int:
    cluster = StandaloneCluster.attach(options.home)
    counts = cluster.overview()
    print(f"web interface  {cluster.rest_url}")
    print(f"logs           {cluster.log_dir}")
    print(f"TaskManagers   {counts['taskmanagers']}, pids {' '.join(map(str, cluster.taskmanager_pids()))}")
    print(f"slots          {counts['slots-available']} of {counts['slots-total']} free")
    print(f"jobs           {counts['jobs-running']} running, {counts['jobs-finished']} finished")
    return 0


def _stop(options: argparse.Namespace) -> int:
    StandaloneCluster.attach(options.home).stop()
    print("stopped")
    return 0
