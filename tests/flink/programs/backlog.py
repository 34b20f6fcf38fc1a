"""The backlog benchmark, as a program of the tests."""

from __future__ import annotations

from typing import Any

from pyflink.datastream import StreamExecutionEnvironment

from jobs.benchmarks.backlog import Backlog


def build(env: StreamExecutionEnvironment, spec: dict[str, Any]) -> None:
    """Spec: the fields of ``Backlog``."""
    fields = {name: value for name, value in spec.items() if name != "mode"}
    Backlog(**fields).build(env)
