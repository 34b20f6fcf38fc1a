"""The digest of by-value functions: other when the behaviour is, the same in every process."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flink_agents_py.plan.codedigest import code_digest

SCRIPT = """
import functools, logging, re
from enum import Enum
from flink_agents_py import events
from flink_agents_py.agent import Agent
from flink_agents_py.plan.codedigest import code_digest
{padding}
class Colour(Enum):
    RED = 1
class Scored(events.Event):
    score: float
    def good(self): return self.score > LIMIT
LIMIT = {limit}
log = logging.getLogger("x")
WORDS = {{"a", "b", "c", "d"}}
TABLE = {{"f": lambda x: x, "g": Colour.RED}}
def helper(x, *, words=frozenset({{"p", "q", "r", "s"}})): return x in words or recursive(x)
def recursive(x): return helper(x) if x else TABLE["f"](WORDS)
def act(event, ctx):
    log.info("x")
    if re.match("a", event.text) and helper(event) in {{"k", "l", "m"}}: ctx.send_event(Scored(score=LIMIT))
class A(Agent):
    def __init__(self, t): super().__init__(); self.t = t; self.log = log
    def m(self, event, ctx): return self.t
print(code_digest(act), code_digest(functools.partial(act, 1)), code_digest(A(0.5).m))
"""


def digests(seed, limit=3, padding=""):
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(limit=limit, padding=padding)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    return result.stdout.split()


def test_it_is_the_same_in_every_process_whatever_the_hash_seed_and_the_line_numbers():
    assert digests(1) == digests(2, padding="\n\n# a comment\n")


def test_a_changed_global_constant_of_the_script_changes_it():
    before, after = digests(1), digests(1, limit=4)
    assert before[0] != after[0]
    assert before[2] == after[2]


class Slotted:
    __slots__ = ("answer",)

    def __init__(self, answer):
        self.answer = answer

    def __call__(self, event, ctx):
        return self.answer


def made(value):
    return lambda event, ctx: value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (made(1), made(2)),
        (made(1), made(True)),
        (made(len), made(repr)),
        (made([].append), made([1].append)),
        (Slotted(1), Slotted(2)),
        (made([1, 2]), made([2, 1])),
        (functools.partial(made(1), 1), functools.partial(made(1), 2)),
        (lambda event, ctx, n=1: n, lambda event, ctx, n=2: n),
        (lambda event, ctx: event.a, lambda event, ctx: event.b),
    ],
)
def test_a_change_of_behaviour_changes_it(one, other):
    assert code_digest(one) != code_digest(other)


def test_equal_closures_have_equal_digests_whatever_the_order_of_their_dictionaries():
    assert code_digest(made({"a": 1, "b": {2, 3}})) == code_digest(made({"b": {3, 2}, "a": 1}))


def test_values_that_contain_themselves_are_described_once():
    loop = []
    loop.append(loop)
    assert code_digest(made(loop)) == code_digest(made(loop))
