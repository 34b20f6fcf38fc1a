"""A process with a JVM in which Flink jobs of tests run, one after another; see :mod:`tests.support.flink`.

Started as ``python -m tests.support.flink_host FD``: a request a line on stdin, an answer a line on the file descriptor
FD, both JSON. What the jobs print goes to stdout and stderr, which the other side keeps as the log.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway

_POLL_S = 0.05


class Host:
    """The requests."""

    def __init__(self) -> None:
        self._job: Any = None
        self._result: Any = None

    def call(self, function: str, spec: dict[str, Any]) -> Any:
        """What a function of a module answers."""
        return _find(function)(spec)

    def start(self, program: str, spec: dict[str, Any], options: dict[str, str]) -> str:
        """Build the job of ``program`` and start it; its id."""
        configuration = Configuration()
        for key, value in options.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        _find(f"tests.flink.programs.{program}:build")(env, spec)
        client = env.execute_async(program)
        self._job = client._j_job_client  # the wrapper cannot stop with a savepoint (pyflink-facts.md)
        self._result = self._job.getJobExecutionResult()
        return str(client.get_job_id())

    def stop(self, directory: str) -> str:
        """Stop the job with a savepoint below ``directory``; its path."""
        formats = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType
        path = str(self._job.stopWithSavepoint(False, directory, formats.CANONICAL).get())
        self._result = None  # the cluster of the job goes with it, at times before it says how the job ended
        return path

    def cancel(self) -> None:
        """End the job, if it still runs."""
        if self.running():
            with suppress(Py4JJavaError):  # it has ended just now, and its cluster with it
                self._job.cancel().get()
                self.wait(60)

    def running(self) -> bool:
        """Whether the job has not ended yet."""
        return self._result is not None and not self._result.isDone()

    def wait(self, timeout: float) -> str:
        """Wait for the job's end; ``""`` or why it failed."""
        deadline = time.monotonic() + timeout
        while not self._result.isDone():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job still runs after {timeout:g} s")
            time.sleep(_POLL_S)
        try:
            self._result.get()
        except Exception as error:  # noqa: BLE001 - a Java stack trace, for the test to judge
            return str(error)
        return ""


def _find(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def main() -> None:
    """Answer requests until stdin ends."""
    host = Host()
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as answers:
        for line in sys.stdin:
            request, arguments = json.loads(line)
            try:
                answer = {"result": getattr(host, request)(**arguments)}
            except Exception:  # noqa: BLE001 - told to the other side
                answer = {"error": traceback.format_exc()}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
