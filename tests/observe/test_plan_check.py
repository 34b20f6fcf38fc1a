"""``plan check``: what it finds in a plan, and what it asks of whom."""

from __future__ import annotations

import json
import sys

import pytest

from flink_agents_py import (
    Agent,
    AgentPlan,
    ChatMessage,
    ChatRequestEvent,
    InputEvent,
    ResourceDescriptor,
    ResourceName,
    ResourceType,
    action,
)
from flink_agents_py.cli import main
from flink_agents_py.resources.base import Resource
from tests.support import mcp_server

CONNECTION = ResourceType.CHAT_MODEL_CONNECTION


class Asker(Agent):
    @action(InputEvent)
    @staticmethod
    def ask(event, ctx):
        ctx.send_event(ChatRequestEvent("model", [ChatMessage.user(event.input)]))


class Store(Resource):
    """One of a user, whose ``open`` connects to something."""

    def __init__(self, size: int = 1) -> None:
        self.size = size

    def open(self) -> None:
        raise ConnectionError("opened")


def asker(api_key: str = "env:HOME", server: dict | None = None, **setup) -> Agent:
    agent = Asker()
    openai = ResourceName.ChatModel.OPENAI_COMPLETIONS_CONNECTION
    agent.add_resource("service", CONNECTION, ResourceDescriptor(openai, api_key=api_key))
    model = {"connection": "service", "model": "m", **setup}
    agent.add_resource(
        "model", ResourceType.CHAT_MODEL, ResourceDescriptor(ResourceName.ChatModel.OPENAI_COMPLETIONS_SETUP, **model)
    )
    if server is not None:
        agent.add_resource("calc", ResourceType.MCP_SERVER, ResourceDescriptor(ResourceName.MCP_SERVER, **server))
    return agent


@pytest.fixture
def check(tmp_path, capsys):
    def check(agent: Agent | str, *options: str) -> tuple[int, dict[str, dict]]:
        target = tmp_path / "plan.json"
        target.write_text(agent if isinstance(agent, str) else AgentPlan.from_agent(agent).to_json())
        capsys.readouterr()
        code = main(["plan", "check", str(target), "--format", "json", *options])
        report = json.loads(capsys.readouterr().out)
        assert report["problems"] == sum(finding["ok"] is False for finding in report["findings"])
        return code, {finding["subject"]: finding for finding in report["findings"]}

    return check


STDIO = {"command": sys.executable, "args": [mcp_server.__file__, "stdio"]}


def test_a_plan_that_finds_everything_is_well(check):
    code, found = check(asker())
    assert code == 0
    assert {"plan", "action 'ask'", "chat_model_connection 'service'", "chat_model 'model'"} <= found.keys()
    assert all(finding["ok"] for finding in found.values())
    assert found["action 'ask'"]["said"] == f"{__name__}:Asker.ask"


def test_a_secret_that_is_not_here_is_told_once_and_what_needs_it_points_there(check, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    code, found = check(asker("env:NO_SUCH_KEY"))
    assert code == 1
    wrong = {subject: finding for subject, finding in found.items() if not finding["ok"]}
    assert len(wrong) == 2
    first, second = wrong.values()
    assert "NO_SUCH_KEY is not set" in first["said"]
    assert first["fix"]
    assert second["said"] == f"because of {first['subject']}"


def test_functions_classes_and_names_that_are_not_here_are_named(check):
    plan = json.loads(AgentPlan.from_agent(asker()).to_json())
    plan["resource_providers"]["chat_model"]["model"]["descriptor"]["arguments"]["tools"] = ["nothing"]
    plan["actions"]["ask"]["exec"]["qualname"] = "Asker.gone"
    code, found = check(json.dumps(plan))
    assert code == 1
    assert "Asker.gone" in found["action 'ask'"]["said"]
    assert "no tool 'nothing'" in found["chat_model 'model'"]["said"]
    assert found["chat_model_connection 'service'"]["ok"]


def test_conditions_need_their_evaluator(check, monkeypatch):
    pytest.importorskip("cel", reason="common-expression-language needs Python 3.11")
    agent = Agent().add_action("ask", ["input > 3"], Asker.ask)
    text = AgentPlan.from_agent(agent).to_json()
    assert check(text)[0] == 0
    monkeypatch.setitem(sys.modules, "cel", None)
    code, findings = check(text)
    assert code == 1
    assert "common-expression-language" in findings["action 'ask'"]["said"]


def test_a_plan_that_is_none_is_a_problem_and_not_a_traceback(check, capsys):
    code, found = check('{"plan_version": 99}')
    assert (code, list(found)) == (1, ["plan"])
    assert "version 99" in found["plan"]["said"]
    assert main(["plan", "check", "no.such:Agent"]) == 1
    assert "WRONG plan: " in capsys.readouterr().out


def test_resources_of_users_are_built_and_not_opened(check):
    agent = Asker()
    agent.add_resource("own", ResourceType.VECTOR_STORE, ResourceDescriptor(Store, size=3))
    assert check(agent)[0] == 0


def test_servers_are_left_alone_unless_asked_for(check):
    code, found = check(asker(server={"command": "no-such-program"}))
    assert code == 0
    assert found["tools of mcp_server 'calc'"]["ok"] is None


def test_a_server_that_is_asked_lists_its_tools_and_prompts(check):
    code, found = check(asker(server=STDIO, tools=["mcp:calc/add", "pid"], prompt="greet"), "--connect")
    assert code == 0
    assert found["tools of mcp_server 'calc'"]["said"] == "it answers: add, pid, refuse, wait; prompts: greet"
    assert found["tools of chat_model 'model'"]["ok"]


def test_tools_no_server_has_and_servers_that_do_not_answer_are_wrong(check):
    code, found = check(asker(server=STDIO, tools=["mcp:calc/divide"], prompt="shout"), "--connect")
    assert code == 1
    assert "the tool 'divide', the prompt 'shout'" in found["tools of chat_model 'model'"]["said"]

    code, found = check(asker(server={"command": "no-such-program"}, tools=["add"]), "--connect")
    assert code == 1
    assert "cannot be reached" in found["tools of mcp_server 'calc'"]["said"]
    assert found["tools of chat_model 'model'"]["said"] == "because of tools of mcp_server 'calc'"

    silent = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    code, found = check(asker(server=silent), "--connect", "--timeout", "0.5")
    assert code == 1
    assert "no answer within 0.5 s" in found["tools of mcp_server 'calc'"]["said"]
