"""Tracebacks of failed actions hold the user's frames alone, unless asked otherwise."""

from __future__ import annotations

import traceback

import pytest

from flink_agents_py import Agent, InputEvent, RunnerContext, action
from flink_agents_py.engine.tracebacks import in_words, trim
from flink_agents_py.errors import ActionFailedError
from flink_agents_py.testing import AgentHarness


def divide(number: int) -> float:
    try:
        return 1 / number
    except ZeroDivisionError as error:
        raise ValueError("no such share") from error


class Divides(Agent):
    @action(InputEvent)
    @staticmethod
    def act(event: InputEvent, ctx: RunnerContext) -> None:
        divide(event.input)


class DividesForLetters(Agent):
    @action(InputEvent, on_error="dead_letter")
    @staticmethod
    def act(event: InputEvent, ctx: RunnerContext) -> None:
        divide(event.input)


def names_of(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_the_frames_of_the_framework_are_left_out_and_the_places_are_in_the_message():
    with pytest.raises(ActionFailedError) as caught:
        AgentHarness(Divides()).feed("ann", 0)
    cause = caught.value.__cause__
    assert names_of(cause) == ["act", "divide"]
    assert names_of(cause.__cause__) == ["divide"]
    first, second = str(caught.value).split("\n    ")[1:3]
    assert "in act: divide(event.input)" in first
    assert 'in divide: raise ValueError("no such share")' in second


def test_they_are_kept_on_request():
    with pytest.raises(ActionFailedError) as caught:
        AgentHarness(Divides(), {"errors.keep-framework-frames": True}).feed("ann", 0)
    names = names_of(caught.value.__cause__)
    assert names[-2:] == ["act", "divide"]
    assert len(names) > 2


def test_dead_letters_carry_the_trimmed_traceback():
    harness = AgentHarness(DividesForLetters())
    harness.feed("ann", 0)
    (letter,) = harness.side_output("dead-letters")
    assert "in divide" in letter["traceback"]
    assert "driver.py" not in letter["traceback"]


def test_an_error_of_the_framework_alone_keeps_its_innermost_frame():
    with pytest.raises(ActionFailedError) as caught:
        AgentHarness(Divides()).feed("ann", 0)
    trim(caught.value)
    assert caught.value.__traceback__ is not None
    assert in_words(ValueError("never raised")) == ""
