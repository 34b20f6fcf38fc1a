"""Where values come from besides code: a file, and the environment."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flink_agents_py.errors import ConfigError

PREFIX = "FLINK_AGENTS_PY__"
FILE_VARIABLE = "FLINK_AGENTS_PY_CONFIG"
_SECTION = "agent"


def file_of(environ: Mapping[str, str]) -> Path | None:
    """The file that ``FLINK_AGENTS_PY_CONFIG`` names, else Flink's own, if that has a section ``agent``.

    Raises:
        ConfigError: Flink's file cannot be read.
    """
    named = environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    folder = environ.get("FLINK_CONF_DIR")
    flink = Path(folder) / "config.yaml" if folder else None
    return flink if flink is not None and flink.is_file() and _section_of(_read(flink)) is not None else None


def read_file(path: Path) -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of a JSON or YAML file.

    Raises:
        ConfigError: it cannot be read, or holds no options.
    """
    document = _read(path)
    section = _section_of(document)
    return _flat(document if section is None else section)


def _section_of(document: Mapping[Any, Any]) -> dict[str, Any] | None:
    """The section ``agent`` of a document, written as such or as keys that begin with ``agent.``."""
    section = document.get(_SECTION)
    found: dict[str, Any] = dict(section) if isinstance(section, dict) else {}
    begin = f"{_SECTION}."
    dotted = {key[len(begin) :]: value for key, value in document.items() if str(key).startswith(begin)}
    return {**found, **dotted} if dotted or isinstance(section, dict) else None


def read_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Name of the variable, key and text of each variable that sets an option."""
    for name in sorted(environ):
        if name.startswith(PREFIX):
            yield name, name[len(PREFIX) :].lower().replace("__", ".").replace("_", "-"), environ[name]


def _read(path: Path) -> dict[Any, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            document = json.loads(text)
        elif path.suffix in {".yaml", ".yml"}:
            document = _yaml(text)
        else:
            raise ConfigError(
                f"cannot tell the format of the file {path}", fix="let its name end in .json, .yaml or .yml"
            )
    except ConfigError:
        raise
    except Exception as error:  # each parser has its own
        raise ConfigError(
            f"cannot read the configuration file {path}: {error}", fix="check that it exists and is valid"
        ) from error
    if document is None:  # an empty file
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"the file {path} holds no options", fix="write them as `key: value` lines or a JSON object")
    return document


def _yaml(text: str) -> Any:
    try:
        return importlib.import_module("yaml").safe_load(text)
    except ImportError:
        pass
    try:
        return importlib.import_module("ruamel.yaml").YAML(typ="safe").load(text)
    except ImportError:
        raise ConfigError("no YAML reader is installed", fix="pip install pyyaml, or write the file as JSON") from None


def _flat(section: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{key}.")
        else:
            yield key, value
