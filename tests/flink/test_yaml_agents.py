"""Agents of YAML files and condition expressions on Flink, in both modes."""

from __future__ import annotations

import pytest

from tests.flink.programs.yaml_agents import FILE
from tests.support.ledger import lines

pytest.importorskip("cel", reason="common-expression-language needs Python 3.11")


def test_an_agent_of_a_file_runs_and_its_conditions_decide(host, mode, outputs, tmp_path):
    file = tmp_path / "agents.yaml"
    file.write_text(FILE, encoding="utf-8")
    spec = {"count": 40, "keys": 4, "large": 16, "file": str(file), "outputs": str(outputs)}
    host.run("yaml_agents", mode, spec)
    halves = [number // 2 for number in range(0, 40, 2)]
    expected = sorted(half for half in halves if half >= 16 or half % 2)
    written = lines(outputs)
    assert sorted(line["number"] for line in written) == expected
    assert {line["type"] for line in written} == {"halved"}
