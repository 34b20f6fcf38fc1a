"""The environment on PyFlink: builders from ``DataStream`` to ``DataStream``."""

from __future__ import annotations

import inspect
import typing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

from flink_agents_py.engine.driver import DEAD_LETTERS
from flink_agents_py.environment import AgentBuilder, AgentsExecutionEnvironment
from flink_agents_py.errors import PipelineError
from flink_agents_py.flink.key_groups import SyntheticKeys
from flink_agents_py.flink.layout import HeldLayout, PlainLayout
from flink_agents_py.flink.operator import AgentOperator
from flink_agents_py.flink.settings import apply_settings, execution_mode
from flink_agents_py.flink.types import type_information
from flink_agents_py.plan.plan import AgentPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flink_agents_py.agent import Agent
    from flink_agents_py.config import AgentConfiguration


class FlinkAgentsEnvironment(AgentsExecutionEnvironment):
    """Agents in a Flink job built on ``env``."""

    def __init__(self, env: StreamExecutionEnvironment, t_env: Any = None) -> None:
        super().__init__()
        if not isinstance(env, StreamExecutionEnvironment):
            raise PipelineError(
                f"get_execution_environment takes a StreamExecutionEnvironment, got {type(env).__name__}",
                fix="StreamExecutionEnvironment.get_execution_environment(), or no argument to run without Flink",
            )
        self._env = env
        self._t_env = t_env
        self._settings = apply_settings(env, self._config, {})

    def settings(self) -> dict[str, str]:
        return dict(self._settings)

    def from_datastream(
        self,
        stream: DataStream,
        key_selector: Callable[[Any], Any],
        key_type: Any = None,
        *,
        event_time: bool = True,
    ) -> DataStreamBuilder:
        """See the base class.

        Args:
            key_type: ``TypeInformation`` or Python type of the key. Without it, the return annotation of
                ``key_selector`` decides, else keys travel pickled. Keep it when restoring a savepoint: the type of the
                key is part of it.
            event_time: hold the watermark back until the inputs before it are done (S10), so that no window downstream
                drops a late result. ``False`` for pipelines without event time: it is cheaper, and the output then has
                no watermark at all.
        """
        if not isinstance(stream, DataStream):
            raise PipelineError(
                f"from_datastream takes a DataStream, got {type(stream).__name__}",
                where="from_datastream(...)",
                fix="pass an unkeyed DataStream; the key selector keys it",
            )
        # Again, as get_config() may have been used since this environment was made.
        self._settings = apply_settings(self._env, self._config, self._settings)
        return DataStreamBuilder(self, stream, key_selector, key_type, event_time=event_time)

    @property
    def stream_environment(self) -> StreamExecutionEnvironment:
        """The Flink environment the job is built on."""
        return self._env

    @property
    def table_environment(self) -> StreamTableEnvironment:
        """The table environment, made when first needed if the user gave none."""
        if self._t_env is None:
            self._t_env = StreamTableEnvironment.create(self._env)
        return self._t_env

    @property
    def threaded(self) -> bool:
        """Whether operators built now run in thread mode."""
        return execution_mode(self._env) == "thread"

    def execute(self, job_name: str | None = None) -> Any:
        return self._env.execute(job_name) if job_name else self._env.execute()


class DataStreamBuilder(AgentBuilder):
    """A stream and the agent to run over it."""

    def __init__(
        self,
        environment: FlinkAgentsEnvironment,
        stream: DataStream,
        key_selector: Callable[[Any], Any],
        key_type: Any,
        *,
        event_time: bool,
    ) -> None:
        self._event_time = event_time
        self._environment = environment
        self._stream = stream
        self._key_selector = key_selector
        self._key_type = type_information(_annotated_return(key_selector) if key_type is None else key_type)
        self._plan: AgentPlan | None = None
        self._tags: dict[str, TypeInformation] = {}
        self._output: DataStream | None = None
        self._sides: dict[str, DataStream] = {}

    def apply(
        self, agent: Agent, *, agent_name: str | None = None, side_outputs: Mapping[str, Any] | None = None
    ) -> DataStreamBuilder:
        """See the base class.

        Args:
            agent_name: name of the agent in the plan, the operator's name and uid; default: the class name. It is
                part of the savepoint contract.
            side_outputs: tags the agent uses with ``ctx.side_output`` and the type of each; get the streams with
                :meth:`side_output` after ``to_datastream``.
        """
        if self._plan is not None:
            raise PipelineError(
                "an agent was applied already",
                where="from_datastream(...).apply(...)",
                fix="take .to_datastream() and start a new builder from it for the next agent",
            )
        config: AgentConfiguration = self._environment.get_config()
        shared = self._environment.shared_resources
        self._plan = AgentPlan.from_agent(agent, config, agent_name, shared_resources=shared)
        for tag, declared in (side_outputs or {}).items():
            self._tags[tag] = type_information(declared)
        if any(action.on_error == "dead_letter" for action in self._plan.actions.values()):
            self._tags.setdefault(DEAD_LETTERS, Types.PICKLED_BYTE_ARRAY())
        return self

    def to_datastream(self, output_type: Any = None) -> DataStream:
        """The outputs, as ``output_type`` (``TypeInformation`` or Python type; default: any value, pickled)."""
        plan = self._plan
        if plan is None:
            raise PipelineError(
                "there is no agent to run", where="from_datastream(...)", fix="call .apply(agent) first"
            )
        if self._output is not None:
            raise PipelineError(
                "to_datastream() was called twice on one builder",
                where=f"agent {plan.agent_name}",
                fix="keep the DataStream it returned; Flink can give it several consumers",
            )
        uid = f"flink-agents-py:{plan.agent_name}"
        if not self._environment.threaded:
            # PyFlink keeps the state of process mode under other names and types. Under one uid, a savepoint of the
            # other mode would be restored with nothing in it and no word said; under two, Flink refuses it.
            uid += ":process"
        layout_of = HeldLayout if self._event_time else PlainLayout
        layout = layout_of(type_information(output_type))
        sides = {tag: layout_of(declared) for tag, declared in self._tags.items()}
        if self._event_time:
            synthetic = SyntheticKeys(
                self._environment.stream_environment, self._key_type, threaded=self._environment.threaded
            )
            keyed = synthetic.key(self._stream, self._key_selector, f"{uid}:start")
            keys = synthetic.keys
        else:
            keyed = self._stream.key_by(self._key_selector, key_type=self._key_type)
            keys = []
        operator = AgentOperator(plan.to_json(), uuid4().hex, layout, sides, keys)
        main = keyed.process(operator, output_type=layout.row_type).name(f"agent {plan.agent_name}").uid(uid)
        for tag, side in sides.items():
            # All of them, now: PyFlink drops an output to a tag nobody asked for into the main stream.
            self._sides[tag] = self._finished(main.get_side_output(OutputTag(tag, side.row_type)), side)
        self._output = self._finished(main, layout)
        return self._output

    def _finished(self, stream: DataStream, layout: HeldLayout | PlainLayout) -> DataStream:
        """With timestamps and watermarks of its own, or with no watermark rather than one that runs ahead."""
        if isinstance(layout, HeldLayout):
            return layout.reassign(self._environment.table_environment, stream)
        return stream.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks())

    def side_output(self, tag: str) -> DataStream:
        """The stream of a side output declared in ``apply``; dead letters are under ``dead-letters``."""
        if self._output is None:
            raise PipelineError(
                "side outputs exist once the main output does",
                where=f"side_output({tag!r})",
                fix="call to_datastream() first",
            )
        if tag not in self._sides:
            raise PipelineError(
                f"side output {tag!r} was not declared (declared: {sorted(self._sides) or 'none'})",
                where=f"side_output({tag!r})",
                fix=f"apply(agent, side_outputs={{{tag!r}: Types.STRING()}})",
            )
        return self._sides[tag]


def _annotated_return(function: Any) -> Any:
    """The annotated return type, if it is one Flink has a type for; keys of other types travel pickled."""
    if not inspect.isfunction(function):
        return None
    try:
        annotated = typing.get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - an annotation that cannot be resolved here is as good as none
        return None
    return annotated if annotated in (str, int) else None
