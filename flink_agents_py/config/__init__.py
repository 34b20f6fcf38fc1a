"""Typed options in layers: defaults < configuration file < environment < code.

::

    config = AgentConfiguration.load("agent.yaml")   # and the environment variables of this process
    config.set(AgentOptions.MAX_IN_FLIGHT, 200)
    config.set("my-threshold", 0.5)                  # keys of your own are welcome
    config.get(AgentOptions.TIME_BUDGET)             # 50, in ms

A file is JSON or YAML; nested sections become dotted keys, and if it has a section ``agent`` only that one is read. It
is the one that ``FLINK_AGENTS_PY_CONFIG`` names, else Flink's own ``config.yaml`` if it has that section. An
environment variable ``FLINK_AGENTS_PY__DURABLE__ON_MISMATCH`` sets ``durable.on-mismatch``: after the prefix, two
underscores stand for a dot, one for a hyphen. A key that is nearly one of ours is taken for a typing mistake; in files
and the environment, so is an unknown one in a section of ours.
"""

from flink_agents_py.config.configuration import AgentConfiguration
from flink_agents_py.config.long_term_memory import LongTermMemoryOptions
from flink_agents_py.config.option import ConfigOption
from flink_agents_py.config.options import (
    AgentOptions,
    ShortTermMemoryTtlUpdate,
    ShortTermMemoryTtlVisibility,
)

__all__ = [
    "AgentConfiguration",
    "AgentOptions",
    "ConfigOption",
    "LongTermMemoryOptions",
    "ShortTermMemoryTtlUpdate",
    "ShortTermMemoryTtlVisibility",
]
