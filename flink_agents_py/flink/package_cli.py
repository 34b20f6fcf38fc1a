"""The command ``package`` of ``flink-agents-py``: put a job together for a cluster, and submit it."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from flink_agents_py.flink.installation import shell_safe_flink_home
from flink_agents_py.flink.java import java_environment
from flink_agents_py.flink.package import build, shown


def add_command(groups: Any) -> None:
    """Add it to the commands of ``flink-agents-py``."""
    package = groups.add_parser(
        "package",
        help="put a job together for a cluster, and submit it",
        description="Fills a folder with what a job needs on a cluster whose TaskManagers have no copy of it, and "
        "prints the `flink run` command that submits it from there.",
    )
    package.add_argument("--out", type=Path, metavar="FOLDER", help="package/NAME OF THE JOB, if not given")
    package.add_argument(
        "--module",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="a file or folder of Python code the job imports; may be given several times",
    )
    package.add_argument(
        "--requirement",
        action="append",
        default=[],
        metavar="NAME[EXTRA]",
        help="what workers need beside this package's own dependencies, as pip takes it; must be installed here",
    )
    package.add_argument(
        "--environment",
        choices=("libraries", "archive", "requirements", "none"),
        default="libraries",
        help="what is shipped beside code: all that TaskManagers with apache-flink lack (%(default)s); all that those "
        "with nothing but Python lack; a list from which each installs with pip; nothing",
    )
    package.add_argument(
        "--python",
        metavar="PATH",
        help="interpreter on the TaskManagers, of this version: that with apache-flink (default: python), or "
        "for an archive any (default: where this one is)",
    )
    package.add_argument(
        "--mode",
        choices=("process", "thread"),
        default="process",
        help="of Python (%(default)s); thread only for TaskManagers that run one package in their life",
    )
    package.add_argument(
        "--run", dest="submit", action="store_true", help="submit it, with the flink of FLINK_HOME or of apache-flink"
    )
    package.add_argument(
        "--application",
        action="store_true",
        help="print the command of a JobManager that runs this job alone (application mode) instead",
    )
    package.add_argument(
        "--run-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="of `flink run`, such as --run-option='-m jobmanager:8081' or --run-option='-p 4'",
    )
    package.add_argument("job", type=Path, help="path of the script")
    package.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    package.set_defaults(run=_package)


def _package(options: argparse.Namespace) -> int:
    package = build(
        options.job,
        options.out or Path("package") / options.job.stem,
        modules=options.module,
        requirements=options.requirement,
        environment=options.environment,
        python=options.python,
        mode=options.mode,
    )
    run_options = [word for option in options.run_option for word in shlex.split(option)]
    if options.application:
        print(shown(package.application_command(arguments=options.arguments)))
        return 0
    print(shown(package.command(options=run_options, arguments=options.arguments)))
    if not options.submit:
        return 0
    home = os.environ.get("FLINK_HOME")
    flink = Path(home) if home else shell_safe_flink_home()
    environment = {**os.environ, **java_environment(), "FLINK_HOME": str(flink), "_FLINK_HOME_DETERMINED": "true"}
    sys.stdout.flush()
    command = package.command(str(flink / "bin" / "flink"), options=run_options, arguments=options.arguments)
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - Flink's own client
