"""How much of an event type is logged."""

from __future__ import annotations

from flink_agents_py.config import AgentConfiguration, AgentOptions, ConfigOption

OFF, STANDARD, VERBOSE = 0, 1, 2
NAMES = ("OFF", "STANDARD", "VERBOSE")

_PREFIX, _SUFFIX = "event-log.type.", ".level"


class Levels:
    """Levels by event type.

    A type without one has that of the type it begins with, dot by dot (``a.b.C``, then ``a.b``, then ``a``), and in
    the end ``event-log.level``.

    Raises:
        ConfigError: a level is none; the message names the option and its source.
    """

    def __init__(self, config: AgentConfiguration) -> None:
        self.default = NAMES.index(config.get(AgentOptions.EVENT_LOG_LEVEL))
        self._given: dict[str, int] = {}
        for key in config.conf_data:
            if key.startswith(_PREFIX) and key.endswith(_SUFFIX) and len(key) > len(_PREFIX) + len(_SUFFIX):
                option = ConfigOption(key, str, "OFF", choices=NAMES)
                self._given[key[len(_PREFIX) : -len(_SUFFIX)]] = NAMES.index(config.get(option))
        self.known: dict[str, int] = {}

    @property
    def any(self) -> bool:
        """Whether anything is logged."""
        return self.default > OFF or any(self._given.values())

    @property
    def mixed(self) -> bool:
        """Whether types have levels of their own."""
        return bool(self._given)

    def of(self, event_type: str) -> int:
        """The level of an event type."""
        level = self.known.get(event_type)
        if level is None:
            level = self.known[event_type] = self._find(event_type)
        return level

    def _find(self, event_type: str) -> int:
        name = event_type
        while name:
            if name in self._given:
                return self._given[name]
            name = name.rpartition(".")[0]
        return self.default
