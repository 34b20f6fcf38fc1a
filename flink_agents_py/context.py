"""What an action may do: the context it receives as its second argument."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flink_agents_py.config import AgentConfiguration
    from flink_agents_py.events import Event
    from flink_agents_py.external.records import ActionResult
    from flink_agents_py.long_term import LongTermMemory
    from flink_agents_py.memory import MemoryObject
    from flink_agents_py.metrics import MetricGroup
    from flink_agents_py.policies import RetryPolicy, Timeouts
    from flink_agents_py.resources.base import ResourceType


class RunnerContext(ABC):
    """The interface between an action and the engine.

    Effects (sent events, memory writes, side outputs) become visible when the action finishes, all or none (S3); the
    action itself sees its own writes. The context belongs to the operator thread: using it from a function passed to
    ``durable_execute*`` raises :class:`~flink_agents_py.errors.WrongThreadError`.
    """

    __slots__ = ()

    # --- the run ----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def key(self) -> Any:
        """Key of the input, as the key selector gave it."""

    @property
    @abstractmethod
    def timestamp(self) -> int | None:
        """Event time of the input in ms since the epoch, ``None`` if the stream has no timestamps."""

    @property
    @abstractmethod
    def watermark(self) -> int | None:
        """Watermark in ms when the input arrived, ``None`` before the first one."""

    @property
    @abstractmethod
    def sequence(self) -> int:
        """Number of the input within its key, from 1; stable over restarts and rescaling."""

    @property
    @abstractmethod
    def plan_version(self) -> str:
        """Version of the plan the run is under: 12 digits, others as soon as the plan means something else."""

    # --- configuration ----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def config(self) -> AgentConfiguration:
        """The agent's configuration."""

    @property
    @abstractmethod
    def action_config(self) -> dict[str, Any]:
        """Configuration given with the action (``@action(..., name=value)``)."""

    @abstractmethod
    def get_action_config_value(self, key: str) -> Any:
        """One value of :attr:`action_config`, ``None`` if it was not given."""

    @abstractmethod
    def get_resource(self, name: str, type: ResourceType) -> Any:
        """The resource of that name and type, built on first use.

        Raises:
            UnknownResourceError: nobody declared it; the message lists what there is.
        """

    # --- memory -----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def short_term_memory(self) -> MemoryObject:
        """Memory of the key, kept in Flink state across runs."""

    @property
    @abstractmethod
    def sensory_memory(self) -> MemoryObject:
        """Memory of this run, gone when the run ends."""

    @property
    @abstractmethod
    def long_term_memory(self) -> LongTermMemory:
        """Memory of the key outside of Flink state, searched by meaning.

        Raises:
            ConfigError: ``job-identifier`` is not set, or nothing says where items are to be kept.
        """

    # --- what others can see ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def agent_metric_group(self) -> MetricGroup:
        """Metrics of the agent, one set per subtask; on Flink they are in the operator's metric group."""

    @property
    @abstractmethod
    def action_metric_group(self) -> MetricGroup:
        """Metrics of this action: the group ``action``, ``<name>`` inside that of the agent."""

    @property
    @abstractmethod
    def replaying(self) -> bool:
        """Whether the newest durable call was answered by its record: what is counted from it has been counted."""

    @abstractmethod
    def observe(self, kind: str, **fields: Any) -> None:
        """Write a line of your own into the event log (and an event into the span), if there is one.

        Args:
            kind: of the line; ``run``, ``event``, ``action``, ``call`` and ``retry`` are the framework's.
            fields: JSON-like values.
        """

    def record_usage(self, model: str, prompt_tokens: int, completion_tokens: int, cost: float = 0.0) -> None:
        """Count tokens of a model call, in the metrics of this action and in the event log; nothing on a replay.

        Args:
            model: name of the model, label of the metrics ``promptTokens``, ``completionTokens`` and ``costMicros``.
            cost: in the currency of your choice; the metric counts millionths of it.
        """
        if self.replaying:
            return
        group = self.action_metric_group.get_sub_group("model", model)
        group.get_counter("promptTokens").inc(prompt_tokens)
        group.get_counter("completionTokens").inc(completion_tokens)
        group.get_counter("costMicros").inc(round(cost * 1_000_000))
        self.observe("usage", model=model, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cost=cost)

    # --- effects ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def send_event(self, event: Event) -> None:
        """Send an event; it is handled after this action finishes, in the order sent (S4)."""

    @abstractmethod
    def side_output(self, tag: str, value: Any) -> None:
        """Emit ``value`` to the side output ``tag`` when the action finishes."""

    # --- durable calls ----------------------------------------------------------------------------------------------

    @abstractmethod
    def durable_execute(
        self,
        func: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        reconciler: Callable[[], Any] | None = None,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call ``func`` now, on the operator thread, and record its outcome; a replay returns the record (S5).

        It blocks the subtask for as long as ``func`` runs: for anything slower than a few milliseconds use
        :meth:`durable_execute_async`.
        """

    @abstractmethod
    def durable_execute_async(
        self,
        func: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        timeouts: Timeouts | float | None = None,
        retry: RetryPolicy | None = None,
        reconciler: Callable[[], Any] | None = None,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> Awaitable[Any]:
        """Call ``func`` off the operator thread and suspend the action until it is done; awaitable once.

        A sync ``func`` runs on a thread pool, an ``async def`` on the background asyncio loop of the process. The
        outcome, result or exception, is recorded; a replay returns it without calling again (S5). A call that was in
        flight at a crash is made again with the same idempotency key, or its ``reconciler`` is asked instead.

        Args:
            func: the function; if it declares a parameter ``idempotency_key`` it receives the call's key (S7).
            name: identity of the function instead of ``module:qualname``, for functions that move or lambdas.
            timeouts: :class:`Timeouts`, or seconds for the whole call.
            retry: default is the action's policy.
            reconciler: called without arguments instead of ``func`` when recovery finds the call in flight.
            idempotency_key: replaces the derived key.

        Raises (when awaited):
            CallTimeoutError: a timeout passed and no attempt is left.
            Exception: whatever ``func`` raised last.
        """

    @abstractmethod
    def gather(self, *calls: Awaitable[Any], return_exceptions: bool = False) -> Awaitable[list[Any]]:
        """Await several durable calls made in parallel; results in argument order.

        The first exception (in argument order) is raised once all calls are done, unless ``return_exceptions``.
        """

    @abstractmethod
    def call(
        self, name: str, params: Any = None, *, trace_id: str | None = None, sequence: int = 0
    ) -> Awaitable[ActionResult]:
        """Call an external action by name: ``result = await ctx.call("refund", {"order": 7, "cents": 100})``.

        It never raises for what can be expected of the world outside: look at ``result.ok`` and ``result.code``. Calls
        may be made in parallel (``ctx.gather``) and are durable as all calls are. In one and the same trace, the same
        action with the same parameters is done once: the second call gets the result of the first.

        Args:
            name: as registered with ``add_action_registry``.
            params: by name, or a pydantic model of them.
            trace_id: what the call belongs to; default: this run, so that every input has deeds of its own.
            sequence: a number of yours that results and dead letters carry.

        Raises:
            AgentDefinitionError: the agent has no external actions at all.
        """

    @abstractmethod
    def call_agent(self, name: str, value: Any = None) -> Awaitable[list[Any]]:
        """Call another agent, one of ``agent.add_agent``: ``answers = await ctx.call_agent("billing", order)``.

        Its actions run as part of this action: its durable calls are recorded as this action's, and what it writes
        becomes visible when this action finishes. Its memory is its own: an object inside that of the key. The values
        of its outputs come back, in order; what one of its actions raises is raised here, whatever its ``on_error``.

        Agents called by one action run one after the other; :class:`AgentRequestEvent` calls several at once.

        Args:
            value: what it gets as its input.

        Raises:
            AgentDefinitionError: there is no agent of that name.
        """

    @abstractmethod
    def sleep(self, seconds: float) -> Awaitable[None]:
        """Suspend the action for ``seconds``; a restart does not start the wait anew."""
