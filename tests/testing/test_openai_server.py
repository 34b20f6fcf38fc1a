"""The loopback server answers as it is told and remembers what it was asked."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request

import pytest

from flink_agents_py.testing import ModelFault, ModelReply, OpenAIServer


def post(url, body, timeout=10):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


def chat(server, text, **more):
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
    return post(f"{server.url}/chat/completions", body)["choices"][0]


def test_replies_of_a_list_are_given_in_order_and_then_refused():
    with OpenAIServer(["one", {"score": 2}, ModelReply(tool_calls=[("add", {"x": 1})])]) as server:
        assert chat(server, "a")["message"]["content"] == "one"
        assert json.loads(chat(server, "b")["message"]["content"]) == {"score": 2}
        third = chat(server, "c")
        assert third["finish_reason"] == "tool_calls"
        assert third["message"]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"x": 1}'}
        with pytest.raises(urllib.error.HTTPError, match="400"):
            chat(server, "d")
        assert [request.text for request in server.answered] == ["a", "b", "c"]
        assert [request.status for request in server.requests] == [200, 200, 200, 400]


def test_a_rule_sees_tools_results_and_schema():
    seen = []

    def rule(request):
        seen.append((request.tools, request.tool_results, request.schema))
        return request.text.upper()

    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "tool_calls": []},
            {"role": "tool", "tool_call_id": "1", "content": "4"},
            {"role": "tool", "tool_call_id": "2", "content": "5"},
        ],
        "tools": [{"type": "function", "function": {"name": "add"}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    }
    with OpenAIServer(rule) as server:
        answer = post(f"{server.url}/chat/completions", body)
    assert answer["choices"][0]["message"]["content"] == "HI"
    assert seen == [(["add"], ["4", "5"], {"type": "object"})]


def test_faults_come_first_and_say_when_to_come_back():
    def fault(request):
        return ModelFault(429, retry_after_s=7, retry_after_ms=20) if request.repeat == 0 else None

    with OpenAIServer("fine", faults=fault) as server:
        with pytest.raises(urllib.error.HTTPError) as limited:
            chat(server, "a")
        assert limited.value.headers["Retry-After"] == "7"
        assert limited.value.headers["retry-after-ms"] == "20"
        assert chat(server, "a")["message"]["content"] == "fine"
        assert [(request.status, request.repeat) for request in server.requests] == [(429, 0), (200, 1)]


def test_a_hanging_answer_never_comes_and_a_hung_up_one_has_no_status():
    with OpenAIServer([ModelFault(hang=True), ModelFault(status=0)]) as server:
        with pytest.raises(TimeoutError):
            post(f"{server.url}/chat/completions", {"messages": []}, timeout=0.2)
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            chat(server, "b")
        assert [request.status for request in server.requests] == [0, 0]


def test_texts_that_share_words_have_near_embeddings():
    with OpenAIServer() as server:
        answer = post(f"{server.url}/embeddings", {"input": ["a red car", "a red bike", "cold milk"]})
    near, far = (
        sum(x * y for x, y in zip(answer["data"][0]["embedding"], answer["data"][other]["embedding"], strict=True))
        for other in (1, 2)
    )
    assert near > 0.5 > far


def test_the_port_stays_over_a_restart():
    server = OpenAIServer("again")
    with server:
        first = server.url
    with server:
        assert server.url == first
        assert chat(server, "a")["message"]["content"] == "again"
