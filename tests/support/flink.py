"""Flink jobs of tests: each runs on a MiniCluster of its own in a process with a JVM, which many tests share.

A program is a module of ``tests/flink/programs`` with ``build(env, spec)``. It runs in another process than the test:
nothing but its JSON spec and the files it writes goes between the two.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.flink.installation import free_ports
from flink_agents_py.flink.java import java_environment
from flink_agents_py.flink.rest import JobManagerClient

ROOT = Path(__file__).resolve().parents[2]
MODES = ("thread", "process")
PATIENCE_S = 200
"""How long a test waits for what is certain to come: much longer than a slow and busy machine takes."""

T = TypeVar("T")


class HostError(AssertionError):
    """The host could not do what it was asked."""


class Job(JobManagerClient):
    """A job that was started; its JobManager answers REST requests while it runs."""

    def __init__(self, host: FlinkHost, rest_url: str, job_id: str) -> None:
        super().__init__(rest_url)
        self.host = host
        self.id = job_id

    def restored(self) -> dict[str, Any] | None:
        """The checkpoint statistics once the job has been restored, ``None`` before."""
        checkpoints = self.checkpoints_if_up()
        return checkpoints if checkpoints and checkpoints["latest"]["restored"] else None

    def checkpoints_if_up(self) -> dict[str, Any] | None:
        """The checkpoint statistics; ``None`` if its JobManager cannot tell now, an error if the job has ended."""
        try:
            return self.checkpoints(self.id)
        except EnvironmentSetupError:  # its JobManager is not up yet, or has gone with the job
            self.check_runs()
            return None

    def check_runs(self) -> bool:
        """True, or an error that says how the job has ended."""
        assert self.host.ask("running"), self.failure() or "the job has finished"
        return True

    def wait_for_checkpoint(self) -> None:
        """Wait until a checkpoint that is triggered after this moment is complete."""
        now = time.time() * 1000
        eventually(lambda: completed_after(self.checkpoints_if_up(), now), what="a checkpoint is complete")

    def stop(self, directory: Path) -> str:
        """Stop with a savepoint; its path."""
        while True:
            try:
                return str(self.host.ask("stop", directory=directory.as_uri()))
            except HostError as error:
                if "is not being executed at the moment" not in str(error):  # a source is just ending: ask again
                    raise
            time.sleep(0.5)

    def wait(self, timeout: float = PATIENCE_S) -> None:
        """Wait until the job has finished, and fine."""
        error = self.failure(timeout)
        assert not error, error

    def failure(self, timeout: float = PATIENCE_S) -> str:
        """Wait until the job has ended; why it failed, ``""`` if it has not."""
        return str(self.host.ask("wait", timeout=timeout))


_JOBS_A_PROCESS = 6
"""In process mode. Each job leaves some 60 threads of PyFlink behind, which all wake up once a second."""


class FlinkHost:
    """The process jobs run in. ``environ`` is added to its environment."""

    def __init__(self, log: Path, **environ: str) -> None:
        self._log = log
        self._environ = environ
        self._process: subprocess.Popen[str] | None = None
        self._answers: Any = None
        self._left = _JOBS_A_PROCESS

    def start(
        self, program: str, mode: str, spec: dict[str, Any] | None = None, *, parallelism: int = 1, **options: Any
    ) -> Job:
        """Start a job. ``options`` are Flink's, with ``__`` for a dot and ``_`` for a dash."""
        self.ask("cancel")  # of a test that failed before its job ended
        if mode == "process":
            self._left -= 1
            if self._left < 0:
                self.close()
        (port,) = free_ports(1)
        settings = {
            "python.execution-mode": mode,
            "parallelism.default": parallelism,
            "pipeline.max-parallelism": 128,
            "rest.port": port,
            "rest.bind-port": port,
            "web.checkpoints.history": 1000,
            "web.refresh-interval": 100,  # what it tells is up to so many ms old
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 0,
            **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
        }
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()}
        job_id = self.ask("start", program=program, spec={"mode": mode, **(spec or {})}, options=texts)
        return Job(self, f"http://localhost:{port}", job_id)

    def run(self, program: str, mode: str, spec: dict[str, Any] | None = None, **options: Any) -> None:
        """Run a job to its end."""
        self.start(program, mode, spec, **options).wait()

    def call(self, function: str, **spec: Any) -> Any:
        """What ``module:function`` answers in the host."""
        return self.ask("call", function=function, spec=spec)

    def ask(self, request: str, **arguments: Any) -> Any:
        """Send a request, wait for its answer."""
        process = self._running()
        assert process.stdin is not None
        process.stdin.write(json.dumps([request, arguments]) + "\n")
        process.stdin.flush()
        line = self._answers.readline()
        if not line:
            self.close()
            raise HostError(f"the Flink process has died; end of its log:\n{self.log_tail()}")
        answer = json.loads(line)
        if "error" in answer:
            raise HostError(f"{request} failed:\n{answer['error']}")
        return answer["result"]

    def log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])

    @property
    def pid(self) -> int:
        return self._running().pid

    def _running(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        reader, writer = os.pipe()
        environment = {**os.environ, **java_environment(), "PYTHONPATH": str(ROOT), **self._environ}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.flink_host", str(writer)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[writer],
                start_new_session=True,  # so that the JVM and the workers can be ended with it
                text=True,
            )
        os.close(writer)
        self._answers = os.fdopen(reader, encoding="utf-8")
        return self._process

    def close(self) -> None:
        """End the process and all it has started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._answers.close()
            self._process = None
            self._left = _JOBS_A_PROCESS


def completed_after(checkpoints: dict[str, Any] | None, moment: float) -> bool:
    """Whether a checkpoint that was triggered after ``moment``, ms since the epoch, is complete."""
    return checkpoints is not None and any(
        entry["status"] == "COMPLETED" and entry["trigger_timestamp"] > moment for entry in checkpoints["history"]
    )


def eventually(condition: Callable[[], T], *, timeout: float = PATIENCE_S, what: str = "") -> T:
    """Ask again and again until the answer is true, and return it."""
    deadline = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what or condition}"
        time.sleep(0.1)


def say(figures: str) -> None:
    """Figures for whoever runs the tests with ``-s``, or for the report of a failure."""
    print(figures)  # noqa: T201 - the figures of a run are read by people
