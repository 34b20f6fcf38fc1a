"""What users test their agents with: a harness on a virtual clock, and crashes at every step.

One agent, step by step; a call waits until the test says what came of it::

    harness = AgentHarness(MyAgent(), {"max-in-flight": 10})
    harness.feed("alice", 42)                # key, value
    harness.calls[0].complete("done")        # or .fail(error), or .run() to make it, or leave it hanging
    harness.advance(60)                      # a minute passes: sleeps, retries and timeouts fall due
    assert harness.outputs == ["done"]
    assert harness.short_term_memory("alice").get("last") == "done"

A checkpoint, a crash, and what the agent makes of it::

    snapshot = harness.snapshot()
    harness.restore(snapshot)                # a new attempt; calls in flight are lost, outputs of since taken back
    harness.advance(30)                      # timers resume what was interrupted

All of that at every step, the effects compared with those of an undisturbed run::

    report = crash_everywhere(Scenario(MyAgent, [("alice", 42), ("bob", 7), ("alice", 1)]))
    print(report.points, "crash points tried")

Functions are really called then; let them stand for the outside world, and give ``reset`` what sets it back. Agents
with several actions of one run at work at a time say ``ordered=False``.
"""

from flink_agents_py.testing.calls import PendingCall
from flink_agents_py.testing.clock import VirtualClock
from flink_agents_py.testing.crash import CrashReport, Scenario, crash_everywhere
from flink_agents_py.testing.harness import AgentHarness, Snapshot
from flink_agents_py.testing.openai_replies import ModelFault, ModelReply, ModelRequest
from flink_agents_py.testing.openai_server import OpenAIServer
from flink_agents_py.testing.scripted_model import ScriptedChatModel, ScriptedRequest, asks_for

__all__ = [
    "AgentHarness",
    "CrashReport",
    "ModelFault",
    "ModelReply",
    "ModelRequest",
    "OpenAIServer",
    "PendingCall",
    "Scenario",
    "ScriptedChatModel",
    "ScriptedRequest",
    "Snapshot",
    "VirtualClock",
    "asks_for",
    "crash_everywhere",
]
