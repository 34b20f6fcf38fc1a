"""One measurement, in a process of its own: ``python -m jobs.benchmarks.run SPEC_JSON``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jobs.benchmarks import gauge

RUN_TIMEOUT_S = 900


@dataclass(frozen=True)
class RunSpec:
    """What one run measures."""

    workload: str
    engine: str
    mode: str
    n: int
    keys: int
    parallelism: int
    event_time: str | None = None  # hold | none: with timestamps and watermarks; None: a stream without either
    store: str = "none"  # backend of the action state store
    store_url: str | None = None
    event_log: str = "OFF"  # level


class RunFailedError(Exception):
    """A run ended without figures; the message says how."""


def measure(spec: RunSpec) -> dict[str, Any]:
    """Run ``spec`` in a fresh process and return what the gauge wrote; whatever the job prints goes to stderr.

    Raises:
        RunFailedError: the process failed, hung, or the job ended before its last record was counted.
    """
    with tempfile.TemporaryDirectory(prefix="flink-agents-bench-") as folder:
        figures = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "jobs.benchmarks.run", json.dumps(asdict(spec))]
        environment = {**os.environ, **gauge.environment(spec.n, figures)}
        root = Path(__file__).resolve().parents[2]
        # A session of its own: the JVM and its Python workers must go when this run is interrupted or hangs.
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command, cwd=root, env=environment, stdout=sys.stderr, start_new_session=True
        )
        try:
            code = process.wait(RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise RunFailedError(f"{_named(spec)} did not end within {RUN_TIMEOUT_S} s") from None
        finally:
            _end(process)
        if code != 0:
            raise RunFailedError(f"{_named(spec)} failed with exit code {code}; its messages are above")
        if not figures.exists():
            raise RunFailedError(f"{_named(spec)} ended before {spec.n} records were counted: records were lost")
        measured: dict[str, Any] = json.loads(figures.read_text())
        return measured


def _named(spec: RunSpec) -> str:
    event_time = f", event time {spec.event_time}" if spec.event_time else ""
    store = f", store {spec.store}" if spec.store != "none" else ""
    return f"the {spec.engine} run of {spec.workload!r} ({spec.mode} mode, n={spec.n}{event_time}{store})"


def _end(process: subprocess.Popen[bytes]) -> None:
    # The group may outlive its leader (a JVM left behind), or be gone already.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main(arguments: list[str]) -> int:
    """Run the job of one spec in this process."""
    from jobs.benchmarks.pipeline import execute

    execute(RunSpec(**json.loads(arguments[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
