"""Exceptions of whatever library a handler uses, sorted into codes."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from email.utils import formatdate
from types import SimpleNamespace

import pytest

from flink_agents_py.errors import CallTimeoutError
from flink_agents_py.external.classify import action_error, error_of_status, seconds_of_retry_after
from flink_agents_py.external.failures import (
    ActionError,
    BusinessRejected,
    BusinessRetryable,
    ConnectTimeout,
    NetworkUnavailable,
    ReadTimeout,
    TotalTimeout,
)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        ConnectionResetError(errno.ECONNRESET, "reset"),
        BrokenPipeError(errno.EPIPE, "pipe"),
        OSError(errno.EHOSTUNREACH, "no route"),
        socket.gaierror(-2, "Name or service not known"),
        ssl.SSLError("handshake"),
        ssl.SSLCertVerificationError("certificate has expired"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_the_network_are_network(error):
    assert type(action_error(error)) is NetworkUnavailable


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("x"), FileNotFoundError(errno.ENOENT, "x"), RuntimeError()]
)
def test_anything_else_is_unknown(error):
    assert type(action_error(error)) is ActionError


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError("timed out"), ReadTimeout),
        (asyncio.TimeoutError(), ReadTimeout),
        (TimeoutError(errno.ETIMEDOUT, "Connection timed out"), ConnectTimeout),
        (CallTimeoutError("the call did not finish"), TotalTimeout),
    ],
)
def test_timeouts_are_told_apart(error, expected):
    assert type(action_error(error)) is expected


def named(name, *bases):
    return type(name, bases or (Exception,), {})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (named("ConnectTimeout", named("TransportError"))("httpx"), ConnectTimeout),
        (named("ReadTimeout", named("TimeoutException", named("TransportError")))("httpx"), ReadTimeout),
        (named("ReadTimeout", named("Timeout"))("requests"), ReadTimeout),
        (named("ConnectError", named("TransportError"))("httpx"), NetworkUnavailable),
        (named("ConnectionError", OSError)("requests"), NetworkUnavailable),
        (named("DecodingError", named("HTTPError"))("httpx"), ActionError),
    ],
)
def test_other_http_clients_are_known_by_their_classes(error, expected):
    assert type(action_error(error)) is expected


def test_the_response_of_an_error_says_what_it_is():
    error = named("HTTPError")("429 Client Error")
    error.response = SimpleNamespace(status_code=429, headers={"Retry-After": "7"})
    sorted_out = action_error(error)
    assert (type(sorted_out), sorted_out.retry_after) == (BusinessRetryable, 7.0)
    error.response = SimpleNamespace(status_code=409, headers={})
    assert type(action_error(error)) is BusinessRejected


def test_an_error_with_a_code_stays_what_it_is():
    error = BusinessRejected("no")
    assert action_error(error) is error


def test_the_message_says_where_and_what():
    assert str(action_error(ValueError("bad"), "POST /x")).endswith("POST /x: ValueError: bad")


def test_retry_after_is_seconds_or_a_date():
    assert seconds_of_retry_after("120") == 120.0
    assert 50 < seconds_of_retry_after(formatdate(time.time() + 60, usegmt=True)) <= 60
    assert seconds_of_retry_after(formatdate(time.time() - 60, usegmt=True)) == 0.0
    for nothing in (None, "", "soon", "nan", "inf", "Thu, 99 Foo 2026 99:99:99 GMT"):
        assert seconds_of_retry_after(nothing) is None


def test_a_status_says_whether_to_try_again():
    assert type(error_of_status(302, "")) is BusinessRejected
    assert type(error_of_status(451, "")) is BusinessRejected
    assert type(error_of_status(507, "")) is BusinessRetryable
