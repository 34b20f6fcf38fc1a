"""What a job needs on a cluster, in one folder: its script, code, and a Python environment for the workers."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shlex
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import flink_agents_py
from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.flink.distributions import OURS, files_of, installed_for
from flink_agents_py.flink.installation import ARCHIVE, ARCHIVE_PYTHON

if TYPE_CHECKING:
    from typing_extensions import Self

Environment = Literal["libraries", "archive", "requirements", "none"]

_MANIFEST, _CODE, _REQUIREMENTS = "package.json", "code.zip", "requirements.txt"
_LIBRARIES, _ARCHIVE_FILE = "libraries.zip", "environment.tar.gz"
_FAST = 1  # level of compression: an environment is packed often and sent over a fast network
_DRIVER = "org.apache.flink.client.python.PythonDriver"
_LEFT_OUT = ("__pycache__", ".git", ".venv")


@dataclass(frozen=True)
class Package:
    """A folder that :func:`build` has made.

    Args:
        folder: where it is.
        job: name of the script in it.
        environment: where the workers' packages come from. TaskManagers have apache-flink and ``libraries.zip`` brings
            the rest; or they have nothing but Python, and an archive brings all; or they have apache-flink and pip
            installs ``requirements.txt`` there; or they have everything.
        python: the workers' interpreter.
        mode: ``python.execution-mode``.
        flink: version of apache-flink it was made with.
        digest: of the code in it.
        contents: of the libraries or the archive, as a digest.
    """

    folder: Path
    job: str
    environment: Environment
    python: str
    mode: str
    flink: str
    digest: str
    contents: str

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The package in ``folder``.

        Raises:
            EnvironmentSetupError: there is none.
        """
        try:
            return cls(folder, **json.loads((folder / _MANIFEST).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise EnvironmentSetupError(
                "this is no package", where=str(folder), fix="build one: flink-agents-py package JOB --out FOLDER"
            ) from error

    def run_options(self) -> list[str]:
        """Options of ``flink run`` that ship what is in the folder."""
        files = [_CODE, _LIBRARIES] if self.environment == "libraries" else [_CODE]
        shipped = ",".join(str(self.folder / file) for file in files)
        options = [f"-Dpython.execution-mode={self.mode}", "-pyfs", shipped]
        if self.environment == "archive":
            options += ["-pyarch", f"{self.folder / _ARCHIVE_FILE}#{ARCHIVE}"]
        elif self.environment == "requirements":
            options += ["-pyreq", str(self.folder / _REQUIREMENTS)]
        return [*options, "-pyexec", self.python]

    def command(
        self,
        flink: str = "flink",
        *,
        options: Sequence[str] = (),
        arguments: Sequence[str] = (),
        client_python: str = sys.executable,
    ) -> list[str]:
        """The command that submits the job.

        Args:
            flink: Flink's command line client.
            options: more of ``flink run``'s, such as ``-p 2``, ``-s SAVEPOINT``, ``-t kubernetes-session``.
            arguments: of the job.
            client_python: the interpreter the script itself runs in; it must have this package.
        """
        job = ["-pyclientexec", client_python, "-py", str(self.folder / self.job)]
        return [flink, "run", *options, *self.run_options(), *job, *arguments]

    def application_command(self, *, arguments: Sequence[str] = (), client_python: str = sys.executable) -> list[str]:
        """The command that starts a JobManager for this job alone, in application mode.

        Flink's ``flink-python`` jar must be in its ``lib`` folder, and the folder of the package where it is here.
        """
        dynamic, *shipped = self.run_options()
        driver = ["--job-classname", _DRIVER, dynamic, *shipped]
        job = ["-pyclientexec", client_python, "-py", str(self.folder / self.job)]
        return ["standalone-job.sh", "start-foreground", *driver, *job, *arguments]


def shown(command: Sequence[str]) -> str:
    """A command for a person to read or copy, a few words a line."""
    lines: list[list[str]] = []
    for word in command:
        if not lines or word.startswith("-"):
            lines.append([])
        lines[-1].append(word)
    return " \\\n  ".join(shlex.join(line) for line in lines)


def build(
    job: Path,
    folder: Path,
    *,
    modules: Sequence[Path] = (),
    requirements: Sequence[str] = (),
    environment: Environment = "libraries",
    python: str | None = None,
    mode: str = "process",
) -> Package:
    """Fill ``folder``; what is in it already and still right is kept.

    Args:
        job: the script.
        folder: made if it does not exist.
        modules: files and folders of Python packages the job imports.
        requirements: of the job, beside this package's own: as pip takes them, and installed here. Their versions here
            are the ones shipped.
        environment: see :class:`Package`.
        python: the workers' interpreter on the TaskManagers' machines: that which an archive's environment is of
            (default: where this one is installed), else the one that has apache-flink (default: ``python``).
        mode: ``process`` or ``thread``.

    Raises:
        EnvironmentSetupError: something is missing or does not fit.
    """
    if mode == "thread" and environment == "archive":
        raise EnvironmentSetupError(
            "thread mode embeds an interpreter in the TaskManager, which cannot come with a job",
            where="--mode thread --environment archive",
            fix="--mode process; or TaskManagers that have apache-flink, and another --environment",
        )
    for path in (job, *modules):
        if not path.exists():
            raise EnvironmentSetupError(f"there is no {path}")
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(job, folder / job.name)
    digest = _write_code(folder / _CODE, modules)
    needed = installed_for([OURS, *requirements])
    of_flink = installed_for(["apache-flink"])
    rest = {name: found for name, found in needed.items() if name not in of_flink}
    pins = [f"{name}=={found.version}\n" for name, found in rest.items()]
    (folder / _REQUIREMENTS).write_text("".join(pins), encoding="utf-8")
    base = Path(python or os.path.realpath(sys.executable))
    contents = _digest_of(environment, needed, base)
    if contents != _contents_before(folder):
        if environment == "libraries":
            _write_libraries(folder / _LIBRARIES, rest)
        elif environment == "archive":
            _write_archive(folder / _ARCHIVE_FILE, needed, base)
    package = Package(
        folder=folder,
        job=job.name,
        environment=environment,
        python=ARCHIVE_PYTHON if environment == "archive" else python or "python",
        mode=mode,
        flink=metadata.version("apache-flink"),
        digest=digest,
        contents=contents,
    )
    manifest = {key: value for key, value in asdict(package).items() if key != "folder"}
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return package


def _contents_before(folder: Path) -> str:
    try:
        return Package.open(folder).contents
    except EnvironmentSetupError:
        return ""


def _write_code(target: Path, modules: Sequence[Path]) -> str:
    """Write the zip, return a digest of it; the same code gives the same bytes."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(_code_files([Path(flink_agents_py.__file__).parent, *modules])):
            content = path.read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
            # With a fixed time: 1980 is the earliest that a zip knows.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return digest.hexdigest()


def _code_files(modules: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for module in map(Path.absolute, modules):
        if module.is_file():
            yield module.name, module
            continue
        for path in module.rglob("*"):
            inside = path.relative_to(module.parent)
            if path.is_file() and not set(inside.parts) & set(_LEFT_OUT):
                yield inside.as_posix(), path


def _digest_of(environment: str, needed: Mapping[str, metadata.Distribution], base: Path) -> str:
    versions = [f"{name}=={found.version}" for name, found in needed.items()]
    text = "\n".join([environment, *versions, str(base), platform.platform(), sys.version])
    return hashlib.sha256(text.encode()).hexdigest()


def _write_libraries(target: Path, needed: Mapping[str, metadata.Distribution]) -> None:
    aside = target.with_suffix(".part")
    with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED, compresslevel=_FAST) as archive:
        for distribution in needed.values():
            for inside, place in files_of(distribution):
                if not inside.endswith(".pyc"):  # a zip keeps times to two seconds: they would not be valid
                    archive.write(place, inside)
    aside.replace(target)


def _write_archive(target: Path, needed: Mapping[str, metadata.Distribution], base: Path) -> None:
    """A virtual environment of the interpreter ``base``: what is in it is found relative to its ``bin/python``."""
    version = ".".join(map(str, sys.version_info[:2]))
    aside = target.with_suffix(".part")
    with tarfile.open(aside, "w:gz", compresslevel=_FAST) as archive:
        link = tarfile.TarInfo(ARCHIVE_PYTHON.partition("/")[2])
        link.type, link.linkname = tarfile.SYMTYPE, str(base)
        archive.addfile(link)
        settings = f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {version}\n".encode()
        configuration = tarfile.TarInfo("pyvenv.cfg")
        configuration.size, configuration.mode = len(settings), 0o644
        archive.addfile(configuration, io.BytesIO(settings))
        for distribution in needed.values():
            for inside, place in files_of(distribution):
                # Compiled files are valid for sources of this time, so it is kept.
                archive.add(place, f"lib/python{version}/site-packages/{inside}", recursive=False)
    aside.replace(target)
