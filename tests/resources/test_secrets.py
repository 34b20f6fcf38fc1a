"""Secrets travel by reference: neither plan, nor errors, nor logs have them."""

from __future__ import annotations

import logging

import pytest
from pydantic import Field, SecretStr

from flink_agents_py import Agent, AgentConfiguration, AgentPlan, ResourceDescriptor, ResourceName, ResourceType
from flink_agents_py.errors import AgentDefinitionError, SecretError
from flink_agents_py.ext.provider_errors import model_error
from flink_agents_py.resources.base import ModelResource

CONNECTION = ResourceType.CHAT_MODEL_CONNECTION
KEY = "sk-very-secret-0123"


class Service(ModelResource):
    secret_arguments = frozenset({"api_key", "headers"})

    api_key: SecretStr | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    url: str = ""
    size: int = 0


def plan_of(config=None, cls=Service, **arguments):
    agent = Agent()
    agent.add_resource("service", CONNECTION, ResourceDescriptor(cls, **arguments))
    text = AgentPlan.from_agent(agent, AgentConfiguration(config)).to_json()
    return text, AgentPlan.from_json(text)


def service_of(config=None, **arguments):
    return plan_of(config, **arguments)[1].get_resource("service", CONNECTION)


def test_a_variable_is_read_where_the_resource_is_built(monkeypatch):
    text, plan = plan_of(api_key="env:SERVICE_KEY")
    monkeypatch.setenv("SERVICE_KEY", KEY)
    service = plan.get_resource("service", CONNECTION)
    assert service.api_key.get_secret_value() == KEY
    assert KEY not in text
    assert KEY not in repr(service)


def test_a_file_is_read_where_the_resource_is_built(tmp_path):
    (tmp_path / "key").write_text(f"{KEY}\n")
    assert service_of(api_key=f"file:{tmp_path}/key").api_key.get_secret_value() == KEY


def test_a_reference_may_be_part_of_a_header(monkeypatch):
    monkeypatch.setenv("TOKEN", KEY)
    headers = service_of(headers={"Authorization": "Bearer ${env:TOKEN}", "X-Team": "blue"}).headers
    assert headers == {"Authorization": f"Bearer {KEY}", "X-Team": "blue"}


@pytest.mark.parametrize("arguments", [{"api_key": KEY}, {"headers": {"Authorization": KEY}}])
def test_a_secret_in_the_open_is_refused_when_compiling(arguments):
    with pytest.raises(AgentDefinitionError, match="in the open") as caught:
        plan_of(**arguments)
    assert KEY not in str(caught.value)


def test_so_it_is_for_classes_named_by_a_string_and_in_the_configuration():
    with pytest.raises(AgentDefinitionError, match="in the open"):
        plan_of(cls=ResourceName.ChatModel.OPENAI_COMPLETIONS_CONNECTION, api_key=KEY)
    with pytest.raises(AgentDefinitionError, match="in the open") as caught:
        plan_of({"Service.api_key": KEY})
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("reference", ["env:NOT_SET_ANYWHERE", "file:/not/there"])
def test_a_secret_that_is_not_there_is_named_by_its_reference(reference):
    with pytest.raises(SecretError, match=reference.partition(":")[2]):
        service_of(api_key=reference)


def test_an_argument_that_does_not_fit_does_not_bring_the_secret_into_the_error(monkeypatch, caplog):
    monkeypatch.setenv("SERVICE_KEY", KEY)
    with caplog.at_level(logging.DEBUG), pytest.raises(AgentDefinitionError, match="size") as caught:
        service_of(api_key="env:SERVICE_KEY", size=KEY)
    assert KEY not in str(caught.value) + caplog.text
    assert caught.value.__cause__ is None


def test_an_error_that_quotes_a_secret_is_told_without_it(monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", KEY)
    _ = service_of(api_key="env:SERVICE_KEY")
    assert KEY not in str(model_error(RuntimeError(f"bad key {KEY}"), "service", "m"))


def test_the_configuration_wins_over_the_descriptor():
    service = service_of({"Service.url": "http://config", "Service.size": 3}, url="http://descriptor", size=1)
    assert (service.url, service.size) == ("http://config", 3)


def test_a_resource_sees_its_agent():
    service = service_of({"my.key": 1})
    assert service.resource_context.names(CONNECTION) == ["service"]
    assert service.resource_context.config.get("my.key") == 1
