from __future__ import annotations

import json
import sys
from datetime import date

import pytest

from flink_agents_py.config import AgentConfiguration, AgentOptions, ConfigOption
from flink_agents_py.errors import ConfigError

ENVIRON = {"FLINK_AGENTS_PY__MAX_IN_FLIGHT": "7", "FLINK_AGENTS_PY__DURABLE__ON_MISMATCH": "fail", "PATH": "x"}


@pytest.fixture(params=["json", "yaml"])
def file(request, tmp_path):
    path = tmp_path / f"agent.{request.param}"
    if request.param == "json":
        path.write_text(json.dumps({"agent": {"max-in-flight": 5, "durable": {"max-result-bytes": "1 MiB"}}, "x": 1}))
    else:
        path.write_text("agent:\n  max-in-flight: 5\n  durable:\n    max-result-bytes: 1 MiB\nx: 1\n")
    return path


def test_an_option_nobody_set_has_its_default():
    config = AgentConfiguration()
    assert config.get(AgentOptions.MAX_IN_FLIGHT) == config.get("max-in-flight") == 1000
    assert config.get(AgentOptions.JOB_IDENTIFIER) is None
    assert config.get(AgentOptions.MAX_IN_FLIGHT, 3) == 3
    assert config.source_of("max-in-flight") == "default"
    assert config.conf_data == {}


def test_code_wins_over_environment_over_file_over_default(file):
    config = AgentConfiguration.load(file, ENVIRON)
    assert config.get(AgentOptions.DURABLE_MAX_RESULT_BYTES) == 2**20
    assert config.source_of(AgentOptions.DURABLE_MAX_RESULT_BYTES) == f"file {file}"
    assert config.get(AgentOptions.MAX_IN_FLIGHT) == 7
    assert config.source_of("max-in-flight") == "environment FLINK_AGENTS_PY__MAX_IN_FLIGHT"
    assert config.get(AgentOptions.DURABLE_ON_MISMATCH) == "fail"
    assert config.get("x") is None  # outside the section of ours
    config.set(AgentOptions.MAX_IN_FLIGHT, 9)
    assert config.get(AgentOptions.MAX_IN_FLIGHT) == 9
    assert config.source_of("max-in-flight") == "code"


def test_the_environment_of_the_process_counts_unless_another_is_given(monkeypatch):
    monkeypatch.setenv("FLINK_AGENTS_PY__STATE__SEQUENCE_CACHE_SIZE", "12")
    assert AgentConfiguration.load().get(AgentOptions.SEQUENCE_CACHE_SIZE) == 12
    assert AgentConfiguration.load(environ={}).conf_data == {}


def test_a_file_without_our_section_is_read_whole(tmp_path):
    path = tmp_path / "agent.json"
    path.write_text('{"max-in-flight": 5, "mine.a": [1], "mine": {"b": {"c": 1}}, "none": null}')
    assert AgentConfiguration.load(path, {}).conf_data == {"max-in-flight": 5, "mine.a": [1], "mine.b.c": 1}


def test_an_empty_yaml_file_sets_nothing(tmp_path):
    path = tmp_path / "agent.yml"
    path.write_text("# nothing yet\n")
    assert AgentConfiguration.load(path, {}).conf_data == {}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("missing.json", None, "cannot read"),
        ("bad.json", "{", "cannot read"),
        ("bad.yaml", "a: [", "cannot read"),
        ("list.json", "[1]", "holds no options"),
        ("agent.toml", "a = 1", "format"),
    ],
)
def test_a_bad_file_is_named(tmp_path, name, text, message):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        AgentConfiguration.load(path, {})
    assert name in str(caught.value)


def test_yaml_without_a_reader_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "agent.yaml"
    path.write_text("a: 1")
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert AgentConfiguration.load(path, {}).get("a") == 1
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    with pytest.raises(ConfigError, match="pip install pyyaml"):
        AgentConfiguration.load(path, {})


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        (AgentOptions.TIME_BUDGET, 20, 20),
        (AgentOptions.TIME_BUDGET, "20", 20),
        (AgentOptions.TIME_BUDGET, "50 ms", 50),
        (AgentOptions.TIME_BUDGET, "0.3 s", 300),
        (AgentOptions.RESUME_TIMER_INTERVAL, "1min", 60_000),
        (AgentOptions.RESUME_TIMER_INTERVAL, " 2 H ", 7_200_000),
        (AgentOptions.MAX_IN_FLIGHT, 10.0, 10),
        (AgentOptions.MAX_IN_FLIGHT, "1_000", 1000),
        (AgentOptions.DURABLE_MAX_RESULT_BYTES, "2 kb", 2048),
        (AgentOptions.UNALIGNED_CHECKPOINTS, "false", False),
        (AgentOptions.UNALIGNED_CHECKPOINTS, "On", True),
        (AgentOptions.EXECUTION_MODE, "thread", "thread"),
        (AgentOptions.JOB_IDENTIFIER, 17, "17"),
        (ConfigOption("mine", float, 1.0, unit="s"), "250 ms", 0.25),
        (ConfigOption("mine", float, 1.0), "1.5e3", 1500.0),
        (ConfigOption("mine", int, 1), 2**70, 2**70),
        (ConfigOption("mine", int, 1), str(2**70), 2**70),
    ],
)
def test_a_value_is_understood_as_the_type_of_its_option(option, value, expected):
    config = AgentConfiguration()
    config.set(option, value)
    assert config.get(option) == config.get(option.key) == expected
    assert type(config.get(option)) is type(expected)
    config.set(option.key, value)
    assert config.get(option) == expected


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (AgentOptions.TIME_BUDGET, "soon"),
        (AgentOptions.TIME_BUDGET, "5 parsecs"),
        (AgentOptions.TIME_BUDGET, "0.5 ms"),
        (AgentOptions.TIME_BUDGET, 0),
        (AgentOptions.MAX_IN_FLIGHT, "2 s"),
        (AgentOptions.MAX_IN_FLIGHT, 1.5),
        (AgentOptions.MAX_IN_FLIGHT, True),
        (AgentOptions.MAX_IN_FLIGHT, float("nan")),
        (AgentOptions.MAX_IN_FLIGHT, [1]),
        (AgentOptions.UNALIGNED_CHECKPOINTS, "perhaps"),
        (AgentOptions.UNALIGNED_CHECKPOINTS, 2),
        (AgentOptions.EXECUTION_MODE, "loopback"),
        (AgentOptions.JOB_IDENTIFIER, 1.5),
    ],
)
def test_a_bad_value_names_key_value_source_and_what_was_expected(option, value):
    for key in (option, option.key):
        with pytest.raises(ConfigError) as caught:
            AgentConfiguration().set(key, value)
        assert f"option {option.key!r} cannot be {value!r}" in str(caught.value)
        assert "set by code" in str(caught.value)
        assert option.expects in str(caught.value)


def test_a_bad_value_from_the_environment_names_the_variable():
    with pytest.raises(
        ConfigError, match=r"'max-in-flight' cannot be 'many'\n  where: .*FLINK_AGENTS_PY__MAX_IN_FLIGHT"
    ):
        AgentConfiguration.load(environ={"FLINK_AGENTS_PY__MAX_IN_FLIGHT": "many"})


def test_getters_convert_and_false_is_false():
    config = AgentConfiguration({"a": "false", "b": "0", "n": "12", "f": 3, "s": 5})
    assert config.get_bool("a") is False
    assert config.get_bool("b") is False
    assert config.get_int("n") == 12
    assert config.get_float("f") == 3.0
    assert config.get_str("s") == "5"
    assert config.get_int("absent") is None
    assert config.get_int("absent", 4) == 4
    assert config.get_int("max-in-flight") == 1000
    with pytest.raises(ConfigError, match="option 'a' cannot be 'false'"):
        config.get_int("a")


def test_an_option_of_the_users_own_is_checked_when_read():
    mine = ConfigOption("threshold", float, 0.5, "Scores below are dropped.")
    config = AgentConfiguration.load(environ={"FLINK_AGENTS_PY__THRESHOLD": "high"})
    with pytest.raises(ConfigError, match=r"cannot be 'high'(\n.*)*environment"):
        config.get(mine)
    assert AgentConfiguration().get(mine) == 0.5


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["max-inflight", "max_in_flight", "Max-In-Flight", "max-in-flights"])
def test_a_mistyped_key_of_ours_is_an_error_that_suggests_the_right_one(key):
    with pytest.raises(ConfigError, match=r"did you mean 'max-in-flight'\?"):
        AgentConfiguration().set(key, 1)
    with pytest.raises(ConfigError, match=r"did you mean 'max-in-flight'\?"):
        AgentConfiguration().get(key)


@pytest.mark.parametrize("key", ["retries-of-mine", "model", "my.max", "durable.store", "log.colour"])
def test_keys_of_the_users_own_are_free(key):
    config = AgentConfiguration({key: {"a": 1}})
    assert config.get(key) == {"a": 1}


def test_none_takes_back_what_was_set():
    config = AgentConfiguration({"max-in-flight": 3})
    config.set("max-in-flight", None)
    assert config.get(AgentOptions.MAX_IN_FLIGHT) == 1000
    assert config.source_of("max-in-flight") == "default"


def test_a_value_that_cannot_travel_is_refused_where_it_is_set():
    with pytest.raises(ConfigError, match=r"'mine' cannot travel.*\n.*set by code, at \$\.a\[0\]"):
        AgentConfiguration().set("mine", {"a": [object()]})


def test_what_was_set_does_not_change_with_the_callers_object():
    value = {"a": [1]}
    config = AgentConfiguration({"mine": value})
    value["a"].append(2)
    assert config.get("mine") == {"a": [1]}


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_configuration_travels_with_types_and_sources():
    config = AgentConfiguration.load(environ=ENVIRON)
    config.set("since", date(2026, 1, 1))
    config.set("execution-mode", "process")
    document = json.loads(json.dumps(config.to_plain()))
    assert list(document["conf_data"]) == sorted(document["conf_data"])
    back = AgentConfiguration.from_plain(document)
    assert back.conf_data == config.conf_data
    for key in config.conf_data:
        assert back.source_of(key) == config.source_of(key)


def test_every_option_is_listed_under_its_key_with_a_sentence_and_a_valid_default():
    options = AgentOptions.all()
    assert options["time-budget"] is AgentOptions.TIME_BUDGET
    for key, option in options.items():
        assert key == option.key == key.lower()
        assert option.doc.endswith(".")
        assert option.default is None or option.parse(option.default, "default") == option.default
