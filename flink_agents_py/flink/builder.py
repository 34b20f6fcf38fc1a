"""From a stream or table through one or several agents to a stream or table."""

from __future__ import annotations

import inspect
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyflink.common import Types
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import DataStream, OutputTag

from flink_agents_py.config import AgentOptions
from flink_agents_py.engine.driver import DEAD_LETTERS
from flink_agents_py.engine.identity import job_identity
from flink_agents_py.engine.tracebacks import in_words, trim
from flink_agents_py.environment import AgentBuilder
from flink_agents_py.errors import PipelineError
from flink_agents_py.external.stage import ActionStage, ActionStreams
from flink_agents_py.external.tags import ACTION_AUDIT, ACTION_RESULTS, EXTERNAL_TAGS
from flink_agents_py.flink.key_groups import KeyGroups, groups_of, homes_of, kind_of
from flink_agents_py.flink.keyed_input import KeyedInput
from flink_agents_py.flink.layout import HeldLayout, PlainLayout, without_watermark
from flink_agents_py.flink.operator import AgentOperator
from flink_agents_py.flink.plan_stream import TwoInputs, to_all_groups
from flink_agents_py.flink.table import table_of_stream, type_of_schema
from flink_agents_py.flink.types import check_carried, type_information
from flink_agents_py.observe.destinations import EVENT_LOG_TAG
from flink_agents_py.observe.observation import side_output_of_log
from flink_agents_py.plan.plan import AgentPlan
from flink_agents_py.plan.updates import PlanFile, plan_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyflink.table import Schema, Table

    from flink_agents_py.agent import Agent
    from flink_agents_py.external.registry import ActionRegistry
    from flink_agents_py.flink.environment import FlinkAgentsEnvironment


_SHOWN = 200  # characters of an input in a message


@dataclass(frozen=True)
class _Applied:
    """An agent on the builder.

    ``key_selector`` is ``None`` where inputs bring the key of the agent before; ``read`` makes the input of what comes.
    """

    plan: AgentPlan
    key_selector: Callable[[Any], Any] | None
    key_type: TypeInformation
    tags: dict[str, TypeInformation]
    read: Callable[[Any], Any] | None
    updates: PlanFile | DataStream | None = None


class FlinkBuilder(AgentBuilder):
    """An input stream and the agents to run over it, one behind the other."""

    def __init__(
        self,
        environment: FlinkAgentsEnvironment,
        stream: DataStream,
        key_selector: Callable[[Any], Any],
        key_type: Any,
        *,
        event_time: bool,
        read: Callable[[Any], Any] | None = None,
    ) -> None:
        self._event_time = event_time
        self._read = read
        self._environment = environment
        self._stream = stream
        self._key_selector = key_selector
        self._key_type = key_type_of(key_selector, key_type)
        self._applied: list[_Applied] = []
        self._output: DataStream | None = None
        self._sides: dict[str, DataStream] = {}

    def apply(
        self,
        agent: Agent | str,
        *,
        agent_name: str | None = None,
        side_outputs: Mapping[str, Any] | None = None,
        key_selector: Callable[[Any], Any] | None = None,
        key_type: Any = None,
        updates: PlanFile | str | Path | DataStream | None = None,
    ) -> FlinkBuilder:
        """See the base class; get the side outputs with :meth:`side_output` after ``to_datastream``."""
        if self._output is not None:
            raise PipelineError(
                "the outputs of this builder have been taken already",
                where=".apply(...)",
                fix="call .apply(...) before, or start a new builder with from_datastream(<those outputs>, ...)",
            )
        if not self._applied:
            if key_selector is not None:
                raise PipelineError(
                    "the key of the first agent's inputs was given already",
                    where=".apply(..., key_selector=...)",
                    fix="from_datastream(stream, key_selector) or from_table(table, key_selector) says it",
                )
            selector, read, kind = self._key_selector, self._read, self._key_type
        elif key_selector is None:
            selector, read, kind = None, _second_of_pair, self._applied[-1].key_type
        else:
            selector, read, kind = key_selector, None, key_type_of(key_selector, key_type)
        environment = self._environment
        agent, agent_name = environment.named_agent(agent, agent_name)
        plan = AgentPlan.from_agent(
            agent,
            environment.get_config(),
            agent_name,
            shared_resources=environment.shared_resources,
            shared_registries=environment.shared_registries,
        )
        job_identity(plan)  # what it would refuse on the workers, it refuses here
        tags = {tag: type_information(declared) for tag, declared in (side_outputs or {}).items()}
        policies = {plan.config.get(AgentOptions.PLAN_ON_MISSING_ACTION)}
        if updates is not None or "dead_letter" in policies.union(each.on_error for each in plan.actions.values()):
            tags.setdefault(DEAD_LETTERS, Types.PICKLED_BYTE_ARRAY())
        if plan.external is not None:
            for tag in EXTERNAL_TAGS:
                tags.setdefault(tag, Types.PICKLED_BYTE_ARRAY())
        if side_output_of_log(plan.config):
            tags.setdefault(EVENT_LOG_TAG, Types.STRING())
        source = updates if isinstance(updates, DataStream) else plan_file(updates)
        self._applied.append(_Applied(plan, selector, kind, tags, read, source))
        return self

    def execute_actions(self, registry: ActionRegistry, *, name: str = "ExternalActions") -> ActionStreams:
        """See the base class."""
        self.apply(ActionStage(registry), agent_name=name)
        events = self.to_datastream()
        return ActionStreams(
            results=self.side_output(ACTION_RESULTS),
            dead_letters=self.side_output(DEAD_LETTERS),
            audit=self.side_output(ACTION_AUDIT),
            events=events,
        )

    def to_datastream(self, output_type: Any = None, *, plan_version: bool = False) -> DataStream:
        """The outputs of the last agent, as ``output_type``.

        Args:
            output_type: ``TypeInformation`` or Python type; default: any value, pickled. Rows may be sent as ``Row``,
                tuple, list, or dict with the names of the columns.
            plan_version: give pairs ``(version, output)``: the version of the plan that the run which sent it was
                under, for agents with ``updates``.
        """
        if not self._applied:
            raise PipelineError(
                "there is no agent to run", where="from_datastream(...)", fix="call .apply(agent) first"
            )
        if self._output is not None:
            raise PipelineError(
                "the outputs of one builder were asked for twice",
                where=f"agent {self._applied[-1].plan.agent_name}",
                fix="keep the DataStream or Table you got; Flink can give it several consumers",
            )
        stream = self._stream
        for index, applied in enumerate(self._applied):
            following = self._applied[index + 1] if index + 1 < len(self._applied) else None
            stream = self._run(
                stream,
                applied,
                self._declared(output_type, plan_version) if following is None else type_information(None),
                marks=plan_version and following is None,
                gives_key=following is not None and following.key_selector is None,
            )
        self._output = stream
        return stream

    def _declared(self, output_type: Any, plan_version: bool) -> TypeInformation:
        declared = type_information(output_type)
        if not plan_version:
            return declared
        if self._applied[-1].updates is None:
            raise PipelineError(
                "there is only one version of the agent's plan",
                where="to_datastream(..., plan_version=True)",
                fix="ask for versions where the agent has updates: .apply(agent, updates=...)",
            )
        return Types.TUPLE([Types.STRING(), declared])

    def to_table(self, schema: Schema | None = None, output_type: Any = None, *, rowtime: str = "rowtime") -> Table:
        """The outputs of the last agent as an insert-only table.

        Args:
            schema: ``pyflink.table.Schema`` of the table, taken as it is: give it a metadata column for the row time
                and ``.watermark("<column>", "SOURCE_WATERMARK()")`` if the table shall have them.
            output_type: row type of the outputs. Either suffices: without ``schema``, the columns are those of the row
                type and, with event time, one for the row time, TIMESTAMP_LTZ(3), with the held watermark: usable in
                windows, dropped as any column by a SELECT without it. Without ``output_type``, it is made from the
                physical columns of ``schema``.
            rowtime: what that column is called.
        """
        if schema is None and output_type is None:
            raise PipelineError(
                "a table needs columns",
                where="to_table()",
                fix='to_table(output_type=Types.ROW_NAMED(["name", ...], [Types.STRING(), ...]))',
            )
        declared = type_of_schema(schema) if output_type is None else type_information(output_type)
        return table_of_stream(
            self._environment.table_environment,
            self.to_datastream(declared),
            declared,
            schema,
            rowtime if self._event_time else None,
        )

    def side_output(self, tag: str) -> DataStream:
        """The stream of a side output declared in ``apply``; dead letters are under ``dead-letters``.

        If several agents of the builder have one of that name, it is all of them together.
        """
        if self._output is None:
            raise PipelineError(
                "side outputs exist once the main output does",
                where=f"side_output({tag!r})",
                fix="call to_datastream() or to_table() first",
            )
        if tag not in self._sides:
            raise PipelineError(
                f"side output {tag!r} was not declared (declared: {sorted(self._sides) or 'none'})",
                where=f"side_output({tag!r})",
                fix=f"apply(agent, side_outputs={{{tag!r}: Types.STRING()}})",
            )
        return self._sides[tag]

    # --- one agent --------------------------------------------------------------------------------------------------

    def _run(
        self, stream: DataStream, applied: _Applied, declared: TypeInformation, *, gives_key: bool, marks: bool
    ) -> DataStream:
        environment, plan = self._environment, applied.plan
        name = plan.agent_name
        uid = f"flink-agents-py:{name}"
        if not environment.threaded:
            # PyFlink keeps the state of process mode under other names and types. Under one uid, a savepoint of the
            # other mode would be restored with nothing in it and no word said; under two, Flink refuses it.
            uid += ":process"
        environment.claim(uid, name)
        layout_of = HeldLayout if self._event_time else PlainLayout
        layout = layout_of(declared, f"to_datastream(...) or to_table(...) of agent {name}")
        sides = {tag: layout_of(kind, f"side output {tag!r} of agent {name}") for tag, kind in applied.tags.items()}
        for each in (layout, *sides.values()):
            check_carried(each.declared, each.where, threaded=environment.threaded)
        selector = _first_of_pair if applied.key_selector is None else KeyOf(applied.key_selector, name)
        kind = kind_of(applied.key_type)
        beats = None if environment.threaded else kind
        keys: list[Any] = []
        if self._event_time or beats is not None:
            if kind is None:
                raise PipelineError(
                    f"event time cannot be held for keys of type {applied.key_type}",
                    where="from_datastream(..., key_type=...)",
                    fix="use a STRING, LONG, INT or pickled key, or pass event_time=False",
                )
            env = environment.stream_environment
            groups = KeyGroups(kind, groups_of(env), threaded=environment.threaded)
            keyed_input = KeyedInput(env, applied.key_type, groups, uid)
            keyed = keyed_input.key(stream, selector, starts=self._event_time, beats=beats is not None)
            keys = keyed_input.start_keys
        else:
            keyed = stream.key_by(selector, key_type=applied.key_type)
        homes = homes_of(kind, environment.stream_environment, threaded=environment.threaded)
        if applied.updates is not None and homes is None:
            raise PipelineError(
                f"plans cannot be exchanged for keys of type {applied.key_type} in this execution mode, or not with so "
                "many key groups",
                where=".apply(..., updates=...)",
                fix="use a STRING, LONG or pickled key, and a maximum parallelism of at most 4096",
            )
        operator = AgentOperator(
            plan.to_json(),
            uuid4().hex,
            layout,
            sides,
            event_time=self._event_time,
            start_keys=keys,
            beats=beats,
            homes=homes,
            updates="stream" if isinstance(applied.updates, DataStream) else applied.updates,
            marks=marks,
            restored=environment.restores,
            read=applied.read,
            gives_key=gives_key,
        )
        if isinstance(applied.updates, DataStream) and homes is not None:
            groups = KeyGroups(homes, groups_of(environment.stream_environment), threaded=environment.threaded)
            plans = to_all_groups(applied.updates, applied.key_type, groups, uid)
            main = keyed.connect(plans).process(TwoInputs(operator), output_type=layout.row_type)
        else:
            main = keyed.process(operator, output_type=layout.row_type)
        main = main.name(f"agent {name}").uid(uid)
        for tag, side in sides.items():
            # All of them, now: PyFlink drops an output to a tag nobody asked for into the main stream.
            output = self._finished(main.get_side_output(OutputTag(tag, side.row_type)), side, f"{uid}:{tag}")
            self._sides[tag] = self._sides[tag].union(output) if tag in self._sides else output
        return self._finished(main, layout, uid)

    def _finished(self, stream: DataStream, layout: PlainLayout | HeldLayout, uid: str) -> DataStream:
        """With timestamps and watermarks of its own, or with no watermark rather than one that runs ahead."""
        if isinstance(layout, HeldLayout):
            return layout.reassign(self._environment.step_environment, stream, uid)
        return without_watermark(stream, f"{uid}:watermark")


def key_type_of(key_selector: Callable[[Any], Any], declared: Any) -> TypeInformation:
    """The declared type of the key, else what the selector is annotated with, else pickled."""
    return type_information(_annotated_return(key_selector) if declared is None else declared)


class KeyOf:
    """A key selector that says which input it failed on."""

    def __init__(self, selector: Callable[[Any], Any], agent: str) -> None:
        self._selector = selector
        self._agent = agent

    def __call__(self, value: Any) -> Any:
        try:
            key = self._selector(value)
        except Exception as error:
            trim(error)
            shown = repr(value)
            raise PipelineError(
                f"the key selector failed: {type(error).__name__}: {error}",
                where=f"inputs of agent {self._agent}, input {shown[:_SHOWN]}{'...' if len(shown) > _SHOWN else ''}"
                f"{in_words(error)}",
                fix="let the selector find a key in every input, or filter out those without one before the agent",
            ) from error
        if key is None:
            shown = repr(value)
            raise PipelineError(
                "the key selector gave None, which is no key",
                where=f"inputs of agent {self._agent}, input {shown[:_SHOWN]}{'...' if len(shown) > _SHOWN else ''}",
                fix="let the selector find a key in every input, or filter out those without one before the agent",
            )
        return key


def _first_of_pair(pair: Any) -> Any:
    return pair[0]


def _second_of_pair(pair: Any) -> Any:
    return pair[1]


def _annotated_return(function: Any) -> Any:
    """The annotated return type, if it is one Flink has a type for; keys of other types travel pickled."""
    if not inspect.isfunction(function):
        return None
    try:
        annotated = typing.get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - an annotation that cannot be resolved here is as good as none
        return None
    return annotated if annotated in (str, int) else None
