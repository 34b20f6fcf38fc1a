"""Where agents meet streams: one entry point for Flink and for a plain Python process.

::

    env = StreamExecutionEnvironment.get_execution_environment()
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    stream = agents.from_datastream(source, lambda r: r["user"]).apply(MyAgent()).to_datastream()

    agents = AgentsExecutionEnvironment.get_execution_environment()      # no Flink
    print(agents.from_list([{"key": "a", "value": 1}]).apply(MyAgent()).to_list())
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from flink_agents_py.agent import Agent
from flink_agents_py.config import AgentConfiguration
from flink_agents_py.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from typing_extensions import Self

    from flink_agents_py.declarative.loader import AgentFiles
    from flink_agents_py.external.registry import ActionRegistry
    from flink_agents_py.resources.base import ResourceDescriptor, ResourceType, SerializableResource


class AgentBuilder(ABC):
    """An input waiting for its agent, then an agent waiting for its output."""

    @abstractmethod
    def apply(
        self,
        agent: Agent | str,
        *,
        agent_name: str | None = None,
        side_outputs: Mapping[str, Any] | None = None,
        key_selector: Callable[[Any], Any] | None = None,
        key_type: Any = None,
        updates: Any = None,
    ) -> Self:
        """Run ``agent``, or the one of that name in a loaded file, over the input; its mistakes are raised here.

        A second agent on the builder takes the outputs of the first as its inputs, and so on.

        Args:
            agent_name: name of the agent in the plan, of the operator and of its uid; default: the class name. It is
                part of the savepoint contract.
            side_outputs: tags the agent uses with ``ctx.side_output``, and the type of each.
            key_selector: of a second agent: the key of its inputs. Without it, they have the key of the run they come
                from.
            key_type: of what ``key_selector`` returns.
            updates: new versions of the agent's plan while the job runs: a :class:`PlanFile` or the path of one; on
                Flink also a ``DataStream`` of plan JSON. A run that begins after an update is under the new plan.
        """

    def execute_actions(self, registry: ActionRegistry, *, name: str = "ExternalActions") -> Any:  # noqa: ARG002
        """Make the calls that come as inputs, keyed by trace id: :class:`~flink_agents_py.external.ActionCall`.

        Args:
            registry: the actions they may call.
            name: of the operator and in its uid; part of the savepoint contract.

        Returns:
            results, dead letters, audit and events: streams on Flink (``ActionStreams``), lists without
            (``ActionRecords``).
        """
        raise _not_here("execute_actions()", "from_datastream(...) or from_list(...)")

    def to_list(self) -> list[Any]:
        """Run to the end and return ``[{key: output}, ...]`` in order of emission."""
        raise _not_here("to_list()", "from_list(...)")

    def to_datastream(self, output_type: Any = None) -> Any:  # noqa: ARG002 - what builders on Flink take
        """The outputs as a ``DataStream``."""
        raise _not_here("to_datastream()", "from_datastream(...)")

    def to_table(self, schema: Any = None, output_type: Any = None, *, rowtime: str = "rowtime") -> Any:  # noqa: ARG002
        """The outputs as a ``Table``."""
        raise _not_here("to_table()", "from_datastream(...) or from_table(...)")


class AgentsExecutionEnvironment(ABC):
    """Factory of builders, and holder of what agents share: configuration and resources."""

    def __init__(self) -> None:
        self._config = AgentConfiguration.load()
        self._resources = Agent()
        self._files: AgentFiles | None = None

    @staticmethod
    def get_execution_environment(env: Any = None, t_env: Any = None) -> AgentsExecutionEnvironment:
        """An environment on Flink if ``env`` (a ``StreamExecutionEnvironment``) is given, else one without Flink.

        Options that PyFlink needs are set on ``env`` where the user has not set them, so call this before building
        streams on it (see :meth:`settings`).
        """
        if env is None:
            from flink_agents_py.local.environment import LocalAgentsEnvironment

            return LocalAgentsEnvironment()
        from flink_agents_py.flink.environment import FlinkAgentsEnvironment

        return FlinkAgentsEnvironment(env, t_env)

    def get_config(self) -> AgentConfiguration:
        """The configuration of the agents of this environment; set options before ``apply``."""
        return self._config

    def add_resource(
        self, name: str, resource_type: ResourceType, instance: ResourceDescriptor | SerializableResource
    ) -> Self:
        """Share a resource with all agents of this environment; an agent's own resource of that name wins."""
        self._resources.add_resource(name, resource_type, instance)
        return self

    def add_action_registry(self, registry: ActionRegistry) -> Self:
        """Let all agents of this environment call the external actions of a registry, beside those of their own."""
        self._resources.add_action_registry(registry)
        return self

    def load_yaml(self, paths: str | Path | Iterable[str | Path], *, values: Mapping[str, Any] | None = None) -> Self:
        """Load agents from one or more YAML files; then ``.apply("name")`` applies one of them.

        Resources and actions beside ``agents:`` are shared: with all agents of this environment, those of files that
        are loaded before and after among them.

        Args:
            values: what ``${name}`` in the files stands for: an address, a path, a number. Without it such texts stay.

        Raises:
            AgentFileError: something in a file is wrong; it says in which line and column. Nothing is loaded then.
        """
        from flink_agents_py.declarative.loader import AgentFiles

        files = self._files or AgentFiles()
        shared = files.load(paths, values, taken=self._resources.resources)
        self._files = files
        for name, kind, resource in shared.resources:
            self.add_resource(name, kind, resource)
        for registry in shared.registries:
            self.add_action_registry(registry)
        return self

    @property
    def declared_agents(self) -> list[str]:
        """Names of the agents of loaded files."""
        return [] if self._files is None else self._files.names

    def named_agent(self, agent: Agent | str, agent_name: str | None = None) -> tuple[Agent, str | None]:
        """The agent that is to be applied, and its name in the plan; builders call it.

        Raises:
            AgentDefinitionError: no file that was loaded has an agent of that name.
        """
        if not isinstance(agent, str):
            return agent, agent_name
        from flink_agents_py.declarative.loader import AgentFiles

        return (self._files or AgentFiles()).make(agent), agent_name or agent

    @property
    def shared_registries(self) -> list[ActionRegistry]:
        """What :meth:`add_action_registry` has collected."""
        return self._resources.action_registries

    @property
    def shared_resources(self) -> dict[ResourceType, dict[str, ResourceDescriptor | SerializableResource]]:
        """What :meth:`add_resource` has collected."""
        return self._resources.resources

    def settings(self) -> dict[str, str]:
        """Flink options this environment has set because the user had not; empty without Flink."""
        return {}

    def from_list(self, inputs: Iterable[Any]) -> AgentBuilder:  # noqa: ARG002 - what the local environment takes
        """Inputs from memory: values, or ``{"key": k, "value": v, "timestamp": ms}`` (``k`` and ``v`` for short)."""
        raise _not_here("from_list(...)", "get_execution_environment() without a Flink environment")

    def from_datastream(
        self,
        stream: Any,  # noqa: ARG002 - these are what the environment on Flink takes
        key_selector: Callable[[Any], Any],  # noqa: ARG002
        key_type: Any = None,  # noqa: ARG002
        *,
        event_time: bool = True,  # noqa: ARG002
    ) -> AgentBuilder:
        """Inputs from a ``DataStream``, keyed by ``key_selector``."""
        raise _not_here("from_datastream(...)", "get_execution_environment(env) with a StreamExecutionEnvironment")

    def from_table(
        self,
        table: Any,  # noqa: ARG002
        key_selector: Callable[[Any], Any] | str | Sequence[str],  # noqa: ARG002
        key_type: Any = None,  # noqa: ARG002
        *,
        event_time: bool = True,  # noqa: ARG002
    ) -> AgentBuilder:
        """Inputs from a ``Table``, keyed by a function of the row or by columns."""
        raise _not_here("from_table(...)", "get_execution_environment(env, t_env) with a StreamExecutionEnvironment")

    @abstractmethod
    def execute(self, job_name: str | None = None) -> Any:
        """Run the job and wait for it."""


def _not_here(what: str, needs: str) -> PipelineError:
    return PipelineError(f"{what} is not available here", where="AgentsExecutionEnvironment", fix=f"use {needs}")
