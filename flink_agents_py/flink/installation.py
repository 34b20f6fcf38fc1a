"""The Flink that comes with the apache-flink package: where it is, and a configuration of our own for it."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import socket
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.flink.java import java_environment

# Below those that a system gives to outgoing connections and to whoever binds port 0: none of these takes a port by
# chance between the moment it was found free and the moment it is used.
_PORTS = range(20_000, 32_768)

ARCHIVE = "environment"
"""What a packaged environment is called where a job's archives are unpacked."""
ARCHIVE_PYTHON = f"{ARCHIVE}/bin/python"


def flink_home() -> Path:
    """The folder with Flink's ``bin``, ``conf`` and ``lib``.

    Raises:
        EnvironmentSetupError: apache-flink is not installed.
    """
    spec = importlib.util.find_spec("pyflink")
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentSetupError("pyflink cannot be imported", fix="pip install apache-flink")
    return Path(spec.submodule_search_locations[0])


def shell_safe_flink_home() -> Path:
    """:func:`flink_home`, or a link to it in a new temporary folder: Flink's shell scripts break on a space in it."""
    home = flink_home()
    if " " not in str(home):
        return home
    link = Path(tempfile.mkdtemp(prefix="flink-home-")) / "flink"
    link.symlink_to(home, target_is_directory=True)
    return link


def python_path(extra: Sequence[str | Path] = ()) -> list[str]:
    """Folders a worker imports from: ``extra``, this environment's packages, and where this package lies.

    Named one by one, as the interpreter of thread mode knows no virtual environment and reads no ``.pth`` file, by
    which an editable installation is found.
    """
    packages: list[str | Path] = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), flink_home().parent]
    project = Path(__file__).parents[2]
    return list(dict.fromkeys(str(Path(folder).absolute()) for folder in [*extra, *packages, project]))


def free_ports(count: int) -> list[int]:
    """That many different TCP ports of localhost which nobody listens on now."""
    free: list[int] = []
    with ExitStack() as stack:
        for port in random.sample(_PORTS, len(_PORTS)):
            if len(free) == count:
                break
            probe = stack.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("localhost", port))
                free.append(port)
    return free


def write_configuration(directory: Path, settings: Mapping[str, Any]) -> None:
    """Fill ``directory`` with a copy of Flink's own configuration, changed by ``settings``."""
    from ruamel.yaml import YAML  # a dependency of apache-flink

    shutil.copytree(flink_home() / "conf", directory, dirs_exist_ok=True)
    file = directory / "config.yaml"
    merged = {**_flatten(YAML(typ="safe").load(file) or {}), **settings}
    # JSON scalars are YAML scalars; one line a key is what Flink's shell scripts can read too.
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in merged.items()]
    file.write_text("".join(lines), encoding="utf-8")


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def script_environment(flink: Path, home: Path) -> dict[str, str]:
    """Environment of the scripts of ``flink`` for a cluster in ``home``; nothing of another Flink leaks in."""
    ours = {
        name: value
        for name, value in os.environ.items()
        # What is for our workers (credentials of stores, failpoints) begins like Flink's own.
        if name.startswith("FLINK_AGENTS_") or not name.startswith(("FLINK_", "_FLINK_", "_PYFLINK"))
    }
    ours.update(java_environment())
    # Flink's scripts would resolve a link; this is how pyflink-shell.sh tells them not to.
    ours["FLINK_HOME"] = str(flink)
    ours["_FLINK_HOME_DETERMINED"] = "true"
    ours["FLINK_CONF_DIR"] = str(home / "conf")
    ours["FLINK_LOG_DIR"] = str(home / "log")
    ours["FLINK_PID_DIR"] = str(home / "tmp")
    # The default is $USER, which need not be set.
    ours["FLINK_IDENT_STRING"] = "agents"
    return ours
