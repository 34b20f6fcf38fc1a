"""Installed packages: which a list of requirements needs, and the files of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from flink_agents_py.errors import EnvironmentSetupError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

OURS = "flink-agents-py"
# Java's part of PyFlink: a TaskManager has its own, of the same version.
_JAVA = ("pyflink/lib/", "pyflink/opt/", "pyflink/plugins/", "pyflink/examples/", "pyflink/log/")
# Tens of MB that nothing imports at run time.
_TESTS = re.compile(r"(numpy|pandas|pyarrow)/(.*/)?tests/")


def installed_for(requirements: Iterable[str]) -> dict[str, metadata.Distribution]:
    """What is installed of ``requirements`` and of all they need, by normalised name; this package is left out.

    Raises:
        EnvironmentSetupError: something is not installed, in another version than required, or cannot be read.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    found: dict[str, metadata.Distribution] = {}
    extras: dict[str, set[str]] = {}
    try:
        left = [(Requirement(text), "the command line") for text in requirements]
    except InvalidRequirement as error:
        raise EnvironmentSetupError(
            f"not a requirement: {error}", fix="write it as pip takes it: name[extra]>=1.2"
        ) from (None)
    while left:
        wanted, by = left.pop()
        name = _normalised(wanted.name)
        if name in found and wanted.extras <= extras[name]:
            continue
        found[name] = _installed(wanted, by)
        extras.setdefault(name, set()).update(wanted.extras)
        for text in found[name].requires or []:
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in {"", *extras[name]}):
                left.append((needed, name))
    found.pop(OURS, None)
    return dict(sorted(found.items()))


def _installed(wanted: Requirement, by: str) -> metadata.Distribution:
    try:
        distribution = metadata.distribution(wanted.name)
    except metadata.PackageNotFoundError:
        raise EnvironmentSetupError(
            f"{wanted.name} is not installed", where=f"required by {by}", fix=f"pip install '{wanted}'"
        ) from None
    if wanted.specifier and not wanted.specifier.contains(distribution.version, prereleases=True):
        raise EnvironmentSetupError(
            f"{wanted.name} {distribution.version} is installed, not {wanted.specifier}",
            where=f"required by {by}",
            fix=f"pip install '{wanted.name}{wanted.specifier}'",
        )
    return distribution


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def files_of(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Name below site-packages and place of each file a worker may need.

    Raises:
        EnvironmentSetupError: its files lie elsewhere (an editable installation), or are not known.
    """
    name = distribution.metadata["Name"]
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable") or distribution.files is None:
        raise EnvironmentSetupError(
            f"the files of {name} cannot be told: it is installed in editable mode, or not by a Python installer",
            fix=f"ship its folder with --module, or pip install {name} without -e",
        )
    for file in distribution.files:
        inside = file.as_posix()
        place = Path(str(distribution.locate_file(file)))
        # ".." leads to scripts: their first line names this machine's interpreter.
        if not inside.startswith(("../", "/", *_JAVA)) and not _TESTS.match(inside) and place.is_file():
            yield inside, place
