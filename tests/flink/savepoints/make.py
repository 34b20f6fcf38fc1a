"""Makes the savepoints of this version that later versions must restore: ``python -m tests.flink.savepoints.make``.

One for each execution mode and type of key, each a single ``_metadata`` file, in a folder named after the version. Run
it for each release, and commit what it makes; savepoints of released versions are never made anew.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from tests.flink.programs.keepsake import KINDS, SUSPENDED
from tests.support.flink import MODES, ROOT, FlinkHost, eventually
from tests.support.ledger import lines

HERE = Path(__file__).parent


def this_version() -> str:
    """As pyproject.toml says."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found
    return found[1]


def make(target: Path) -> None:
    """Make the savepoints below ``target``."""
    for mode in MODES:
        with tempfile.TemporaryDirectory() as folder:
            host = FlinkHost(Path(folder) / "host.log")
            try:
                for keys in KINDS:
                    _make(host, mode, keys, Path(folder) / keys, target / f"{mode}-{keys}")
            finally:
                host.close()


def _make(host: FlinkHost, mode: str, keys: str, folder: Path, target: Path) -> None:
    folder.mkdir()
    ledger, outputs = folder / "calls.jsonl", folder / "outputs.jsonl"
    job = host.start(
        "keepsake",
        mode,
        {"ledger": str(ledger), "outputs": str(outputs), "keys": keys, "first": True},
        execution__checkpointing__data_inline_threshold="1 mb",  # everything into one file
    )
    # Each suspended run has made its three calls, and the key that rests got its input after all others.
    eventually(lambda: len(lines(ledger)) >= 3 * SUSPENDED and len(lines(outputs)) >= 2 * SUSPENDED + 1)
    savepoint = Path(job.stop(folder / "savepoints").removeprefix("file:"))
    assert [path.name for path in savepoint.iterdir()] == ["_metadata"]
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    shutil.copy(savepoint / "_metadata", target)
    sys.stdout.write(f"{target.relative_to(HERE)}: {(target / '_metadata').stat().st_size:,} bytes\n")


if __name__ == "__main__":
    make(HERE / this_version())
