"""The model server of the ``chat`` workload, a process of its own: prints its URL, ends with its standard input."""

from __future__ import annotations

import sys

from flink_agents_py.testing import ModelReply, OpenAIServer
from jobs.benchmarks.workloads import CALL_S

if __name__ == "__main__":
    with OpenAIServer(ModelReply("It is as you say."), latency_s=CALL_S, ledger=False) as server:
        print(server.url, flush=True)
        sys.stdin.read()
