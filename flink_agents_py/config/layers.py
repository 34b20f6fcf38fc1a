"""Where values come from besides code: a file, and the environment."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flink_agents_py.errors import ConfigError

PREFIX = "FLINK_AGENTS_PY__"


def read_file(path: Path) -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of a JSON or YAML file.

    Raises:
        ConfigError: it cannot be read, or holds no options.
    """
    document = _read(path)
    section = document.get("agent")
    return _flat(section if isinstance(section, dict) else document)


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
