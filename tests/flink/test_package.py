"""What a package has in it, and the commands made of it; tests/flink/test_shipped.py runs some on a cluster."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from flink_agents_py.cli import main
from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.flink.distributions import files_of, installed_for
from flink_agents_py.flink.package import Package, build


@pytest.fixture
def job(tmp_path):
    (tmp_path / "mine" / "__pycache__").mkdir(parents=True)
    (tmp_path / "mine" / "__pycache__" / "x.pyc").touch()
    (tmp_path / "mine" / "__init__.py").write_text("ANSWER = 42\n")
    script = tmp_path / "job.py"
    script.write_text("import mine\n")
    return script


def names_in(file):
    with zipfile.ZipFile(file) as archive:
        return set(archive.namelist())


def test_code_and_what_apache_flink_does_not_bring_are_in_the_folder(job, tmp_path):
    package = build(job, tmp_path / "out", modules=[tmp_path / "mine"], requirements=["flink-agents-py[external]"])
    code, libraries = names_in(package.folder / "code.zip"), names_in(package.folder / "libraries.zip")
    assert {"mine/__init__.py", "flink_agents_py/agent.py", "flink_agents_py/plan/agent_plan.schema.json"} <= code
    assert not [name for name in code if "__pycache__" in name]
    assert {"pydantic/__init__.py", "aiohttp/__init__.py"} <= libraries
    assert not [name for name in libraries if name.startswith(("pyflink/", "numpy/", "flink_agents_py/"))]
    assert f"pydantic=={metadata.version('pydantic')}\n" in (package.folder / "requirements.txt").read_text()
    assert Package.open(package.folder) == package


def test_the_libraries_can_be_imported_where_they_are_unpacked(job, tmp_path):
    package = build(job, tmp_path / "out", modules=[tmp_path / "mine"])
    for name in ("code", "libraries"):
        zipfile.ZipFile(package.folder / f"{name}.zip").extractall(tmp_path / name)
    looked = (
        "import sys; sys.path[:0] = sys.argv[1:]; import flink_agents_py, mine, pydantic\n"
        "assert all(m.__file__.startswith(p) for m, p in zip((flink_agents_py, pydantic), sys.argv[1:]))\n"
        "print(mine.ANSWER)"
    )
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}"
    command = [base, "-I", "-c", looked, tmp_path / "code", tmp_path / "libraries"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "42\n", done.stderr


def test_a_package_is_built_again_only_where_something_has_changed(job, tmp_path):
    out = tmp_path / "out"
    first = build(job, out, modules=[tmp_path / "mine"])
    code, libraries = (out / "code.zip").read_bytes(), (out / "libraries.zip").stat().st_mtime_ns
    assert build(job, out, modules=[tmp_path / "mine"]) == first
    assert (out / "code.zip").read_bytes() == code
    (tmp_path / "mine" / "__init__.py").write_text("ANSWER = 43\n")
    assert build(job, out, modules=[tmp_path / "mine"]).digest != first.digest
    assert (out / "libraries.zip").stat().st_mtime_ns == libraries
    assert build(job, out, requirements=["aiohttp"]).contents != first.contents
    assert (out / "libraries.zip").stat().st_mtime_ns > libraries


def test_an_archive_is_an_environment_that_runs_where_it_is_unpacked(job, tmp_path, monkeypatch):
    # All of apache-flink takes too long for a test.
    few = installed_for(["pydantic"])
    monkeypatch.setattr("flink_agents_py.flink.package.installed_for", lambda requirements: few)
    package = build(job, tmp_path / "out", environment="archive")
    with tarfile.open(package.folder / "environment.tar.gz") as archive:
        archive.extractall(tmp_path / "there" / "environment", filter="fully_trusted")
    looked = "import pydantic, sys; print(pydantic.__file__, sys.version_info[:2])"
    command = [tmp_path / "there" / package.python, "-c", looked]
    done = subprocess.run(command, capture_output=True, text=True, env={}, cwd=tmp_path, check=False)
    assert done.stdout.startswith(str(tmp_path / "there" / "environment" / "lib")), done.stderr
    assert done.stdout.endswith(f"{sys.version_info[:2]}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "-Dpython.execution-mode=process -pyfs OUT/code.zip,OUT/libraries.zip -pyexec python"),
        (
            ["--environment", "none", "--mode", "thread", "--python", "/opt/venv/bin/python"],
            "-Dpython.execution-mode=thread -pyfs OUT/code.zip -pyexec /opt/venv/bin/python",
        ),
        (
            ["--environment", "requirements"],
            "-Dpython.execution-mode=process -pyfs OUT/code.zip -pyreq OUT/requirements.txt -pyexec python",
        ),
    ],
)
def test_the_command_that_submits_it_is_printed(job, tmp_path, capsys, arguments, said):
    out = tmp_path / "out"
    given = ["--out", str(out), *arguments, "--run-option=-p 4 -s sp", str(job), "--rate", "5"]
    assert main(["package", *given]) == 0
    printed = capsys.readouterr().out.replace("\\\n", "")
    ending = f"-pyclientexec {sys.executable} -py {out}/job.py --rate 5"
    assert shlex.split(printed) == shlex.split(f"flink run -p 4 -s sp {said.replace('OUT', str(out))} {ending}")
    assert main(["package", "--application", *given]) == 0
    printed = capsys.readouterr().out.replace("\\\n", "")
    assert shlex.split(printed) == shlex.split(
        "standalone-job.sh start-foreground --job-classname org.apache.flink.client.python.PythonDriver "
        f"{said.replace('OUT', str(out))} {ending}"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--requirement", "no-such-thing>=1"], "fix: pip install 'no-such-thing>=1'"),
        (["--requirement", "pydantic<1"], "is installed, not <1"),
        (["--requirement", "a b"], "not a requirement"),
        (["--module", "gone"], "there is no gone"),
        (["--mode", "thread", "--environment", "archive"], "thread mode embeds an interpreter"),
    ],
)
def test_what_cannot_be_shipped_is_told(job, tmp_path, capsys, arguments, told):
    assert main(["package", "--out", str(tmp_path / "out"), *arguments, str(job)]) == 1
    assert told in capsys.readouterr().err


def test_editable_installations_are_not_shipped_by_halves():
    with pytest.raises(EnvironmentSetupError, match="editable"):
        list(files_of(metadata.distribution("flink-agents-py")))
