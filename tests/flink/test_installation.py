"""The environment of a standalone cluster's processes."""

from __future__ import annotations

from flink_agents_py.flink.installation import script_environment


def test_nothing_of_another_flink_leaks_in_but_what_is_for_our_workers_does(tmp_path, monkeypatch):
    monkeypatch.setenv("FLINK_HOME", "/another/flink")
    monkeypatch.setenv("FLINK_ENV_JAVA_OPTS", "-Dx=y")
    monkeypatch.setenv("FLINK_AGENTS_PY_STORE_PASSWORD", "secret")
    environment = script_environment(tmp_path / "flink", tmp_path)
    assert environment["FLINK_HOME"] == str(tmp_path / "flink")
    assert "FLINK_ENV_JAVA_OPTS" not in environment
    assert environment["FLINK_AGENTS_PY_STORE_PASSWORD"] == "secret"
