"""A real MCP server under a job: it need not be there at the start, and may die in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.stores.servers import free_port
from tests.support import mcp_server
from tests.support.flink import eventually
from tests.support.ledger import lines

COUNT = 40
SERVER = mcp_server.__file__


@contextmanager
def http_server(port):
    process = subprocess.Popen([sys.executable, SERVER, "http", str(port)], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def seen(outputs):
    return lines(outputs) if outputs.exists() else []


def gate_of(outputs):
    return outputs.with_name("gate")


def start(hosts, outputs, **server):
    spec = {"server": server, "count": COUNT, "keys": 6, "gate": str(gate_of(outputs)), "outputs": str(outputs)}
    return hosts["thread"].start("mcp", "thread", spec)


def check(outputs):
    assert sorted((line["number"], line["total"]) for line in lines(outputs)) == [(n, n + 100) for n in range(COUNT)]


@pytest.mark.timeout(240)
def test_a_server_over_http_is_waited_for_and_survived(hosts, tmp_path):
    port, outputs = free_port(), tmp_path / "outputs.jsonl"
    job = start(hosts, outputs, url=f"http://127.0.0.1:{port}/mcp")
    with http_server(port):  # the job runs already
        eventually(lambda: len(seen(outputs)) == COUNT // 2, what="outputs of the first server")
    gate_of(outputs).touch()
    with http_server(port):
        job.wait(150)
    check(outputs)
    assert len({line["server"] for line in lines(outputs)}) == 2


@pytest.mark.timeout(240)
def test_a_server_that_the_worker_starts_is_started_again_when_killed(hosts, tmp_path):
    outputs = tmp_path / "outputs.jsonl"
    job = start(hosts, outputs, command=sys.executable, args=[SERVER, "stdio"])
    eventually(lambda: len(seen(outputs)) == COUNT // 2, what="outputs of the first server")
    os.kill(seen(outputs)[0]["server"], signal.SIGKILL)
    gate_of(outputs).touch()
    job.wait(150)
    check(outputs)
    pids = {line["server"] for line in lines(outputs)}
    assert len(pids) == 2
    eventually(lambda: not any(runs(pid) for pid in pids), what="the server has gone with the job")


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
