"""External actions: side effects with timeouts, retries, idempotency, audit and dead letters.

An :class:`ActionSpec` says what an action is and under which limits it is called, an :class:`ActionHandler` does it,
an :class:`ActionRegistry` binds the two. ``await ctx.call(name, params)`` calls one from an agent;
``builder.execute_actions(registry)`` runs a stream of :class:`ActionCall`. Failures are data, with stable codes.
"""

from flink_agents_py.external.codes import RETRYABLE, ActionCode
from flink_agents_py.external.events import ActionFailedEvent
from flink_agents_py.external.failures import (
    ActionError,
    BusinessRejected,
    BusinessRetryable,
    ConnectTimeout,
    NetworkUnavailable,
    NotExecuted,
    ReadTimeout,
    TotalTimeout,
)
from flink_agents_py.external.handler import ActionHandler, ActionSession
from flink_agents_py.external.records import ActionCall, ActionResult, AttemptError, FailedAction, Oversized
from flink_agents_py.external.registry import ActionRegistry
from flink_agents_py.external.spec import ActionRetry, ActionSpec, ActionTimeouts, CircuitBreaker

__all__ = [
    "RETRYABLE",
    "ActionCall",
    "ActionCode",
    "ActionError",
    "ActionFailedEvent",
    "ActionHandler",
    "ActionRegistry",
    "ActionResult",
    "ActionRetry",
    "ActionSession",
    "ActionSpec",
    "ActionTimeouts",
    "AttemptError",
    "BusinessRejected",
    "BusinessRetryable",
    "CircuitBreaker",
    "ConnectTimeout",
    "FailedAction",
    "NetworkUnavailable",
    "NotExecuted",
    "Oversized",
    "ReadTimeout",
    "TotalTimeout",
]
