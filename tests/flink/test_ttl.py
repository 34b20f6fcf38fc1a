"""The TTL of short-term memory on Flink: what tests/engine/test_memory_ttl.py shows, by the real clock."""

from __future__ import annotations

import pytest

from tests.support.flink import eventually
from tests.support.ledger import lines

TTL_S = 3.0
THERE = {"object": True, "names": ["user"]}
GONE = {"value": None, "object": False, "names": []}


def told(outputs):
    return [{name: line[name] for name in ("value", "object", "names")} for line in lines(outputs)]


@pytest.mark.flink
def test_memory_is_there_before_its_ttl_has_passed_and_gone_after(host, mode, outputs):
    config = {"short-term-memory.state-ttl.ms": f"{TTL_S} s"}
    host.run("ttl", mode, {"outputs": str(outputs), "sleeps": [0, 0, TTL_S + 0.1, 0], "config": config})
    assert told(outputs) == [GONE, {"value": 0, **THERE}, GONE, {"value": 2, **THERE}]


@pytest.mark.flink
def test_a_timer_removes_what_has_expired_from_state(host, mode, outputs):
    """Where what has expired may be read as long as it is there, it can be seen that it is not."""
    config = {
        "short-term-memory.state-ttl.ms": 500,
        "short-term-memory.state-ttl.update-type": "ON_CREATE_AND_WRITE",
        "short-term-memory.state-ttl.visibility": "RETURN_EXPIRED_IF_NOT_CLEANED_UP",
    }
    # As many inputs as it takes.
    spec = {"outputs": str(outputs), "sleeps": [0] * 4000, "once": True, "per_second": 5, "config": config}
    job = host.start("ttl", mode, spec)
    eventually(lambda: job.check_runs() and told(outputs)[-2:] == [GONE, GONE], what="the memory is gone")
    host.ask("cancel")
    seen = told(outputs)
    gone_at = seen.index(GONE, 1)
    assert seen == [GONE, *[{"value": 0, **THERE}] * (gone_at - 1), *[GONE] * (len(seen) - gone_at)]
