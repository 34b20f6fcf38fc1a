"""What a handler raises to say why an action was not done; each exception stands for one code."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any, ClassVar

from flink_agents_py.external.codes import ActionCode


class ActionError(Exception):
    """Base of what handlers raise.

    Args:
        message: for people and models; it travels in results and dead letters, so keep secrets out of it.
        detail: JSON-like data about the failure (a status, a part of the answer), kept in the same places.
        retry_after: seconds the target asks to wait before the next attempt.
    """

    code: ClassVar[str] = ActionCode.UNKNOWN

    def __init__(self, message: str = "", *, detail: Any = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.retry_after = retry_after


class BusinessRejected(ActionError):  # noqa: N818 - it names what the target said, as `raise BusinessRejected(...)` reads
    """The target says no, and will say so again."""

    code = ActionCode.BUSINESS_REJECTED


class BusinessRetryable(ActionError):  # noqa: N818
    """The target says not now."""

    code = ActionCode.BUSINESS_RETRYABLE


class NetworkUnavailable(ActionError):  # noqa: N818
    """The target was not reached, or the connection broke."""

    code = ActionCode.NETWORK_UNAVAILABLE


class ConnectTimeout(ActionError):  # noqa: N818
    """No connection in time."""

    code = ActionCode.TIMEOUT_CONNECT


class ReadTimeout(ActionError):  # noqa: N818
    """No answer in time."""

    code = ActionCode.TIMEOUT_READ


class TotalTimeout(ActionError):  # noqa: N818
    """The time of the whole action is used up; the engine says so itself where a handler does not look."""

    code = ActionCode.TIMEOUT_TOTAL


class NotExecuted(Exception):  # noqa: N818
    """Raised by ``reconcile``: the target never did it, so the call is to be made (again, with the same key)."""


_NETWORK = (ConnectionError, socket.gaierror, socket.herror, ssl.SSLError)
_TIMEOUT = (TimeoutError, asyncio.TimeoutError)  # two classes before Python 3.11


def code_of(error: BaseException) -> str:
    """The code an exception stands for; Python's own network errors and timeouts are known, the rest is UNKNOWN."""
    if isinstance(error, ActionError):
        return error.code
    if isinstance(error, _NETWORK):
        return ActionCode.NETWORK_UNAVAILABLE
    if isinstance(error, _TIMEOUT):
        return ActionCode.TIMEOUT_READ
    return ActionCode.UNKNOWN
