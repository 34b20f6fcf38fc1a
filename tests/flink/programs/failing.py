"""An agent that fails in the middle of user code."""

from __future__ import annotations

from typing import Any

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from tests.flink.programs.sinks import discard
from tests.flink.programs.sources import key_of, numbers


def price_of(number: int) -> float:
    """Where the mistake is."""
    return 100 / (number - number)


class FailingAgent(Agent):
    """Divides by zero."""

    @action(InputEvent)
    @staticmethod
    def act(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(price_of(event.input[1])))


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """No spec."""
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    discard(agents.from_datastream(numbers(env, 5, 2), key_of).apply(FailingAgent()).to_datastream(Types.DOUBLE()))
