"""Files that any number of processes add lines to, and that survive all of them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


def append(path: str, **record: Any) -> None:
    """Add a line with the time (ms since the epoch) and the process: one write, so that lines never mix."""
    line = json.dumps({**record, "at": time.time() * 1000, "pid": os.getpid()}) + "\n"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def read(path: Path) -> list[dict[str, Any]]:
    """All lines that are complete."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
