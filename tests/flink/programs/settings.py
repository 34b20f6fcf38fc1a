"""What an environment of ours sets on one of Flink's."""

from __future__ import annotations

import importlib.util
from typing import Any
from unittest.mock import patch

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_py import AgentsExecutionEnvironment


def inspect(spec: dict[str, Any]) -> dict[str, Any]:
    """Spec: flink (options the user set), agents (options of ours), missing (packages that are not there).

    Answers ``ours`` (what the environment says it has set) and ``flink`` (Flink's configuration then), or ``error``.
    """
    configuration = Configuration()
    for key, value in spec.get("flink", {}).items():
        configuration.set_string(key, value)
    find = importlib.util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        return None if name in spec.get("missing", ()) else find(name, *rest)

    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    with patch.object(importlib.util, "find_spec", find_spec):
        try:
            agents = AgentsExecutionEnvironment.get_execution_environment(env)
            for key, value in spec.get("agents", {}).items():
                agents.get_config().set(key, value)
            agents.from_datastream(env.from_collection([1]), str)
        except Exception as error:  # noqa: BLE001 - what the user would see
            return {"error": f"{type(error).__name__}: {error}"}
    java = env._j_stream_execution_environment.getConfiguration()
    flink = Configuration(j_configuration=java).to_dict()
    return {"ours": agents.settings(), "flink": flink, "buffer timeout": env.get_buffer_timeout()}
