"""The support job as a user starts it: own tools, an MCP server it starts, a model that is busy now and then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

JOB = Path(__file__).resolve().parents[2] / "jobs" / "react_support.py"


@pytest.mark.flink
@pytest.mark.timeout(300)
def test_every_question_is_answered(tmp_path):
    done = subprocess.run(
        [sys.executable, str(JOB)], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = " ".join(done.stdout.replace("│", " ").split())
    for answer in (
        "6 of 6 questions answered",
        "order 17 is delivered yesterday",
        "you get your money back within 5 days; ticket",
        "is with returns",
        "It takes 2 days to Oslo.",
        "we do not ship to Atlantis.",
        "Please tell me the number of your order.",
        "Sorry, there is no order 99.",
    ):
        assert answer in said
