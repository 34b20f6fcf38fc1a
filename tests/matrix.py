"""``./dev matrix``: one wheel of this project on each supported Flink and Python, in both execution modes.

Each Flink and Python gets a virtual environment below ``$XDG_CACHE_HOME/flink-agents-py/matrix`` (about 1 GB each),
kept for the next time. The wheel is installed there, and the tests that look at what differs between versions run
against it. Interpreters are looked for on PATH and among pyenv's; what is not there is named in the table.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FLINKS = {"1.20": "~=1.20.5", "2.2": "~=2.2.1", "2.3": "~=2.3.0"}
PYTHONS = ("3.10", "3.11", "3.12")
MODES = ("thread", "process")
NOT_PUBLISHED = {("1.20", "3.12"): "apache-flink 1.20 does not support it"}
TESTS = (
    "tests/flink/test_internals.py",
    "tests/flink/test_settings.py",
    "tests/flink/test_bounded.py",
    "tests/flink/test_savepoint.py",
)
# What the tests above import; apache-flink 1.20 needs the old setuptools beside it.
BESIDE = ("aiohttp", "hypothesis", "jsonschema", "pytest", "pytest-timeout", "pytest-xdist", "setuptools<81")
_CLOSING = re.compile(r"^=* ?(\d+ \w+.*) in [\d.]+s", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """One Flink on one Python."""

    flink: str
    python: str
    interpreter: str | None

    @property
    def why_not(self) -> str | None:
        """Why it cannot be tried here."""
        reason = NOT_PUBLISHED.get((self.flink, self.python))
        return reason or (None if self.interpreter else f"no Python {self.python} on this machine")


def cells(flinks: Sequence[str], pythons: Sequence[str]) -> Iterator[Cell]:
    """All that is asked for."""
    for flink in flinks:
        for python in pythons:
            yield Cell(flink, python, interpreter_of(python))


def interpreter_of(python: str) -> str | None:
    """An interpreter of that version which works."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in [f"python{python}", *map(str, sorted(pyenv.glob(f"{python}.*/bin/python"), reverse=True))]:
        found = shutil.which(candidate)
        if found and _answer([found, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]) == python:
            return found
    return None


def _answer(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def environment_of(cell: Cell, cache: Path, wheel: Path) -> Path:
    """Its virtual environment with ``wheel`` in it; the interpreter."""
    folder = cache / f"flink-{cell.flink}-python-{cell.python}"
    python = folder / "bin" / "python"
    if not _answer([str(python), "-m", "pip", "--version"]):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([str(cell.interpreter), "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"apache-flink{FLINKS[cell.flink]}", f"{wheel}[external]", *BESIDE], check=True)
    subprocess.run([*pip, "--no-deps", "--force-reinstall", str(wheel)], check=True)
    return python


def run_tests(python: Path, mode: str, tests: Sequence[str], folder: Path) -> str:
    """Run the tests of ``mode`` in ``folder``, which has no copy of the package; how they ended, in a few words."""
    command = [str(python), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    # What has no mode in its name is run once, with those of thread mode.
    command += ["-k", "process" if mode == "process" else "not process", *tests]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    log = folder / f"{python.parents[1].name}-{mode}.log"
    with log.open("w", encoding="utf-8") as stream:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=stream, stderr=stream, check=False)
    said = log.read_text(encoding="utf-8", errors="replace")
    closing = _CLOSING.findall(said)
    if done.returncode:
        print(said[-4000:], file=sys.stderr)
    return closing[-1] if closing else f"pytest ended with {done.returncode}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill the table; 0 if every test that ran passed, and some did."""
    parser = argparse.ArgumentParser(prog="matrix", description="The wheel of this project on each Flink and Python.")
    parser.add_argument("--flink", action="append", choices=tuple(FLINKS), help="only this one (repeatable)")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only this one (repeatable)")
    parser.add_argument("--mode", action="append", choices=MODES, help="only this one (repeatable)")
    parser.add_argument("tests", nargs="*", default=TESTS, help=f"default: {' '.join(TESTS)}")
    options = parser.parse_args(arguments)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flink-agents-py" / "matrix"
    cache.mkdir(parents=True, exist_ok=True)
    rows, good = [], []
    with tempfile.TemporaryDirectory(prefix="flink-agents-matrix-") as temporary:
        folder = Path(temporary)
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)],
            check=True,
        )
        (wheel,) = folder.glob("*.whl")
        for part in ("tests", "jobs"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for cell in cells(options.flink or tuple(FLINKS), options.python or PYTHONS):
            for mode in options.mode or MODES:
                if cell.why_not:
                    rows.append((cell.flink, cell.python, mode, f"left out: {cell.why_not}", ""))
                    continue
                print(f"matrix: Flink {cell.flink}, Python {cell.python}, {mode} mode", file=sys.stderr, flush=True)
                started = time.monotonic()
                try:
                    ended = run_tests(environment_of(cell, cache, wheel), mode, options.tests, folder)
                except subprocess.CalledProcessError as error:
                    ended = f"not installed: {error}"
                good.append("passed" in ended and "failed" not in ended and "error" not in ended)
                rows.append((cell.flink, cell.python, mode, ended, f"{time.monotonic() - started:.0f} s"))
    print("| Flink | Python | mode | result | time |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    return 0 if good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
