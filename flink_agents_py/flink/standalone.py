"""A standalone Flink cluster on this machine, out of the installed apache-flink package.

Several processes (a JobManager, TaskManagers that can be killed one by one) on free ports, in a folder of their own::

    with StandaloneCluster(taskmanagers=2) as cluster:
        job_id = cluster.submit("job.py")
        cluster.wait_for_state(job_id, "RUNNING")
        cluster.kill_taskmanager(cluster.taskmanager_pids()[0])
        cluster.start_taskmanager()

From a shell: ``python -m flink_agents_py.flink.standalone start | submit JOB | status | stop``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.flink.installation import (
    free_ports,
    python_path,
    script_environment,
    shell_safe_flink_home,
    write_configuration,
)
from flink_agents_py.flink.package import Package
from flink_agents_py.flink.processes import Daemon, kill_daemon, start_daemon, stop_daemons
from flink_agents_py.flink.rest import JobManagerClient, wait_until

if TYPE_CHECKING:
    from typing_extensions import Self

Setting = str | int | float | bool

_STATE_FILE = "cluster.json"
_STOP_GRACE_S = 10.0


class StandaloneCluster(JobManagerClient):
    """One JobManager and some TaskManagers; also the REST client of that JobManager.

    Args:
        taskmanagers: how many to start.
        slots: task slots of each.
        home: folder for configuration, logs, temporary files and checkpoints; kept when the cluster stops. Without it
            a temporary folder is used and removed.
        config: Flink options that win over the ones set here.
        pythonpath: folders that jobs import from, beside this environment's packages and this project.
        workers: the TaskManagers' Python interpreter. With one that is not this environment's they know nothing of this
            environment and project, as on another machine: jobs must be shipped (``package.py``).
    """

    def __init__(
        self,
        taskmanagers: int = 1,
        slots: int = 1,
        *,
        home: str | Path | None = None,
        config: Mapping[str, Setting] | None = None,
        pythonpath: Sequence[str | Path] = (),
        workers: str | Path | None = None,
    ) -> None:
        self._wanted_taskmanagers = taskmanagers
        self._slots = slots
        self._owns_home = home is None
        self.home = Path(home or tempfile.mkdtemp(prefix="flink-cluster-")).absolute()
        self._config = dict(config or {})
        self._python_path = python_path(pythonpath)
        self._workers = workers
        self._flink = Path()
        self._jobmanager: Daemon | None = None
        self._taskmanagers: list[Daemon] = []
        super().__init__("")

    @classmethod
    def attach(cls, home: str | Path) -> Self:
        """The cluster that runs in ``home``, started by another process.

        Raises:
            EnvironmentSetupError: no cluster was started there.
        """
        state_file = Path(home) / _STATE_FILE
        if not state_file.exists():
            raise EnvironmentSetupError(
                "no cluster is running", where=str(home), fix="start one there first (cluster start)"
            )
        state = json.loads(state_file.read_text(encoding="utf-8"))
        cluster = cls(len(state["taskmanagers"]), state["slots"], home=home, pythonpath=state["pythonpath"])
        cluster.rest_url = state["rest_url"]
        cluster._flink = Path(state["flink"])
        cluster._jobmanager = Daemon(*state["jobmanager"])
        cluster._taskmanagers = [Daemon(*record) for record in state["taskmanagers"]]
        return cluster

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- processes --------------------------------------------------------------------------------------------------

    @property
    def log_dir(self) -> Path:
        """Where each process writes its log (``jobmanager-0.log``, ``taskmanager-0.log``, ...)."""
        return self.home / "log"

    def start(self, *, timeout: float = 240.0) -> Self:
        """Start all processes and wait until every TaskManager has registered.

        Raises:
            EnvironmentSetupError: something is running in ``home`` already, or a process did not come up; the message
                holds the end of its log. Nothing is left running then.
        """
        if (self.home / _STATE_FILE).exists():
            raise EnvironmentSetupError(
                "a cluster has been started here and not been stopped", where=str(self.home), fix="stop it first"
            )
        self._flink = shell_safe_flink_home()
        rest_port, rpc_port = free_ports(2)
        self.rest_url = f"http://localhost:{rest_port}"
        for name in ("log", "tmp"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        write_configuration(
            self.home / "conf",
            {
                "rest.port": rest_port,
                "jobmanager.rpc.port": rpc_port,
                "taskmanager.numberOfTaskSlots": self._slots,
                "io.tmp.dirs": str(self.home / "tmp"),
                "web.tmpdir": str(self.home / "tmp"),
                "web.upload.dir": str(self.home / "tmp"),
                "execution.checkpointing.dir": (self.home / "checkpoints").as_uri(),
                "python.client.executable": sys.executable,
                **self._python(),
                **self._config,
            },
        )
        try:
            self._jobmanager = self._start("jobmanager", 0)
            for _ in range(self._wanted_taskmanagers):
                self.start_taskmanager()
            self.wait_for_taskmanagers(self._wanted_taskmanagers, timeout=timeout)
        except BaseException:
            self.stop()
            raise
        return self

    def _python(self) -> dict[str, Setting]:
        if self._workers is not None:
            # In thread mode an interpreter does not find its packages by itself.
            packages = subprocess.run(  # noqa: S603 - the interpreter we were given
                [str(self._workers), "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            return {"python.executable": str(self._workers), "python.pythonpath": packages}
        return {"python.executable": sys.executable, "python.pythonpath": os.pathsep.join(self._python_path)}

    def _start(self, role: str, number: int) -> Daemon:
        # "start-foreground" replaces the shell by Java: the pid we get is the pid to kill.
        environment = script_environment(self._flink, self.home)
        if self._workers is not None:
            environment.pop("PYTHONPATH", None)
        return start_daemon(
            [str(self._flink / "bin" / f"{role}.sh"), "start-foreground"],
            environment=environment,
            output=self.log_dir / f"{role}-{number}.log",
        )

    def start_taskmanager(self) -> int:
        """Start one more TaskManager and return its pid; it registers some seconds later."""
        self._taskmanagers.append(self._start("taskmanager", len(self._taskmanagers)))
        self._save()
        return self._taskmanagers[-1].pid

    def taskmanager_pids(self) -> list[int]:
        """Pids of the TaskManagers that are alive, oldest first."""
        return [daemon.pid for daemon in self._taskmanagers if daemon.alive()]

    def kill_taskmanager(self, pid: int) -> None:
        """SIGKILL a TaskManager and its Python workers, as if its machine had gone; returns when it is dead.

        Raises:
            ValueError: no TaskManager of this cluster has that pid.
        """
        for daemon in self._taskmanagers:
            if daemon.pid == pid and daemon.alive():
                kill_daemon(daemon)
                return
        raise ValueError(f"{pid} is no living TaskManager of this cluster; those are {self.taskmanager_pids()}")

    def wait_for_taskmanagers(self, count: int, *, timeout: float = 240.0) -> None:
        """Wait until at least ``count`` TaskManagers have registered and offered their slots.

        The JobManager counts a killed one until its heartbeat times out (``heartbeat.timeout``, 50 s unless set).
        """

        def registered() -> bool:
            for role, number, daemon in self._daemons():
                if role == "jobmanager" and not daemon.alive():
                    raise EnvironmentSetupError(f"the {role} has died:\n{self._log_tail(role, number)}")
            try:
                counts = self.overview()
                return bool(counts["taskmanagers"] >= count and counts["slots-total"] >= count * self._slots)
            except EnvironmentSetupError:
                return False  # not up yet

        if not wait_until(registered, timeout):
            tails = "\n".join(
                f"--- {role} {number}\n{self._log_tail(role, number)}" for role, number, _ in self._daemons()
            )
            raise EnvironmentSetupError(
                f"not {count} TaskManagers after {timeout:g} s:\n{tails}", where=str(self.log_dir)
            )

    def stop(self) -> None:
        """Stop what this cluster started and nothing else; harmless if it does not run."""
        stop_daemons((daemon for _, _, daemon in self._daemons()), grace_s=_STOP_GRACE_S)
        self._jobmanager, self._taskmanagers = None, []
        (self.home / _STATE_FILE).unlink(missing_ok=True)
        if self._flink.is_symlink():
            shutil.rmtree(self._flink.parent, ignore_errors=True)
        shutil.rmtree(self.home if self._owns_home else self.home / "tmp", ignore_errors=True)

    def _daemons(self) -> list[tuple[str, int, Daemon]]:
        # TaskManagers first: they are stopped in this order, and complain for long about a JobManager that went away.
        daemons = [("taskmanager", number, daemon) for number, daemon in enumerate(self._taskmanagers)]
        return daemons + ([("jobmanager", 0, self._jobmanager)] if self._jobmanager else [])

    def _log_tail(self, role: str, number: int) -> str:
        path = self.log_dir / f"{role}-{number}.log"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        return "\n".join(lines[-20:])

    def _save(self) -> None:
        state = {
            "rest_url": self.rest_url,
            "flink": str(self._flink),
            "slots": self._slots,
            "pythonpath": self._python_path,
            "jobmanager": [self._jobmanager.pid, self._jobmanager.birth] if self._jobmanager else None,
            "taskmanagers": [[daemon.pid, daemon.birth] for daemon in self._taskmanagers],
        }
        (self.home / _STATE_FILE).write_text(json.dumps(state), encoding="utf-8")

    # --- jobs -------------------------------------------------------------------------------------------------------

    def submit_command(self, job: str | Path | Package, *args: str, options: Sequence[str] = ()) -> list[str]:
        """The command that submits ``job``; ``options`` are those of ``flink run`` (``-p 2``, ``-s SAVEPOINT``)."""
        flink = str(self._flink / "bin" / "flink")
        if isinstance(job, Package):
            return job.command(flink, options=options, arguments=args)
        return [flink, "run", *options, "-pyclientexec", sys.executable, "-py", str(Path(job).absolute()), *args]

    def submit_environment(self) -> dict[str, str]:
        """The environment variables for :meth:`submit_command`."""
        environment = script_environment(self._flink, self.home)
        environment["PYTHONPATH"] = os.pathsep.join([*self._python_path, environment.get("PYTHONPATH", "")])
        return environment

    def submit(
        self,
        job: str | Path | Package,
        *args: str,
        detached: bool = True,
        parallelism: int | None = None,
        savepoint: str | None = None,
        timeout: float = 240.0,
    ) -> str:
        """Submit a PyFlink script and return the id of the job it starts.

        Args:
            job: path of the script, or a package of it.
            args: its arguments.
            detached: return when the job is submitted; otherwise when the script ends.
            parallelism: default parallelism of the job.
            savepoint: path of a savepoint or checkpoint to restore.
            timeout: seconds to wait for the command.

        Raises:
            EnvironmentSetupError: the script failed; the message holds its output.
        """
        options = ["-d"] if detached else []
        if parallelism is not None:
            options += ["-p", str(parallelism)]
        if savepoint is not None:
            options += ["-s", savepoint]
        done = subprocess.run(  # noqa: S603 - Flink's own client with our arguments
            self.submit_command(job, *args, options=options),
            env=self.submit_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
        submitted = re.search(r"submitted with JobID ([0-9a-f]{32})", done.stdout)
        if done.returncode != 0 or submitted is None:
            raise EnvironmentSetupError(
                f"the script submitted no job (exit code {done.returncode}):\n{done.stdout[-6000:]}", where=str(job)
            )
        return submitted[1]


if __name__ == "__main__":
    from flink_agents_py.flink.standalone_cli import main

    sys.exit(main())
