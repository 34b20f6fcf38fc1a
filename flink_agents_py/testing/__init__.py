"""What users test their agents with: a harness on a virtual clock, and crashes at every step.

::

    harness = AgentHarness(MyAgent())
    harness.feed("alice", 42)
    harness.calls[0].complete("done")        # or .fail(error), .run(), or leave it hanging
    assert harness.outputs == ["done"]

    crash_everywhere(Scenario(MyAgent, [("alice", 42), ("bob", 7)]))
"""

from flink_agents_py.testing.calls import PendingCall
from flink_agents_py.testing.clock import VirtualClock
from flink_agents_py.testing.crash import CrashReport, Scenario, crash_everywhere
from flink_agents_py.testing.harness import AgentHarness, Snapshot

__all__ = [
    "AgentHarness",
    "CrashReport",
    "PendingCall",
    "Scenario",
    "Snapshot",
    "VirtualClock",
    "crash_everywhere",
]
