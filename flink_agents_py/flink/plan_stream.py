"""A stream of plans as the second input of an agent's operator.

What Flink has for such things, broadcast state, does not fit: PyFlink calls the broadcast side of a keyed operator
under no key, so nothing can be written to the state that holds the runs; and in thread mode side outputs of its timers
go into the main output. So each plan goes once to each key group, under the synthetic key of it: a keyed input like the
other one, in order, and in a checkpoint on one side of the barrier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyflink.common import Duration, Row, Types, WatermarkStrategy
from pyflink.datastream import KeyedCoProcessFunction

if TYPE_CHECKING:
    from pyflink.common.typeinfo import TypeInformation
    from pyflink.datastream import DataStream, KeyedProcessFunction, KeyedStream, RuntimeContext

    from flink_agents_py.flink.key_groups import KeyGroups
    from flink_agents_py.flink.operator import AgentOperator

_IDLE_MS = 1000


def to_all_groups(plans: DataStream, key_type: TypeInformation, groups: KeyGroups, uid: str) -> KeyedStream:
    """Each plan under the synthetic key of each key group.

    It says nothing of event time: it is taken for idle a second after a plan has come, and holds no watermark then.
    """
    row_type = Types.ROW([key_type, Types.STRING()])
    spread = plans.flat_map(_Spread(groups), row_type).name("agent plans").uid(f"{uid}:plans").set_parallelism(1)
    strategy = WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(_IDLE_MS))
    timed = spread.assign_timestamps_and_watermarks(strategy).uid(f"{uid}:plans:idle").set_parallelism(1)
    return timed.key_by(_key_of, key_type=key_type)


class _Spread:
    """A plan for each group; called by PyFlink's ``flat_map``."""

    def __init__(self, groups: KeyGroups) -> None:
        self._groups = groups

    def __call__(self, plan: Any) -> Iterator[Row]:
        text = plan if isinstance(plan, str) else plan.to_json()
        for home in self._groups.synthetic:
            yield Row(home, text)


def _key_of(row: Row) -> Any:
    return row[0]


class TwoInputs(KeyedCoProcessFunction):
    """An agent's operator with plans as the second input."""

    def __init__(self, operator: AgentOperator) -> None:
        self._operator = operator

    def open(self, runtime_context: RuntimeContext) -> None:
        self._operator.open(runtime_context)

    def close(self) -> None:
        self._operator.close()

    def process_element1(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        return self._operator.process_element(value, ctx)

    def process_element2(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        return self._operator.process_plan(value[1], ctx)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        return self._operator.on_timer(timestamp, ctx)
