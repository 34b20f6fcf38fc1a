"""kill -9 at any moment: each item is there once, in itself or in a summary."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.long_term.kit import stored
from tests.support.flink import say

ROOT = Path(__file__).parents[2]
COUNT, KILLS = 200, 3


def numbers_in(path):
    return Counter(text for document in stored(path) for text in document.content.split(" + "))


def test_a_process_that_adds_and_compacts_is_killed_again_and_again(tmp_path):
    path, draw = tmp_path / "memory.db", random.Random(1)
    command = [sys.executable, "-m", "tests.long_term.killed", str(path), str(COUNT)]
    there, killed = 0, 0
    for _ in range(KILLS):
        process = subprocess.Popen(command, cwd=ROOT)
        until = there + draw.randrange(10, 60)
        while process.poll() is None and (not path.exists() or sum(numbers_in(path).values()) < until):
            time.sleep(draw.random() / 50)
        process.kill()
        killed += process.wait() != 0
        found = numbers_in(path)
        assert max(found.values()) == 1
        assert sum(found.values()) >= there
        there = sum(found.values())
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    assert numbers_in(path) == Counter(f"number {number}" for number in range(COUNT))
    assert killed == KILLS
    left = len(stored(path))
    assert left < COUNT // 2
    say(f"{killed} kills, {COUNT} items added, {left} left")
