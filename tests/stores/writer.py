"""A process that writes to a store until it is killed: ``python -m tests.stores.writer BACKEND URL NAMESPACE JOB``.

Each put has records of two keys, with the same number; once it is confirmed the number is printed.
"""

from __future__ import annotations

import itertools
import sys

from flink_agents_py.config import AgentConfiguration
from flink_agents_py.stores import StoredRecord
from flink_agents_py.stores.factory import open_store

backend, url, namespace, job = sys.argv[1:]
store = open_store(
    AgentConfiguration(
        {
            "action-state-store.backend": backend,
            "action-state-store.url": url,
            "action-state-store.namespace": namespace,
        }
    ),
    job,
)
for number in itertools.count():
    store.put([StoredRecord(key, number, bytes(16), "act", -1, f'"{"x" * 2000}"') for key in (b"a", b"b")])
    print(number, flush=True)  # noqa: T201 - read by the test
