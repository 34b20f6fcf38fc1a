"""The agents of ``bench cel``: an echo, and the same with a hundred more actions that no record triggers."""

from __future__ import annotations

from flink_agents_py import Agent, Event, RunnerContext
from jobs.benchmarks.agents import EchoAgent

CONDITIONS = 100


def never(event: Event, ctx: RunnerContext) -> None:
    """An action that no record of the benchmark triggers."""
    raise AssertionError(f"{event.type} of key {ctx.key!r} has triggered it")


def _with(trigger: str) -> type[Agent]:
    class Echo(EchoAgent):
        def __init__(self) -> None:
            super().__init__()
            for number in range(CONDITIONS):
                self.add_action(f"never_{number}", [trigger.format(number)], never)

    return Echo


CEL_AGENTS: dict[str, type[Agent]] = {
    "echo": EchoAgent,
    # As many actions, all triggered by types: what they cost is what the expressions do not.
    "types": _with("other-{}"),
    # Expressions that say of which type their events are: they are not evaluated for others.
    "other_type": _with("type == 'other' && input[1] == -1 - {}"),
    # Evaluated for each record, each false.
    "conditions": _with("input[1] == -1 - {}"),
}
