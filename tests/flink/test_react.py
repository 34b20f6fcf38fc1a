"""ReAct on Flink: a model behind a real protocol that is slow, busy, broken and silent in turns, and a failing job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from flink_agents_py.testing import ModelFault, ModelReply, ModelRequest, OpenAIServer
from tests.support.flink import say
from tests.support.ledger import lines

COUNT, KEYS = 28, 7  # so that each key meets several faults
FAULTS = {3: ModelFault(429, retry_after_ms=30), 5: ModelFault(500), 7: ModelFault(hang=True), 9: ModelFault(status=0)}


def number_of(request: ModelRequest) -> int:
    return int(request.text.split()[1])


def round_of(request: ModelRequest) -> int:
    return sum(message["role"] == "assistant" for message in request.messages)


def say_what_is_scripted(request: ModelRequest) -> ModelReply:
    """Two tools at once, then one, then the answer, which tells all results."""
    question = request.text
    if round_of(request) == 0:
        return ModelReply(tool_calls=[("look_up", {"question": question}), ("measure", {"question": question})])
    if round_of(request) == 1:
        return ModelReply(tool_calls=[("look_up", {"question": f"{question} again"})])
    results = [message["content"] for message in request.messages if message["role"] == "tool"]
    return ModelReply(" | ".join(results))


def fault_of(request: ModelRequest) -> ModelFault | None:
    """The first time the first question of an input is put."""
    return FAULTS.get(number_of(request) % 10) if request.repeat == 0 and round_of(request) == 0 else None


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(say_what_is_scripted, faults=fault_of, latency_s=0.05) as server:
        yield server


def spec_of(server, outputs, tmp_path, chats, **more):
    return {
        "url": server.url,
        "count": COUNT,
        "keys": KEYS,
        "per_second": 0,
        "chats": chats,
        "outputs": str(outputs),
        "seen": str(tmp_path / "seen.jsonl"),
        **more,
    }


def check_answers(outputs, chats):
    """Each chat has one answer, made of its own results alone, in the order in which the model asked."""
    answers = {line["answer"] for line in lines(outputs)}
    by_question = {}
    for answer in answers:
        looked, measured, again = answer.split(" | ")
        question = looked.rsplit(" ", 1)[0]
        assert measured.rsplit(" ", 1)[0] == question
        assert again.rsplit(" ", 1)[0] == f"{question} again"
        assert question not in by_question, f"{question} was answered in two ways"
        by_question[question] = answer
    assert sorted(by_question) == sorted(f"question {n} {side}" for n in range(COUNT) for side in "ab"[:chats])


@pytest.mark.timeout(300)
def test_each_input_is_answered_with_as_many_calls_as_scripted(host, mode, server, outputs, tmp_path):
    host.run("react", mode, spec_of(server, outputs, tmp_path, chats=1))
    check_answers(outputs, chats=1)
    asked = Counter((request.text, round_of(request)) for request in server.requests)
    for (question, round_), times in asked.items():
        faulty = round_ == 0 and int(question.split()[1]) % 10 in FAULTS
        assert times == 1 + faulty, (question, round_, times)
    assert len(asked) == 3 * COUNT
    say(f"{mode}: {len(server.requests)} requests, {len(server.answered)} answered, for {COUNT} chats")


@pytest.mark.timeout(300)
def test_after_a_failure_no_finished_call_of_model_or_tool_is_made_again(host, mode, server, outputs, tmp_path):
    marker = tmp_path / "failed"
    spec = spec_of(
        server, outputs, tmp_path, 2, per_second=25, fail_at=18, marker=str(marker), store=str(tmp_path / "s")
    )
    job = host.start(
        "react",
        mode,
        spec,
        execution__checkpointing__interval="300 ms",
        restart_strategy__fixed_delay__attempts=1,
        restart_strategy__fixed_delay__delay="200 ms",
    )
    job.wait()
    assert marker.exists()
    check_answers(outputs, chats=2)
    # What is known shows in what is asked next: a question of a round means that the model's answers and the tools'
    # results of the rounds before it were recorded. Each run of a tool gives another result.
    newest: dict[str, int] = defaultdict(int)
    bodies: dict[tuple[str, int], set[str]] = defaultdict(set)
    for request in server.requests:
        round_ = round_of(request)
        assert round_ >= newest[request.text], f"round {round_} of {request.text} was asked again, behind a later one"
        newest[request.text] = round_
        bodies[request.text, round_].add(request.digest)
    assert {len(digests) for digests in bodies.values()} == {1}, "a tool whose result was known was called again"
    again = sum(count - 1 for count in Counter(request.digest for request in server.answered).values())
    say(f"{mode}: {again} of {len(server.answered)} answered requests were in flight at the failure and made again")
