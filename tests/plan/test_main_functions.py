"""Agents written in a script: their functions and classes live in __main__, which no worker can import."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]

AGENT = """
from __future__ import annotations
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING
from pydantic import BaseModel, field_validator
from flink_agents_py import Agent, AgentPlan, Event, InputEvent, action
if TYPE_CHECKING:
    from flink_agents_py import RunnerContext

SCALE = 10

@dataclass
class Point:
    x: int
    y: int = 2

class Part(BaseModel):
    n: int

class Scored(Event):
    score: float
    part: Part = Part(n=1)

    @field_validator("score")
    @classmethod
    def _not_negative(cls, value):
        if value < 0:
            raise ValueError("negative")
        return value

    def scaled(self):
        return scale(self.score)

class OnlyAnnotated(Event):
    EVENT_TYPE = "only-annotated"

def scale(value):
    return value * SCALE

class ScriptAgent(Agent):
    class Nested:
        @staticmethod
        def act(event, ctx):
            return ScriptAgent.__name__

    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    @action(InputEvent)
    def score(event: InputEvent, ctx: RunnerContext) -> None:
        ctx(Scored(score=event))

    @action(Scored)
    async def judge(self, event: Scored, ctx: RunnerContext) -> None:
        ctx((isinstance(event, Scored), event.scaled() > self.threshold, event.part, Point(1)))

    @action(OnlyAnnotated)
    def annotated(event: OnlyAnnotated, ctx: RunnerContext) -> None:
        ctx(type(event).__name__)

def build():
    agent = ScriptAgent(25)
    agent.add_action("lambda", [Scored], lambda event, ctx: ctx(isinstance(event, Scored)))
    agent.add_action("nested", ["x"], ScriptAgent.Nested.act)
    return AgentPlan.from_agent(agent)
"""

WRITE = """
if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        file.write(build().to_json())
"""

USE = """
def use(plan):
    told = []
    tell = told.append
    actions = plan.actions
    actions["score"].callable(3.0, tell)
    event = told.pop()
    assert type(event) is actions["judge"].event_class, (type(event), actions["judge"].event_class)
    assert actions["judge"].is_async
    try:
        actions["judge"].callable(event, tell).send(None)
    except StopIteration:
        pass
    actions["lambda"].callable(event, tell)
    actions["annotated"].callable(actions["annotated"].event_class(), tell)
    print(told, actions["nested"].callable(None, None))
    revived = actions["judge"].event_class.from_event(__import__("flink_agents_py").Event(
        type=event.type, attributes={"score": 4.0, "part": {"n": 7}}))
    print(type(revived) is type(event), revived.score, revived.part.n, event.type)
    try:
        type(event)(score=-1)
    except ValueError as error:
        print("negative" in str(error))
    print(sorted(plan.event_classes()))
"""

READ = (
    USE
    + """
import sys
from flink_agents_py import AgentPlan
text = open(sys.argv[1]).read()
plan = AgentPlan.from_json(text, allow_pickled=True)
assert plan.to_json() == text
use(plan)
"""
)

SAME_PROCESS = (
    USE
    + """
original = Scored(score=3.0)
compiled = build()
text = compiled.to_json()
use(compiled)
for _ in range(2):
    use(AgentPlan.from_json(text, allow_pickled=True))
assert isinstance(original, Scored) and original.scaled() == 30.0 and Scored(score=1).scaled() == 10.0
assert Point(1) == Point(1, 2)
use(build())
"""
)

EXPECTED = """\
[(True, True, Part(n=1), Point(x=1, y=2)), True, 'OnlyAnnotated'] ScriptAgent
True 4.0 7 __main__.Scored
True
['__main__:OnlyAnnotated', '__main__:Scored', 'flink_agents_py.events:InputEvent']
"""


def run(script, *arguments, seed=0):
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,  # the assertion below shows what went wrong
        timeout=280,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(seed)},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def file(folder, name, text):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_a_script_writes_a_plan_that_another_process_runs(tmp_path):
    plan = tmp_path / "plan.json"
    run(file(tmp_path, "script.py", AGENT + WRITE), plan)
    assert run(file(tmp_path, "reader.py", READ), plan) == EXPECTED


def test_the_fingerprint_of_a_script_is_the_same_every_time_it_is_run(tmp_path):
    show = "\nprint(build().fingerprint)\n"
    first = run(file(tmp_path, "a.py", AGENT + show), seed=1)
    assert run(file(tmp_path, "b.py", AGENT.replace("SCALE = 10", "\n\nSCALE = 10") + show), seed=2) == first
    assert run(file(tmp_path, "c.py", AGENT.replace("SCALE = 10", "SCALE = 11") + show)) != first


def test_reading_the_plan_where_it_was_written_leaves_the_scripts_own_classes_alone(tmp_path):
    # PyFlink's process mode runs the operator in the client process when it runs locally.
    assert run(file(tmp_path, "both.py", AGENT + SAME_PROCESS)) == EXPECTED * 4
