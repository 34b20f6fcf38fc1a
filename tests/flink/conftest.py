"""The processes in which Flink runs, one for each execution mode and session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.flink import FlinkHost


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, FlinkHost]]:
    """By name; each starts with its first job."""
    logs = tmp_path_factory.mktemp("flink-hosts")
    with ExitStack() as stack:
        hosts = {}
        for name, environ in {
            "thread": {},
            "process": {},
            # Workers of process mode in processes of their own, which can be killed (locally they are threads of the
            # client otherwise).
            "workers": {"_python_worker_execution_mode": "process"},
        }.items():
            hosts[name] = FlinkHost(logs / f"{name}.log", **environ)
            stack.callback(hosts[name].close)
        yield hosts


@pytest.fixture(params=["thread", "process"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def host(mode: str, hosts: dict[str, FlinkHost]) -> FlinkHost:
    return hosts[mode]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return tmp_path / "outputs.jsonl"
