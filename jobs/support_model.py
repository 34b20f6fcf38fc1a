"""A stand-in for the model of ``react_support``: rules behind OpenAI's protocol, on the loopback interface."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from flink_agents_py.testing import ModelFault, ModelReply, ModelRequest, OpenAIServer


@contextmanager
def demo_model() -> Iterator[str]:
    """The base URL of a server that is a little slow, and busy every seventh time."""
    with OpenAIServer(reply_to, faults=busy, latency_s=0.05) as server:
        yield server.url


def busy(request: ModelRequest) -> ModelFault | None:
    """429 for every seventh request, when it comes for the first time."""
    return ModelFault(429, retry_after_ms=100) if request.number % 7 == 0 and request.repeat == 0 else None


def reply_to(request: ModelRequest) -> ModelReply:
    """What a model with good sense would do: look up before it answers, and give up on what tools cannot tell."""
    question = request.text
    order = re.search(r"order (\d+)", question)
    city = re.search(r"to (\w+)\?", question)
    told = [message["content"] for message in request.messages if message["role"] == "tool"]
    if order and not told:
        return ModelReply(tool_calls=[("order_status", {"order_id": int(order[1])})])
    if order and "damaged" in question and len(told) == 1:
        calls = [("refund_policy", {"reason": "damaged"}), ("open_ticket", {"summary": question[:80]})]
        return ModelReply(tool_calls=calls)
    if city and not told:
        return ModelReply(tool_calls=[("shipping_days", {"city": city[1]})])
    if told and told[0].startswith("Error"):
        return ModelReply(f"Sorry, {told[0].rpartition(': ')[2]}.")
    if city:
        return ModelReply(f"It takes {told[0]} days to {city[1]}.")
    return ModelReply("; ".join(told) if told else "Please tell me the number of your order.")
