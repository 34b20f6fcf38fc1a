"""The HTTP client of handlers against a server that fails: codes, timeouts told apart, nothing sent twice."""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc

import pytest

from flink_agents_py.external.failures import (
    ActionError,
    BusinessRejected,
    BusinessRetryable,
    ConnectTimeout,
    NetworkUnavailable,
    ReadTimeout,
    TotalTimeout,
)
from flink_agents_py.external.handler import ActionSession, Shared
from flink_agents_py.external.http import HttpClient
from flink_agents_py.external.records import Oversized
from flink_agents_py.external.spec import ActionSpec, ActionTimeouts
from tests.support.fault_server import FaultServer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with FaultServer(tmp_path_factory.mktemp("faults") / "ledger.jsonl") as server:
        yield server


def client_of(target, key="", *, connect=20.0, read=20.0, remaining=30.0):
    spec = ActionSpec(name="act", target=target, timeouts=ActionTimeouts(connect=connect, read=read))
    return HttpClient(ActionSession(spec, key, 1, remaining, Shared()))


def send(server, script, *, key="", target=None, max_body_bytes=None, **limits):
    """What one request comes to."""

    async def go():
        client = client_of(target or server.url, key, **limits)
        return await client.post(f"/do/act?script={script}", json={"what": "it"}, max_body_bytes=max_body_bytes)

    return asyncio.run(go())


def error_of(server, script, **options) -> ActionError:
    with pytest.raises(ActionError) as caught:
        send(server, script, **options)
    return caught.value


def test_an_answer_comes_back_as_json(server):
    response = send(server, "ok", key="well")
    assert (response.status, response.complete) == (200, True)
    assert response.result() == {"done": "act", "echo": {"what": "it"}}


def test_the_idempotency_key_is_sent_with_each_request(server):
    send(server, "ok", key="sent along")
    assert len(server.ledger.starts["sent along"]) == 1


def test_a_refused_connection_is_network(server):
    error = error_of(server, "ok", target=server.refusing)
    assert type(error) is NetworkUnavailable
    assert "refused" in str(error).lower() or "connect" in str(error).lower()


def test_an_unknown_host_is_network(server):
    assert type(error_of(server, "ok", target="http://no-such-host.invalid")) is NetworkUnavailable


def test_a_broken_handshake_is_network(server):
    assert type(error_of(server, "ok", target=server.url.replace("http://", "https://"))) is NetworkUnavailable


@pytest.mark.parametrize("script", ["reset", "lost"])
def test_a_connection_that_breaks_off_is_network(server, script):
    assert type(error_of(server, script)) is NetworkUnavailable


def test_a_connection_nobody_accepts_is_a_connect_timeout(server):
    assert type(error_of(server, "ok", target=server.deaf, connect=0.3)) is ConnectTimeout


@pytest.mark.parametrize("script", ["hang", "stall"])
def test_a_silent_server_is_a_read_timeout(server, script):
    assert type(error_of(server, script, read=0.3)) is ReadTimeout


def test_a_server_that_never_ends_is_a_total_timeout(server):
    assert type(error_of(server, "trickle", remaining=0.5)) is TotalTimeout


def test_what_is_left_of_the_total_timeout_cuts_the_others_short(server):
    assert type(error_of(server, "hang", remaining=0.3)) is TotalTimeout


def test_nothing_is_sent_when_nothing_is_left(server):
    assert type(error_of(server, "ok", key="too late", remaining=0)) is TotalTimeout
    assert "too late" not in server.ledger.starts


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 501])
def test_a_refusal_is_a_business_rejection(server, status):
    error = error_of(server, str(status))
    assert (type(error), error.detail) == (BusinessRejected, {"status": status})
    assert f"told to answer {status}" in str(error)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_passing_failure_is_retryable(server, status):
    error = error_of(server, str(status))
    assert (type(error), error.detail, error.retry_after) == (BusinessRetryable, {"status": status}, None)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_comes_along(server, status):
    assert error_of(server, f"{status}:1.5").retry_after == 1.5


def test_an_expected_status_is_an_answer(server):
    async def look():
        return await client_of(server.url).post("/do/act?script=404", expected=(404,))

    assert asyncio.run(look()).status == 404


def test_json_that_is_none_is_unknown(server):
    response = send(server, "garbage")
    with pytest.raises(ActionError, match="no JSON"):
        response.result()


def test_an_answer_that_is_no_http_is_unknown(server):
    assert type(error_of(server, "noise")) is ActionError


def test_of_a_huge_body_only_the_limit_is_kept(server):
    tracemalloc.start()
    try:
        result = send(server, "big:50000000", max_body_bytes=1000).result()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(result, Oversized)
    assert (len(result.head), result.size) == (1000, 50_000_000)
    assert peak < 5_000_000


def test_a_body_without_end_is_not_read_to_the_end(server, monkeypatch):
    monkeypatch.setattr("flink_agents_py.external.http.MOST_READ_BYTES", 100_000)
    response = send(server, "big:50000000", max_body_bytes=1000)
    assert not response.exact
    assert 100_000 < response.size < 1_000_000


def test_digests_are_of_the_whole_body(server):
    whole = send(server, "big:5000")
    cut = send(server, "big:5000", max_body_bytes=10)
    assert (whole.complete, cut.complete) == (True, False)
    assert whole.digest == cut.digest


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_no_request_is_sent_twice_behind_the_policys_back(server, method):
    # aiohttp would, on a connection it has kept, and for PUT and DELETE.
    async def go():
        client = client_of(server.url, f"once {method}")
        await client.post("/do/act?script=ok")
        with pytest.raises(NetworkUnavailable):
            await client.request(method, "/do/act?script=ok,reset")

    asyncio.run(go())
    assert len(server.ledger.starts[f"once {method}"]) == 2


def test_calls_of_a_loop_share_connections_and_leave_none_open(server, recwarn):
    async def go():
        for number in range(3):
            await client_of(server.url, f"kept {number}").post("/do/act?script=ok")

    asyncio.run(go())
    peers = {server.ledger.starts[f"kept {number}"][0]["peer"] for number in range(3)}
    assert len(peers) == 1
    assert not [warning for warning in recwarn if "Unclosed" in str(warning.message)]


def test_messages_show_no_secrets(server):
    async def go():
        await client_of(server.refusing.replace("http://", "http://user:pass@")).get("/do/act?token=hidden")

    with pytest.raises(NetworkUnavailable) as caught:
        asyncio.run(go())
    assert "/do/act" in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert "pass" not in str(caught.value)


def test_urls_are_below_the_target():
    client = client_of("http://host:1/api/")
    assert client._absolute("/tickets?x=1") == "http://host:1/api/tickets?x=1"
    assert client._absolute("") == "http://host:1/api"
    assert client._absolute("https://other/x") == "https://other/x"


def test_a_hundred_calls_at_once_all_arrive(server):
    async def go():
        started = time.monotonic()
        clients = [client_of(server.url, f"crowd {number}") for number in range(100)]
        answers = await asyncio.gather(*(client.post("/do/crowd?script=ok:50", json={}) for client in clients))
        return [json.loads(answer.body)["done"] for answer in answers], time.monotonic() - started

    answers, _ = asyncio.run(go())
    assert answers == ["crowd"] * 100
    assert server.ledger.most_at_once() > 50
