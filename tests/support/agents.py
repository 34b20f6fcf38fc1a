"""Small agents for tests of the engine, and ways to disturb them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flink_agents_py.agent import Agent
from flink_agents_py.events import InputEvent
from flink_agents_py.testing import AgentHarness

LONG_S = 30.0
"""Longer than any resume timer."""


def agent_of(*actions: Callable[..., Any], on: Any = InputEvent, **options: Any) -> Agent:
    """An agent whose actions all listen to the same events."""
    agent = Agent()
    for action in actions:
        agent.add_action(action.__name__, [on], action, **options)
    return agent


def restart(harness: AgentHarness) -> None:
    """Crash, restore the state of this moment, and let timers resume what was interrupted."""
    harness.restore(harness.snapshot())
    harness.advance(LONG_S)


def finish_all(harness: AgentHarness) -> int:
    """Make every call that comes up for real; how many there were."""
    made = 0
    while harness.calls:
        harness.calls[0].run()
        made += 1
    return made
