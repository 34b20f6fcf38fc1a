"""What docker-compose.yml starts, without Docker: its configuration, variables, database and command on a cluster."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from flink_agents_py.flink.installation import python_path
from flink_agents_py.flink.standalone import StandaloneCluster
from flink_agents_py.stores.factory import PASSWORD_VARIABLE, USER_VARIABLE
from tests.stores.servers import PASSWORD, postgres_server

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def options_of_compose(places):
    """What JobManager, TaskManagers and client are configured with, for this machine instead of the containers."""
    environment = YAML(typ="safe").load(COMPOSE)["services"]["jobmanager"]["environment"]
    text = environment["FLINK_PROPERTIES"]
    for place, here in places.items():
        assert place in text, place
        text = text.replace(place, here)
    assert "/opt/" not in text
    return YAML(typ="safe").load(text)


def command_of_compose():
    """The variable and the command that the head of the file says to run in the JobManager's container."""
    said = re.sub(r"\\\n#", "", COMPOSE.read_text(encoding="utf-8"))
    ((name, value, command),) = re.findall(
        r"^# +docker compose exec -e (\w+)=(\w+) jobmanager flink (.*)$", said, re.MULTILINE
    )
    return {name: value}, shlex.split(command)


def records_of(url):
    import psycopg

    with psycopg.connect(url, user="agents", password=PASSWORD) as connection:
        tables = connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        return {
            name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for (name,) in tables.fetchall()
        }


def test_the_command_of_the_compose_file_runs_on_its_configuration_with_its_store(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "jobs").symlink_to(ROOT / "jobs")
    monkeypatch.setenv(USER_VARIABLE, "agents")
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    with postgres_server() as url:
        options = options_of_compose(
            {
                "jobmanager.rpc.address: jobmanager": "jobmanager.rpc.address: localhost",
                "rest.address: jobmanager": "rest.address: localhost",
                "file:///opt/flink/state": tmp_path.as_uri(),
                "/opt/venv/lib/python3/site-packages": os.pathsep.join(python_path()),
                "/opt/venv/bin/python": sys.executable,
                "postgresql://postgres/agents": url,
            }
        )
        taskmanagers = YAML(typ="safe").load(COMPOSE)["services"]["taskmanager"]["deploy"]["replicas"]
        slots = options["taskmanager.numberOfTaskSlots"]
        with StandaloneCluster(taskmanagers, slots, home=tmp_path / "cluster", config=options) as cluster:
            variable, arguments = command_of_compose()
            done = subprocess.run(
                [cluster.submit_command("")[0], *arguments],
                env=cluster.submit_environment() | variable,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            (job,) = cluster.request("GET", "/jobs")["jobs"]
            assert cluster.wait_for_state(job["id"], "FINISHED") == "FINISHED"
        analyses = [json.loads(line) for line in (tmp_path / "out" / "analysis.jsonl").read_text().splitlines()]
        reviews = (ROOT / "jobs/data/demo_reviews.jsonl").read_text().splitlines()
        assert 0 < sum(line["kind"] == "analysis" for line in analyses) <= len(reviews)
        assert sum(records_of(url).values()) >= len(reviews) // 2
