"""Unaligned checkpoints, where they stop no pipeline for good."""

from __future__ import annotations

import json

import pytest

from flink_agents_py.flink.barriers import Deadlock, deadlock_in
from tests.support.flink import eventually
from tests.support.ledger import lines


def plan(**steps):
    """An execution plan: ``name=["input CONNECTION", ...]``; steps without inputs are sources."""
    ids = {name: number for number, name in enumerate(steps)}
    nodes = []
    for name, inputs in steps.items():
        edges = [one.split() for one in inputs]
        predecessors = [{"id": ids[source], "ship_strategy": how, "side": "second"} for source, how in edges]
        pact = "Operator" if inputs else "Data Source"
        nodes.append({"id": ids[name], "type": name, "pact": pact, "predecessors": predecessors})
    return json.dumps({"nodes": nodes})


TO_THE_AGENT = {"source": [], "start": [], "read": ["source FORWARD"], "agent": ["read HASH", "start HASH"]}


@pytest.mark.parametrize("connection", ["FORWARD", "RESCALE", "BROADCAST"])
def test_a_step_that_gives_out_to_an_agent_and_past_it_may_stop(connection):
    steps = {**TO_THE_AGENT, "past": ["read REBALANCE"], "join": [f"agent {connection}", "past FORWARD"]}
    found = deadlock_in(plan(**steps, sink=["join FORWARD"]))
    assert found == Deadlock(giving="read", passing="agent", joining="join")
    assert "'join' reads from 'read' twice, once by way of 'agent'" in str(found)


def test_it_may_stop_steps_behind_the_agent_too():
    steps = {**TO_THE_AGENT, "more": ["agent FORWARD"], "yet": ["more FORWARD"]}
    assert deadlock_in(plan(**steps, join=["yet FORWARD", "read HASH"])) == Deadlock("read", "agent", "join")


@pytest.mark.parametrize(
    "more",
    [
        {"sink": ["agent FORWARD"], "past": ["read FORWARD"]},
        {"join": ["agent HASH", "read HASH"]},
        {"join": ["agent HASH", "read REBALANCE"], "sink": ["join FORWARD"]},
        {"side": ["agent FORWARD"], "join": ["agent FORWARD", "side FORWARD"]},
        {"other": [], "past": ["other FORWARD"], "join": ["agent FORWARD", "past FORWARD"]},
        {"past": ["source FORWARD"], "join": ["agent FORWARD", "past FORWARD"]},
    ],
    ids=["two sinks", "keyed", "overtaken", "both from the agent", "another source", "from the source itself"],
)
def test_others_may_not(more):
    assert deadlock_in(plan(**TO_THE_AGENT, **more)) is None


def test_a_keyed_step_of_the_users_own_is_no_better():
    steps = {"source": [], "read": ["source FORWARD"], "sums": ["read HASH"]}
    assert deadlock_in(plan(**steps, join=["sums FORWARD", "read FORWARD"])) == Deadlock("read", "sums", "join")


@pytest.mark.parametrize("joined", [True, False], ids=["one sink", "two sinks"])
def test_the_pipeline_is_looked_at_and_goes_on_with_what_is_chosen(host, mode, tmp_path, outputs, joined):
    """One element of the source becomes more than the network's buffers hold; checkpoints come meanwhile."""
    count, many = 6, 3000
    spec = {"count": count, "per_second": 10, "many": many, "payload": 1000, "joined": joined, "outputs": str(outputs)}
    built, started = host.call("tests.flink.programs.diamond:chosen", mode=mode, **spec)
    assert built == (mode == "thread")
    assert started != joined
    job = host.start(
        "diamond",
        mode,
        spec,
        execution__checkpointing__interval="200 ms",
        execution__checkpointing__dir=(tmp_path / "checkpoints").as_uri(),
        execution__checkpointing__unaligned__enabled=str(started).lower(),
    )
    eventually(lambda: {line["number"] for line in lines(outputs)} == set(range(count * many)), what="all outputs")
    job.wait()


@pytest.mark.parametrize("asked", [True, False])
def test_who_says_what_checkpoints_shall_be_gets_them(host, mode, outputs, asked):
    spec = {"count": 1, "per_second": 1, "many": 1, "payload": 1, "joined": True, "outputs": str(outputs)}
    assert host.call("tests.flink.programs.diamond:chosen", mode=mode, asked=asked, **spec) == [asked, asked]
