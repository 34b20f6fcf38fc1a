"""`flink-agents-py config`, and the layers it tells of."""

from __future__ import annotations

import json

import pytest

from flink_agents_py.cli import main
from flink_agents_py.config import AgentConfiguration, AgentOptions
from flink_agents_py.environment import AgentsExecutionEnvironment
from flink_agents_py.errors import ConfigError


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """Flink's own file, in the folder that Flink's scripts name."""
    monkeypatch.setenv("FLINK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("FLINK_AGENTS_PY__MAX_QUEUED", "9")
    return tmp_path / "config.yaml"


def listed(capsys, *arguments):
    assert main(["config", "--format", "json", *arguments]) == 0
    return {row["key"]: row for row in json.loads(capsys.readouterr().out)}


def test_every_option_is_listed_with_its_value_and_source(conf, capsys):
    conf.write_text("rest.port: 1\nagent:\n  max-in-flight: 5\n  durable:\n    on-mismatch: fail\n")
    rows = listed(capsys)
    assert rows.keys() == AgentOptions.all().keys()
    values = {key: (row["value"], row["source"]) for key, row in rows.items() if row["source"] != "default"}
    assert values == {
        "max-in-flight": (5, f"file {conf}"),
        "durable.on-mismatch": ("fail", f"file {conf}"),
        "max-queued": (9, "environment FLINK_AGENTS_PY__MAX_QUEUED"),
    }
    assert all(row["about"] for row in rows.values())
    assert listed(capsys, "--set").keys() == values.keys()


def test_the_text_says_what_an_option_takes(conf, capsys):
    assert main(["config"]) == 0
    told = capsys.readouterr().out
    assert "max-queued = 9    (environment FLINK_AGENTS_PY__MAX_QUEUED)" in told
    assert "pump-interval = 2    (default)" in told
    assert "Takes a whole number of ms, or a text such as '2 s', at least 1." in told


def test_a_job_reads_flinks_file_below_the_environment_below_code(conf):
    conf.write_text("agent.max-in-flight: 5\nagent.max-queued: 6\nagent.time-budget: 70\nparallelism.default: 3\n")
    config = AgentsExecutionEnvironment.get_execution_environment().get_config()
    config.set(AgentOptions.TIME_BUDGET, 80)
    assert [config.get(key) for key in ("max-in-flight", "max-queued", "time-budget")] == [5, 9, 80]
    assert config.get("parallelism.default") is None


def test_a_file_of_ones_own_comes_before_flinks(conf, tmp_path, monkeypatch, capsys):
    conf.write_text("agent.max-in-flight: 5\n")
    own = tmp_path / "own.yaml"
    own.write_text("max-in-flight: 6\n")
    monkeypatch.setenv("FLINK_AGENTS_PY_CONFIG", str(own))
    assert listed(capsys)["max-in-flight"]["value"] == 6
    monkeypatch.setenv("FLINK_AGENTS_PY_CONFIG", str(tmp_path / "gone.yaml"))
    with pytest.raises(ConfigError, match=r"gone\.yaml"):
        AgentConfiguration.load()


def test_flinks_file_without_our_section_sets_nothing(conf):
    conf.write_text("max-in-flight: 5\n")
    assert AgentConfiguration.load().conf_data == {"max-queued": 9}


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("max-inflight: 5", "max-in-flight"),
        ("durable.on-mismach: fail", "durable.on-mismatch"),
        ("action-state-store.password: x", "action-state-store"),  # far from all, but in a section of ours
    ],
)
def test_a_mistyped_key_is_an_error_that_names_the_nearest(conf, capsys, wrong, meant):
    conf.write_text(f"agent:\n  {wrong}\n")
    assert main(["config"]) == 1
    told = capsys.readouterr().err
    assert f"there is no option {wrong.partition(':')[0]!r}" in told
    assert f"did you mean '{meant}" in told
    assert f"file {conf}" in told


def test_keys_of_ones_own_are_listed_and_with_strict_are_errors(conf, capsys):
    conf.write_text("agent:\n  seconds: 5\n  event-log:\n    type:\n      order:\n        level: VERBOSE\n")
    rows = listed(capsys, "--set")
    assert rows["seconds"]["about"] == "a key of your own"
    assert rows["event-log.type.order.level"]["value"] == "VERBOSE"
    assert main(["config", "--strict"]) == 1
    assert "the nearest is" in capsys.readouterr().err


def test_a_bad_value_names_key_value_and_source(conf, capsys):
    conf.write_text("agent:\n  max-in-flight: many\n")
    assert main(["config"]) == 1
    assert f"option 'max-in-flight' cannot be 'many'\n  where: set by file {conf}" in capsys.readouterr().err
