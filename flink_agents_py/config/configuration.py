"""Values of options, each with where it came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

from flink_agents_py.config.layers import file_of, read_environment, read_file
from flink_agents_py.config.option import ConfigOption
from flink_agents_py.config.options import KNOWN, nearly_known
from flink_agents_py.errors import ConfigError, EncodeError
from flink_agents_py.serde import from_plain, to_plain

T = TypeVar("T")


class AgentConfiguration:
    """Values of options, each with where it came from.

    Args:
        conf_data: values by key, as if :meth:`set` for each.
    """

    def __init__(self, conf_data: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {}
        self._sources: dict[str, str] = {}
        for key, value in (conf_data or {}).items():
            self.set(key, value)

    @classmethod
    def load(cls, file: str | Path | None = None, environ: Mapping[str, str] | None = None) -> AgentConfiguration:
        """The configuration of a file (JSON or YAML, if given) and of the environment, which wins.

        Args:
            file: path ending in ``.json``, ``.yaml`` or ``.yml``; if not given, the one that the environment names
                (:func:`~flink_agents_py.config.layers.file_of`).
            environ: variables; those of this process if not given, ``{}`` for none.

        Raises:
            ConfigError: the file cannot be read, or a value or key is wrong.
        """
        config = cls()
        environ = os.environ if environ is None else environ
        file = file_of(environ) if file is None else file
        if file is not None:
            for key, value in read_file(Path(file)):
                config._set(key, value, f"file {file}")
        for name, key, text in read_environment(environ):
            config._set(key, text, f"environment {name}")
        return config

    # --- writing ----------------------------------------------------------------------------------------------------

    def set(self, key: str | ConfigOption[Any], value: Any) -> None:
        """Set an option, or a key of your own; wins over file and environment. ``None`` takes back what was set.

        Raises:
            ConfigError: the value does not fit the option, cannot travel, or the key is a mistyped one of ours.
        """
        if isinstance(key, ConfigOption):
            value = value if value is None else key.parse(value, "code")
            key = key.key
        self._set(key, value, "code")

    def _set(self, key: str, value: Any, source: str) -> None:
        _check_name(key, source)
        if value is None:
            self._values.pop(key, None)
            self._sources.pop(key, None)
            return
        option = KNOWN.get(key)
        if option is not None:
            value = option.parse(value, source)
        else:
            try:
                value = from_plain(to_plain(value, allow_pickle=False))  # a copy: the caller may go on changing its own
            except EncodeError as error:
                raise ConfigError(
                    f"the value of {key!r} cannot travel to the workers: {error.what}",
                    where=f"set by {source}, at {error.where}",
                    fix="give a text, a number, true or false, or a list or dictionary of those",
                ) from error
        self._values[key] = value
        self._sources[key] = source

    # --- reading ----------------------------------------------------------------------------------------------------

    @overload
    def get(self, key: ConfigOption[T], default: T | None = None) -> T: ...

    @overload
    def get(self, key: str, default: Any = None) -> Any: ...

    def get(self, key: str | ConfigOption[Any], default: Any = None) -> Any:
        """The value of an option or key; else ``default`` if given, else the option's own default.

        Raises:
            ConfigError: the value does not fit the option (one of your own), or the key is a mistyped one of ours.
        """
        name = key.key if isinstance(key, ConfigOption) else key
        if name in self._values:
            value = self._values[name]
            if isinstance(key, ConfigOption) and KNOWN.get(name) is not key:  # those were parsed when they were set
                return key.parse(value, self.source_of(name))
            return value
        option = key if isinstance(key, ConfigOption) else KNOWN.get(name)
        if option is None or option is not KNOWN.get(name):
            _check_name(name, "code")
        if default is not None:
            return default
        return option.default if option is not None else None

    @overload
    def get_str(self, key: str, default: str) -> str: ...

    @overload
    def get_str(self, key: str, default: None = None) -> str | None: ...

    def get_str(self, key: str, default: str | None = None) -> str | None:
        """The value as text."""
        return self._get_as(str, key, default)

    @overload
    def get_int(self, key: str, default: int) -> int: ...

    @overload
    def get_int(self, key: str, default: None = None) -> int | None: ...

    def get_int(self, key: str, default: int | None = None) -> int | None:
        """The value as a whole number."""
        return self._get_as(int, key, default)

    @overload
    def get_float(self, key: str, default: float) -> float: ...

    @overload
    def get_float(self, key: str, default: None = None) -> float | None: ...

    def get_float(self, key: str, default: float | None = None) -> float | None:
        """The value as a number."""
        return self._get_as(float, key, default)

    @overload
    def get_bool(self, key: str, default: bool) -> bool: ...

    @overload
    def get_bool(self, key: str, default: None = None) -> bool | None: ...

    def get_bool(self, key: str, default: bool | None = None) -> bool | None:
        """The value as a bool; ``"false"``, ``"no"``, ``"off"`` and ``"0"`` are ``False``."""
        return self._get_as(bool, key, default)

    def _get_as(self, kind: type[T], key: str, default: T | None) -> T | None:
        value = self.get(key, default)
        return None if value is None else ConfigOption[T](key, kind, value).parse(value, self.source_of(key))

    def source_of(self, key: str | ConfigOption[Any]) -> str:
        """Where the value comes from: ``default``, ``file PATH``, ``environment NAME`` or ``code``."""
        return self._sources.get(key.key if isinstance(key, ConfigOption) else key, "default")

    @property
    def conf_data(self) -> dict[str, Any]:
        """A copy of what was set explicitly, by key."""
        return dict(self._values)

    # --- the plan ---------------------------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, Any]:
        """JSON-able form, ``{"conf_data": ..., "sources": ...}``; sources only of values that are not from code."""
        document: dict[str, Any] = {"conf_data": {key: to_plain(self._values[key]) for key in sorted(self._values)}}
        sources = {key: self._sources[key] for key in sorted(self._sources) if self._sources[key] != "code"}
        if sources:
            document["sources"] = sources
        return document

    @classmethod
    def from_plain(cls, document: Mapping[str, Any]) -> AgentConfiguration:
        """Read what :meth:`to_plain` wrote.

        Raises:
            ConfigError: a value does not fit its option.
        """
        config = cls()
        sources = document.get("sources", {})
        for key, value in document.get("conf_data", {}).items():
            config._set(key, from_plain(value, allow_pickle=False), sources.get(key, "code"))
        return config


def _check_name(key: str, source: str) -> None:
    # Where options are all there is to write, a key in a section of ours is meant to be one.
    meant = nearly_known(key, sections=source != "code")
    if meant is not None:
        raise ConfigError(
            f"there is no option {key!r}",
            where=f"set by {source}" if source != "code" else None,
            fix=f"did you mean {meant!r}? Name an option of your own so that it is not mistaken for that one",
        )
