"""Which code an exception of a handler stands for, whatever library it comes from.

Classes of aiohttp, httpx and requests are known by their names, so none of them need be installed.
"""

from __future__ import annotations

import asyncio
import errno
import math
import socket
import ssl
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime

from flink_agents_py.errors import CallTimeoutError
from flink_agents_py.external.failures import (
    ActionError,
    BusinessRejected,
    BusinessRetryable,
    ConnectTimeout,
    NetworkUnavailable,
    ReadTimeout,
    TotalTimeout,
)

_TOO_EARLY = {408, 425, 429}  # the server says itself that later is better
_NEVER = {501, 505}  # the server will not learn it
_SERVER_ERROR = 500

_CONNECT_TIMEOUTS = {"ConnectionTimeoutError", "ConnectTimeout", "ConnectTimeoutError", "PoolTimeout"}
_NETWORK = {
    "ClientConnectionError",  # aiohttp: connector, name lookup, TLS, disconnected
    "ClientPayloadError",  # aiohttp: the body broke off
    "TransportError",  # httpx
    "ConnectionError",  # requests, and Python's own
    "ChunkedEncodingError",  # requests: the body broke off
    "IncompleteRead",  # http.client
}
_GARBAGE = {"ContentEncodingError", "DecodingError", "ContentDecodingError", "HttpProcessingError"}
_NO_NETWORK = {errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL}


def action_error(error: BaseException, where: str = "") -> ActionError:
    """The error as one with a code; itself if it has one."""
    if isinstance(error, ActionError):
        return error
    names = _names(error)
    message = f"{where}: {_message(error)}" if where else _message(error)
    if isinstance(error, CallTimeoutError):
        return TotalTimeout(message)
    if names & _CONNECT_TIMEOUTS or (isinstance(error, OSError) and error.errno == errno.ETIMEDOUT):
        return ConnectTimeout(message)
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)) or names & {"Timeout", "TimeoutException"}:
        return ReadTimeout(message)
    if names & _GARBAGE or _names(error.__cause__) & _GARBAGE:
        return ActionError(message)
    if names & _NETWORK or isinstance(error, (socket.gaierror, ssl.SSLError)):
        return NetworkUnavailable(message)
    if isinstance(error, OSError) and error.errno in _NO_NETWORK:
        return NetworkUnavailable(message)
    status = _status(error)
    if status is not None:
        return error_of_status(status, message, _retry_after_header(error))
    return ActionError(message)


def error_of_status(status: int, message: str, retry_after: str | None = None) -> ActionError:
    """What a status of HTTP says that is no success; ``retry_after`` is the header, seconds or a date."""
    text = f"HTTP {status} of {message}"
    if status in _TOO_EARLY or (status >= _SERVER_ERROR and status not in _NEVER):
        return BusinessRetryable(text, retry_after=seconds_of_retry_after(retry_after), detail={"status": status})
    return BusinessRejected(text, detail={"status": status})


def seconds_of_retry_after(header: str | None) -> float | None:
    """Seconds from now; ``None`` if the header is missing or says neither seconds nor a date."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _names(error: BaseException | None) -> set[str]:
    return {cls.__name__ for cls in type(error).__mro__}


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _status(error: BaseException) -> int | None:
    """The HTTP status an exception of a client carries: its own, or its response's."""
    response = getattr(error, "response", None)
    for holder, name in ((error, "status"), (response, "status_code"), (response, "status"), (error, "status_code")):
        status = getattr(holder, name, None)
        if isinstance(status, int) and 300 <= status < 600:  # noqa: PLR2004 - what HTTP has no success for
            return status
    return None


def _retry_after_header(error: BaseException) -> str | None:
    for holder in (error, getattr(error, "response", None)):
        headers = getattr(holder, "headers", None)
        if headers is not None:
            with suppress(Exception):  # somebody else's class
                value = headers.get("Retry-After") or headers.get("retry-after")
                return None if value is None else str(value)
    return None
