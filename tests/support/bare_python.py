"""A Python that has apache-flink and what that needs, and nothing of this project: a TaskManager's, elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from flink_agents_py.flink.distributions import installed_for


def python_with_apache_flink(folder: Path) -> Path:
    """Make it in ``folder``, return the interpreter; its packages are links to those installed here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for distribution in installed_for(["apache-flink"]).values():
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] != ".."}:
            link = packages / top
            if not link.exists():
                link.symlink_to(distribution.locate_file(top))
    return folder / "bin" / "python"
