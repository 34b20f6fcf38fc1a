"""The environment without Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from flink_agents_py.environment import AgentBuilder, AgentsExecutionEnvironment
from flink_agents_py.errors import PipelineError
from flink_agents_py.external.records import ActionResult, FailedAction
from flink_agents_py.external.stage import ActionRecords, ActionStage
from flink_agents_py.external.tags import ACTION_AUDIT, ACTION_RESULTS, DEAD_LETTERS
from flink_agents_py.local.runner import LocalRunner
from flink_agents_py.plan.plan import AgentPlan
from flink_agents_py.plan.updates import PlanFile, plan_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from flink_agents_py.agent import Agent
    from flink_agents_py.external.registry import ActionRegistry


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
    """A list of inputs and the agents to run over it, one behind the other."""

    def __init__(self, environment: LocalAgentsEnvironment, inputs: Iterable[Any]) -> None:
        self._environment = environment
        self._inputs = inputs
        self._agents: list[tuple[AgentPlan, Callable[[Any], Any] | None, PlanFile | None]] = []
        self._outputs: list[dict[Any, Any]] | None = None
        self._side_outputs: dict[str, list[Any]] = {}

    def apply(
        self,
        agent: Agent | str,
        *,
        agent_name: str | None = None,
        side_outputs: Mapping[str, Any] | None = None,  # noqa: ARG002 - lists need no types declared
        key_selector: Callable[[Any], Any] | None = None,
        key_type: Any = None,  # noqa: ARG002
        updates: PlanFile | str | Path | None = None,
    ) -> ListBuilder:
        if self._outputs is not None:
            raise PipelineError(
                "the outputs of this builder have been taken already",
                where=".apply(...)",
                fix="call .apply(...) before .to_list()",
            )
        agent, agent_name = self._environment.named_agent(agent, agent_name)
        plan = AgentPlan.from_agent(
            agent,
            self._environment.get_config(),
            agent_name,
            shared_resources=self._environment.shared_resources,
            shared_registries=self._environment.shared_registries,
        )

        self._agents.append((plan, key_selector, plan_file(updates)))
        return self

    def execute_actions(self, registry: ActionRegistry, *, name: str = "ExternalActions") -> ActionRecords:
        self.apply(ActionStage(registry), agent_name=name)
        outputs = self.to_list()
        failed = [FailedAction.from_plain(value) for value in self.side_output(DEAD_LETTERS)]
        return ActionRecords(
            results=[ActionResult.from_plain(value) for value in self.side_output(ACTION_RESULTS)],
            dead_letters=failed,
            audit=self.side_output(ACTION_AUDIT),
            events=[FailedAction.from_plain(value) for output in outputs for value in output.values()],
        )

    def to_list(self) -> list[dict[Any, Any]]:
        self.run()
        return self._outputs or []

    def side_output(self, tag: str) -> list[Any]:
        """Values sent to a side output, dead letters (``dead-letters``) included."""
        self.run()
        return self._side_outputs.get(tag, [])

    def run(self) -> None:
        """Run the agents over the inputs, once."""
        if self._outputs is not None:
            return
        if not self._agents:
            raise PipelineError(
                "there is no agent to run", where="from_list(...)", fix="call .apply(agent) before asking for outputs"
            )
        inputs: Iterable[tuple[Any, Any, int | None]] = _keyed(self._inputs)
        for plan, key_selector, updates in self._agents:
            if key_selector is not None:
                inputs = [(key_selector(value), value, timestamp) for _, value, timestamp in inputs]
            with LocalRunner(plan, updates) as runner:
                inputs = [(run.key, output, run.timestamp) for output, run in runner.run(inputs)]
                for tag, value, _ in runner.engine.effects.take_side_outputs():
                    self._side_outputs.setdefault(tag, []).append(value)
        self._outputs = [{key: output} for key, output, _ in inputs]


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
