"""Python programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(code: str | Path, stdin: str = "", **environ: str) -> str:
    """Output of a Python program (its text or its file) in a process of its own."""
    command = [sys.executable, *(["-c", code] if isinstance(code, str) else [str(code)])]
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root, **environ}
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
