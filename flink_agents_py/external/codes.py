"""What became of an external action, as stable codes: what dashboards, alerts and agents decide on."""

from __future__ import annotations


class ActionCode:
    """The codes. They never change their meaning; later releases may add some."""

    SUCCESS = "SUCCESS"
    """The action was done."""
    INVALID_CALL = "INVALID_CALL"
    """The call has no trace id or action, or its parameters break the action's schema; nothing external was touched."""
    UNKNOWN_ACTION = "UNKNOWN_ACTION"
    """No action of that name is registered; nothing external was touched."""
    BUSINESS_REJECTED = "BUSINESS_REJECTED"
    """The target understood the call and says no (permission, conflict, bad value): asking again changes nothing."""
    BUSINESS_RETRYABLE = "BUSINESS_RETRYABLE"
    """The target understood the call and says not now (overload, maintenance, HTTP 429 and 5xx)."""
    NETWORK_UNAVAILABLE = "NETWORK_UNAVAILABLE"
    """The target was not reached, or the connection broke: it may or may not have done what it was asked."""
    TIMEOUT_CONNECT = "TIMEOUT_CONNECT"
    """No connection in time: the network, or a service that is down."""
    TIMEOUT_READ = "TIMEOUT_READ"
    """Connected, and no answer in time: a service that is slow."""
    TIMEOUT_TOTAL = "TIMEOUT_TOTAL"
    """The action as a whole took too long: queueing, all attempts and the waits between them."""
    QUEUE_FULL = "QUEUE_FULL"
    """More calls of the action wait on this subtask than its spec allows; nothing external was touched."""
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    """The target failed so often lately that it is left alone for a while; no attempt was made."""
    UNKNOWN = "UNKNOWN"
    """The handler raised something that says nothing about the target, or gave a result nobody can keep."""


RETRYABLE: tuple[str, ...] = (
    ActionCode.BUSINESS_RETRYABLE,
    ActionCode.NETWORK_UNAVAILABLE,
    ActionCode.TIMEOUT_CONNECT,
    ActionCode.TIMEOUT_READ,
)
"""Codes that are worth another attempt, unless a spec says otherwise."""

KNOWN_CODES: frozenset[str] = frozenset(
    value for name, value in vars(ActionCode).items() if name.isupper() and isinstance(value, str)
)
