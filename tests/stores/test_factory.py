from __future__ import annotations

import logging
import sys

import pytest

from flink_agents_py.agent import Agent
from flink_agents_py.config import AgentConfiguration
from flink_agents_py.errors import ConfigError, StoreError
from flink_agents_py.plan import AgentPlan
from flink_agents_py.stores.factory import make_store, open_store
from flink_agents_py.stores.failures import PASSWORD_VARIABLE, USER_VARIABLE
from flink_agents_py.stores.kafka import KafkaStore
from flink_agents_py.stores.postgres import PostgresStore
from flink_agents_py.stores.redis import RedisStore
from flink_agents_py.stores.sqlite import SqliteStore
from tests.stores.conformance import record
from tests.stores.servers import PASSWORD, free_port


def options(backend, url=None, **others):
    named = {"action-state-store.backend": backend, "action-state-store.url": url}
    return AgentConfiguration({key: value for key, value in named.items() if value is not None} | others)


def test_no_store_is_the_default():
    assert open_store(AgentConfiguration(), "job") is None


def test_a_store_comes_open(tmp_path):
    store = open_store(options("sqlite", f"sqlite://{tmp_path}/state.db"), "job")
    store.put([record()])
    assert store.claim(b"k") == [record()]
    store.close()


@pytest.mark.parametrize(
    ("backend", "url", "kind"),
    [
        ("sqlite", "/tmp/x.db", SqliteStore),
        ("postgres", "postgresql://host/db", PostgresStore),
        ("redis", "redis://host", RedisStore),
        ("kafka", "kafka://host:9092", KafkaStore),
    ],
)
def test_each_backend_has_its_store(backend, url, kind):
    assert isinstance(make_store(options(backend, url), {}), kind)
    with pytest.raises(ConfigError, match=r"action-state-store\.url is not set"):
        make_store(options(backend), {})


def test_a_relative_path_is_refused():
    with pytest.raises(ConfigError, match=r"relative path 'state\.db'"):
        make_store(options("sqlite", "state.db"), {})


@pytest.mark.parametrize(
    ("module", "backend", "url"),
    [("psycopg", "postgres", "postgresql://h/d"), ("redis", "redis", "redis://h"), ("confluent_kafka", "kafka", "h:1")],
)
def test_a_missing_client_library_is_named_with_its_extra(monkeypatch, module, backend, url):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"pip install 'flink-agents-py\[{backend}\]'"):
        make_store(options(backend, url), {})


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@host/db",
        "postgresql://host/db?user=me&password=s3cret",
        "host=x password = s3cret",
        "redis://:s3cret@host:6379/0",
        "redis://me:s3cret/with/slashes@host",
        "redis://me:s3cret#x@host",
        "kafka://host:9092?sasl.password=s3cret",
        "redis://s3cret@host",
        "redis://[s3cret@host",
    ],
)
def test_credentials_in_the_url_are_refused_without_repeating_them(url):
    for set_it in (
        lambda: options("redis", url),
        lambda: AgentConfiguration.load(environ={"FLINK_AGENTS_PY__ACTION_STATE_STORE__URL": url}),
        lambda: AgentConfiguration.from_plain({"conf_data": {"action-state-store.url": url}}),
    ):
        with pytest.raises(ConfigError, match=USER_VARIABLE) as caught:
            set_it()
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "/var/lib/me@home:here/state.db",
        "postgresql://host:5432/db?application_name=a@b:c",
        "redis://[::1]:6379/0",
        "kafka://h1:9092,h2:9092",
        "kafka://h1:9092,h2?client.id=a@b",
    ],
)
def test_urls_without_credentials_are_fine(url):
    assert options("redis", url).get("action-state-store.url") == url


@pytest.mark.parametrize(
    ("backend", "url"),
    [
        ("postgres", "postgresql://127.0.0.1:{port}/db"),
        ("redis", "redis://127.0.0.1:{port}"),
        ("kafka", "kafka://127.0.0.1:{port}"),
    ],
)
def test_credentials_are_in_no_plan_error_or_log(backend, url, caplog, capfd, monkeypatch):
    monkeypatch.setenv(USER_VARIABLE, "me")
    monkeypatch.setenv(PASSWORD_VARIABLE, "s3cret")
    config = options(backend, url.format(port=free_port()), **{"action-state-store.timeout": 300})
    with caplog.at_level(logging.DEBUG), pytest.raises(StoreError) as caught:
        open_store(config, "job")
    plan = AgentPlan.from_agent(Agent(), config)
    said = (
        plan.to_json() + str(caught.value) + repr(caught.value.__context__) + caplog.text + "".join(capfd.readouterr())
    )
    assert "s3cret" not in said


def test_credentials_of_the_environment_are_used(redis_url):
    store = open_store(options("redis", redis_url), "job", {PASSWORD_VARIABLE: PASSWORD})
    assert store.claim(b"k") == []
    store.close()
