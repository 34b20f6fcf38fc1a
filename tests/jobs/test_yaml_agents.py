"""The YAML form of every job compiles to the plan of its Python form."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from flink_agents_py import AgentPlan, AgentsExecutionEnvironment, ResourceDescriptor, ResourceName, ResourceType
from jobs.benchmarks.agents import AGENTS
from jobs.benchmarks.backlog import BacklogAgent
from jobs.chaos.agent import CONNECTION, ChaosAgent, Service
from jobs.incident_actions import IncidentDesk, registry_of
from jobs.kafka_pipeline import OrderWatch
from jobs.late_data_probe import SlowReader
from jobs.react_support import support_agent
from jobs.review_analysis import ModelReviewAnalyst, ReviewAnalyst
from jobs.review_model import model_resources
from jobs.table_pipeline import Opinion

JOBS = Path(__file__).resolve().parents[2] / "jobs"
URL = "http://127.0.0.1:8080/v1"


def plan_of(environment, agent, agent_name=None):
    agent, agent_name = environment.named_agent(agent, agent_name)
    return AgentPlan.from_agent(
        agent,
        environment.get_config(),
        agent_name,
        shared_resources=environment.shared_resources,
        shared_registries=environment.shared_registries,
    )


def environment_with(*resources, **config):
    environment = AgentsExecutionEnvironment.get_execution_environment()
    for name, kind, resource in resources:
        environment.add_resource(name, kind, resource)
    for key, value in config.items():
        environment.get_config().set(key.replace("__", "."), value)
    return environment


def check_same(file, name, python, *, values=None, agent_name=None, resources=(), **config):
    """The plan of the file's agent is that of the Python form, made with the resources the job adds itself."""
    declared = environment_with(**config).load_yaml(JOBS / "agents" / file, values=values or {})
    from_yaml = plan_of(declared, name, agent_name)
    from_python = plan_of(environment_with(*resources, **config), python, agent_name)
    assert json.loads(from_yaml.to_json()) == json.loads(from_python.to_json())
    assert from_yaml.fingerprint == from_python.fingerprint
    assert not from_yaml.pickled_actions


def test_review_analysis():
    check_same("review_analysis.yaml", "ReviewAnalyst", ReviewAnalyst(), values={"model": "m"})


def test_review_analysis_with_a_model():
    check_same(
        "review_analysis.yaml",
        "ModelReviewAnalyst",
        ModelReviewAnalyst(),
        values={"model": "m"},
        agent_name="ReviewAnalyst",
        resources=model_resources("openai:m", None),
    )


def test_react_support():
    model, setup = model_resources("openai:demo", URL)
    setup[2].arguments["tools"] = ["order_status", "refund_policy", "open_ticket", "mcp:shipping"]
    shipping = ResourceDescriptor(ResourceName.MCP_SERVER, command="python3", args=["server.py"])
    check_same(
        "react_support.yaml",
        "ReActAgent",
        support_agent(),
        values={"model": "demo", "base_url": URL, "python": "python3", "server": "server.py"},
        resources=[model, setup, ("shipping", ResourceType.MCP_SERVER, shipping)],
        support__team="returns",
    )


def test_incident_actions():
    check_same(
        "incident_actions.yaml",
        "IncidentDesk",
        IncidentDesk().add_action_registry(registry_of(URL)),
        values={"url": URL},
    )


@pytest.mark.parametrize("agent", [Opinion, SlowReader])
def test_event_time_jobs(agent):
    check_same("event_time.yaml", agent.__name__, agent(), seconds=0.2)


def test_kafka_pipeline():
    check_same("kafka_pipeline.yaml", "OrderWatch", OrderWatch())


def test_chaos():
    service = ResourceDescriptor(Service, ledger="/tmp/ledger", seconds=0.25)
    python = ChaosAgent().add_resource("service", CONNECTION, service)
    check_same("chaos.yaml", "ChaosAgent", python, values={"ledger": "/tmp/ledger", "seconds": 0.25})


@pytest.mark.parametrize("agent", [*AGENTS.values(), BacklogAgent], ids=lambda agent: agent.__name__)
def test_benchmarks(agent):
    check_same("benchmarks.yaml", agent.__name__, agent(), values={"url": URL})


def test_chat_benchmark(monkeypatch):
    monkeypatch.setenv("FLINK_AGENTS_BENCH_CHAT_URL", URL)
    from jobs.benchmarks.chat_agent import ChatAgent

    check_same("benchmarks.yaml", "ChatAgent", ChatAgent(), values={"url": URL})


def test_no_job_is_left_out():
    """Every agent class under jobs/ is in a file; benchmarks may have agents of their own."""
    files = [path for path in JOBS.rglob("*.py") if "benchmarks" not in path.parts]
    classes = {
        node.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and {"Agent", "ReviewAnalyst"}.intersection(map(ast.unparse, node.bases))
    }
    values = dict.fromkeys(("model", "base_url", "python", "server", "url", "ledger", "seconds"), "x")
    environment = environment_with().load_yaml(sorted((JOBS / "agents").glob("*.yaml")), values=values)
    assert len(classes) > 5
    assert classes <= set(environment.declared_agents)
