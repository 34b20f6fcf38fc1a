"""The environment on PyFlink: agents between streams and tables."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyflink.common import Configuration
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

from flink_agents_py.config import AgentOptions
from flink_agents_py.environment import AgentsExecutionEnvironment
from flink_agents_py.errors import JobFailedError, PipelineError
from flink_agents_py.flink.barriers import deadlock_in
from flink_agents_py.flink.builder import FlinkBuilder, key_type_of
from flink_agents_py.flink.failures import python_cause
from flink_agents_py.flink.layout import step_environment
from flink_agents_py.flink.settings import UNALIGNED, apply_settings, execution_mode, set_unaligned
from flink_agents_py.flink.table import column_key, column_key_type, key_of_row, stream_of_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyflink.table import Table

log = logging.getLogger("flink_agents_py.flink")

_RESTORE_FROM = ("execution.state-recovery.path", "execution.savepoint.path")


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
    ) -> FlinkBuilder:
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
        return FlinkBuilder(self, stream, key_selector, key_type, event_time=event_time)

    def from_table(
        self,
        table: Table,
        key_selector: Callable[[Any], Any] | str | Sequence[str],
        key_type: Any = None,
        *,
        event_time: bool = True,
    ) -> FlinkBuilder:
        """See the base class.

        Args:
            table: a table rows are only added to. Inputs are its rows, as ``Row`` with the names of the columns:
                DECIMAL as ``Decimal``, DATE, TIME and TIMESTAMP as in ``datetime``, TIMESTAMP_LTZ with the zone UTC,
                ARRAY as list, MAP as dict, ROW as ``Row``. Its row time, if it has one, is their timestamp, and its
                watermark is the stream's.
            key_selector: a function of the row, or the name of a column; several names make a tuple.
            key_type: as in :meth:`from_datastream`; the type of the column if one is named.
            event_time: as in :meth:`from_datastream`.

        Raises:
            PipelineError: rows of the table can be changed after they have come.
        """
        self._settings = apply_settings(self._env, self._config, self._settings)
        stream, reader = stream_of_table(self.table_environment, table)
        if callable(key_selector):
            key_of = key_of_row(reader, key_selector)
            declared = key_type_of(key_selector, key_type)
        else:
            key_of = column_key(reader, key_selector)
            declared = key_type_of(key_of, column_key_type(table, key_selector) if key_type is None else key_type)
        return FlinkBuilder(self, stream, key_of, declared, event_time=event_time, read=reader)

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

    @cached_property
    def step_environment(self) -> StreamTableEnvironment:
        """The table environment of the step that assigns timestamps and watermarks, whatever the user's is set to."""
        return step_environment(self._env)

    @property
    def restores(self) -> bool:
        """Whether the job is to be submitted with a savepoint."""
        flink = Configuration(j_configuration=self._env._j_stream_execution_environment.getConfiguration())
        return any(flink.get_string(key, "") for key in _RESTORE_FROM)

    def claim(self, uid: str, agent_name: str) -> None:
        """Refuse a second operator with the uid of an agent.

        Raises:
            PipelineError: the job has one already.
        """
        transformations = self._env._j_stream_execution_environment.getTransformations()
        if any(transformation.getUid() == uid for transformation in transformations):
            raise PipelineError(
                f"the job has an agent named {agent_name!r} already",
                where=f"apply(..., agent_name={agent_name!r})",
                fix="state is found by the name of its agent: give each its own with apply(agent, agent_name=...)",
            )

    @property
    def threaded(self) -> bool:
        """Whether operators built now run in thread mode."""
        return execution_mode(self._env) == "thread"

    def execute(self, job_name: str | None = None) -> Any:
        """Run the job and wait for its end.

        Its checkpoints are unaligned if neither an option says something else nor the pipeline might stop at one.

        Raises:
            JobFailedError: it failed; the message is the Python error behind Flink's report, which is chained.
        """
        try:
            self._choose_barriers()
            return self._env.execute(job_name) if job_name else self._env.execute()
        except Py4JJavaError as error:
            report = str(error)
            raise JobFailedError(
                f"the job failed: {python_cause(report)}",
                fix=None if "fix:" in report else "see the whole report of Flink above",
            ) from error

    def _choose_barriers(self) -> None:
        asked = self._config.get(AgentOptions.UNALIGNED_CHECKPOINTS)
        if UNALIGNED not in self._settings or asked is False:
            return  # the user's own setting
        deadlock = deadlock_in(self._env.get_execution_plan())
        if deadlock is not None:
            advice = "set unaligned-checkpoints to false" if asked else "its checkpoints are aligned"
            log.warning("an unaligned checkpoint might stop this job for good, as %s: %s", deadlock, advice)
        if asked is None:
            self._settings |= set_unaligned(self._env, unaligned=deadlock is None)
