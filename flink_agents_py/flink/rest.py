"""What a JobManager's REST interface tells about jobs, and what it lets one do with them."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.flink.failures import python_cause

T = TypeVar("T")

_FINAL_STATES = frozenset({"FINISHED", "FAILED", "CANCELED", "SUSPENDED"})
_POLL_S = 0.1
_METRICS_AT_ONCE = 40  # names in one URL

# The JobManager is on this machine or this network: a web proxy from the environment has no business in between.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class JobManagerClient:
    """REST client of one JobManager; all times are seconds."""

    def __init__(self, rest_url: str) -> None:
        self.rest_url = rest_url

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request, return the decoded answer.

        Raises:
            EnvironmentSetupError: the JobManager does not answer, or answers with an error.
        """
        request = urllib.request.Request(  # noqa: S310 - the URL is built by our own cluster class
            self.rest_url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with _opener.open(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            reason = error.read().decode(errors="replace")
            raise EnvironmentSetupError(
                f"the JobManager refused: {error.code} {reason[:2000]}", where=f"{method} {request.full_url}"
            ) from None
        except OSError as error:
            raise EnvironmentSetupError(
                f"the JobManager does not answer: {error}",
                where=f"{method} {request.full_url}",
                fix="see the JobManager's log",
            ) from error
        return json.loads(text) if text else None

    def overview(self) -> dict[str, Any]:
        """Counts of TaskManagers (``taskmanagers``), slots (``slots-total``, ``slots-available``) and jobs."""
        result: dict[str, Any] = self.request("GET", "/overview")
        return result

    def job_state(self, job_id: str) -> str:
        """``CREATED``, ``RUNNING``, ``RESTARTING``, ``FINISHED``, ``FAILED``, ``CANCELED``, ..."""
        return str(self.request("GET", f"/jobs/{job_id}")["state"])

    def job_failures(self, job_id: str) -> list[str]:
        """Stack traces of the failures of a job, newest first, restarts included."""
        history = self.request("GET", f"/jobs/{job_id}/exceptions")["exceptionHistory"]
        return [str(entry["stacktrace"]) for entry in history["entries"]]

    def checkpoints(self, job_id: str) -> dict[str, Any]:
        """Checkpoint statistics: ``counts`` (completed, failed, ...), ``latest``, ``history``, ``summary``."""
        result: dict[str, Any] = self.request("GET", f"/jobs/{job_id}/checkpoints")
        return result

    def metrics(self, job_id: str, operator: str, subtask: int = 0) -> dict[str, float]:
        """Metrics of one operator of a running job, by name with their groups; those that are no numbers are left out.

        Args:
            operator: its name; that of an agent's is ``agent <name of the agent>``.
        """
        found: dict[str, float] = {}
        prefix = f"{subtask}.{operator.replace(' ', '_')}."
        for vertex in self.request("GET", f"/jobs/{job_id}")["vertices"]:
            path = f"/jobs/{job_id}/vertices/{vertex['id']}/metrics"
            names = [entry["id"] for entry in self.request("GET", path)]
            names = [name for name in names if name.replace(" ", "_").startswith(prefix)]
            for start in range(0, len(names), _METRICS_AT_ONCE):
                wanted = ",".join(names[start : start + _METRICS_AT_ONCE])
                for entry in self.request("GET", f"{path}?get={urllib.parse.quote(wanted)}"):
                    with suppress(ValueError):
                        found[entry["id"][len(prefix) :]] = float(entry["value"])
        return found

    def wait_for_state(self, job_id: str, *states: str, timeout: float = 60.0) -> str:
        """Wait until the job is in one of ``states``, return that state.

        Raises:
            EnvironmentSetupError: it reached another state for good, or the time is up; the last failure is told.
        """

        def reached() -> str | None:
            state = self.job_state(job_id)
            if state in states:
                return state
            if state in _FINAL_STATES:
                raise self._unexpected(job_id, state, states)
            return None

        found = wait_until(reached, timeout)
        if found is None:
            raise self._unexpected(job_id, f"{self.job_state(job_id)} after {timeout:g} s", states)
        return found

    def _unexpected(self, job_id: str, state: str, wanted: tuple[str, ...]) -> EnvironmentSetupError:
        failures = self.job_failures(job_id)
        what = f"job {job_id} is {state}, not {' or '.join(wanted)}"
        if not failures:
            return EnvironmentSetupError(what)
        return EnvironmentSetupError(f"{what}; last failure:\n{failures[0]}\n\n{what}: {python_cause(failures[0])}")

    def cancel(self, job_id: str) -> None:
        """Cancel a job and wait until it is gone."""
        self.request("PATCH", f"/jobs/{job_id}?mode=cancel")
        self.wait_for_state(job_id, *_FINAL_STATES)

    def savepoint(self, job_id: str, directory: str, *, timeout: float = 60.0) -> str:
        """Take a savepoint below ``directory``, return its path; the job goes on."""
        body = {"target-directory": directory, "cancel-job": False}
        return self._savepoint(job_id, f"/jobs/{job_id}/savepoints", body, timeout)

    def stop_with_savepoint(self, job_id: str, directory: str, *, drain: bool = False, timeout: float = 60.0) -> str:
        """Take a savepoint below ``directory``, end the job and return the savepoint's path.

        ``drain`` sends the MAX watermark first: for a job that will not be continued.
        """
        body = {"targetDirectory": directory, "drain": drain}
        return self._savepoint(job_id, f"/jobs/{job_id}/stop", body, timeout)

    def _savepoint(self, job_id: str, path: str, body: dict[str, Any], timeout: float) -> str:
        trigger = self.request("POST", path, body)["request-id"]

        def completed() -> dict[str, Any] | None:
            answer = self.request("GET", f"/jobs/{job_id}/savepoints/{trigger}")
            operation: dict[str, Any] = answer.get("operation") or {}
            return operation if answer["status"]["id"] == "COMPLETED" else None

        operation = wait_until(completed, timeout)
        if operation is None:
            raise EnvironmentSetupError(f"no savepoint of job {job_id} after {timeout:g} s")
        if "location" not in operation:
            cause = operation.get("failure-cause") or {}
            raise EnvironmentSetupError(f"savepoint of job {job_id} failed: {cause.get('stack-trace', operation)}")
        return str(operation["location"])


def wait_until(condition: Callable[[], T | None], timeout: float) -> T | None:
    """Ask ``condition`` again and again until it gives something true, or for ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result or time.monotonic() >= deadline:
            return result
        time.sleep(_POLL_S)
