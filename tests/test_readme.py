"""Every Python example of the README, and of pages behind it, runs as it stands, each in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Those whose examples are whole programs.
PAGES = [
    ROOT / page
    for page in (
        "README.md",
        "docs/changing-plans.md",
        "docs/declarative-agents.md",
        "docs/external-actions.md",
        "docs/memory-long-term.md",
    )
]
EXAMPLES = [
    (page.stem, example)
    for page in PAGES
    for example in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
]


def as_parameter(number: int, page: str, example: str) -> object:
    marks = [pytest.mark.flink] if "pyflink" in example else []
    if page == "declarative-agents":
        marks.append(pytest.mark.skipif(find_spec("cel") is None, reason="there is no CEL for Python 3.10"))
    return pytest.param(example, id=f"{page} {number}", marks=marks)


@pytest.mark.parametrize("example", [as_parameter(number, *found) for number, found in enumerate(EXAMPLES, 1)])
def test_example_runs(example: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr


def test_there_are_examples() -> None:
    assert {page for page, _ in EXAMPLES} >= {"README", "external-actions"}
