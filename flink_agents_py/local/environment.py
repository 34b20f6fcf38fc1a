"""The environment without Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from flink_agents_py.environment import AgentBuilder, AgentsExecutionEnvironment
from flink_agents_py.errors import PipelineError
from flink_agents_py.local.runner import LocalRunner
from flink_agents_py.plan.plan import AgentPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from flink_agents_py.agent import Agent


class LocalAgentsEnvironment(AgentsExecutionEnvironment):
    """Runs agents in this process, over lists."""

    def __init__(self) -> None:
        super().__init__()
        self._builders: list[ListBuilder] = []

    def from_list(self, inputs: Iterable[Any]) -> ListBuilder:
        builder = ListBuilder(self, inputs)
        self._builders.append(builder)
        return builder

    def execute(self, job_name: str | None = None) -> None:  # noqa: ARG002 - nobody shows it here
        """Run every builder that has an agent; lists handed out by ``to_list`` are filled already."""
        for builder in self._builders:
            builder.run()


class ListBuilder(AgentBuilder):
    """A list of inputs and the agent to run over it."""

    def __init__(self, environment: LocalAgentsEnvironment, inputs: Iterable[Any]) -> None:
        self._environment = environment
        self._inputs = inputs
        self._plan: AgentPlan | None = None
        self._outputs: list[dict[Any, Any]] | None = None
        self._side_outputs: dict[str, list[Any]] = {}

    def apply(
        self,
        agent: Agent,
        *,
        agent_name: str | None = None,
        side_outputs: Mapping[str, Any] | None = None,  # noqa: ARG002 - lists need no types declared
    ) -> ListBuilder:
        if self._plan is not None:
            raise PipelineError(
                "an agent was applied already", where="from_list(...).apply(...)", fix="use one builder per agent"
            )
        self._plan = AgentPlan.from_agent(
            agent, self._environment.get_config(), agent_name, shared_resources=self._environment.shared_resources
        )
        return self

    def to_list(self) -> list[dict[Any, Any]]:
        self.run()
        return self._outputs or []

    def side_output(self, tag: str) -> list[Any]:
        """Values sent to a side output, dead letters (``dead-letters``) included."""
        self.run()
        return self._side_outputs.get(tag, [])

    def run(self) -> None:
        """Run the agent over the inputs, once."""
        if self._outputs is not None:
            return
        if self._plan is None:
            raise PipelineError(
                "there is no agent to run", where="from_list(...)", fix="call .apply(agent) before asking for outputs"
            )
        with LocalRunner(self._plan) as runner:
            self._outputs = [{run.key: output} for output, run in runner.run(_keyed(self._inputs))]
            for tag, value, _ in runner.engine.effects.take_side_outputs():
                self._side_outputs.setdefault(tag, []).append(value)


def _keyed(inputs: Iterable[Any]) -> Iterator[tuple[Any, Any, int | None]]:
    for item in inputs:
        if isinstance(item, dict) and item.keys() <= {"key", "k", "value", "v", "timestamp"} and _has_value(item):
            key = item["key"] if "key" in item else item.get("k")
            if "key" not in item and "k" not in item:
                key = str(uuid4())  # no key, no neighbours: as Apache Flink Agents does
            yield key, item["value"] if "value" in item else item["v"], item.get("timestamp")
        else:
            yield str(uuid4()), item, None


def _has_value(item: dict[Any, Any]) -> bool:
    return "value" in item or "v" in item
