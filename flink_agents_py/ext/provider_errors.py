"""Errors of model services in our words: worth another attempt, or not."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from flink_agents_py.errors import ModelError, ModelRequestError, ModelUnavailableError
from flink_agents_py.policies import retry_after_of
from flink_agents_py.resources.secrets import redact

T = TypeVar("T")

_RETRYABLE = frozenset({408, 409, 429})
_SERVER_ERROR = 500
_NO_CREDIT = "insufficient_quota"  # comes as 429, but waiting does not help
_LONGEST = 500


async def within(seconds: float, asked: Awaitable[T], service: str, model: str) -> T:
    """What comes of ``asked``, if it comes in time.

    SDKs count the seconds between two parts of an answer; this counts all of it.

    Raises:
        ModelUnavailableError: it does not.
    """
    try:
        if sys.version_info >= (3, 11):
            async with asyncio.timeout(seconds):  # in this task; wait_for makes another one for each call
                return await asked
        return await asyncio.wait_for(asked, seconds)
    except (TimeoutError, asyncio.TimeoutError):
        raise ModelUnavailableError(
            f"{service} did not answer within {seconds:g} s",
            where=f"model {model!r}",
            fix="it is tried again; raise the connection's timeout",
        ) from None


def model_error(error: Exception, service: str, model: str) -> ModelError:
    """``error`` of a client as one of ours.

    Without an HTTP status it is the connection that failed: refused, reset, timed out.
    """
    status = _status(error)
    unavailable = status is None or status >= _SERVER_ERROR or status in _RETRYABLE
    if status is not None and getattr(error, "code", None) == _NO_CREDIT:
        unavailable = False
    what = f"{service} answered {status}" if status is not None else f"{service} cannot be reached"
    message = redact(f"{what}: {type(error).__name__}: {error}"[:_LONGEST])
    where = f"model {model!r}" if model else service
    mapped: ModelError
    if unavailable:
        mapped = ModelUnavailableError(message, where=where, fix="it is tried again; raise max_retries or timeout")
    else:
        mapped = ModelRequestError(
            message, where=where, fix="check key, model name, parameters and size of the request"
        )
    mapped.status = status
    mapped.retry_after = _retry_after(error)
    return mapped


def _status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and status > 0 else None


def _retry_after(error: Exception) -> float | None:
    seconds = retry_after_of(error)
    if seconds is not None:
        return seconds
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    date = headers.get("retry-after") if headers is not None else None
    if not isinstance(date, str):
        return None
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except ValueError:
        return None
