"""Specs in files: read when a registry is made, and watched while the job runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from flink_agents_py.errors import ConfigError, FlinkAgentsError
from flink_agents_py.external.filewatch import FileWatch
from flink_agents_py.external.registry import Registration, check_handler
from flink_agents_py.external.spec import ActionSpec


def read_registrations(path: str | Path) -> list[Registration]:
    """The actions of a file; every entry needs its handler.

    Raises:
        ConfigError: the file cannot be read, or an entry is wrong.
    """
    registrations = parse(_read(path), str(path))
    for registration in registrations:
        if registration.handler is None:
            raise ConfigError(
                f"action {registration.spec.name!r} has no handler",
                where=str(path),
                fix='add "handler": "module:attr" to the entry',
            )
    return registrations


def parse(text: bytes, where: str) -> list[Registration]:
    """The actions in the text of a file.

    Raises:
        ConfigError: it is not of the right shape; the message names the entry.
    """
    try:
        document = _yaml(text) if where.endswith((".yaml", ".yml")) else json.loads(text)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"the file of external actions cannot be parsed: {error}", where=where, fix="write JSON (or .yaml)"
        ) from error
    entries = document.get("actions") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ConfigError(
            "the file has no list of actions", where=where, fix='its shape is {"actions": [{"name": ...}, ...]}'
        )
    registrations: dict[str, Registration] = {}
    for number, entry in enumerate(entries):
        registration = _registration(entry, f"{where}, entry {number}")
        if registration.spec.name in registrations:
            raise ConfigError(
                f"action {registration.spec.name!r} is in the file twice", where=where, fix="keep one of them"
            )
        registrations[registration.spec.name] = registration
    return list(registrations.values())


def _registration(entry: Any, where: str) -> Registration:
    if not isinstance(entry, dict):
        raise ConfigError(f"an action is an object, not a {type(entry).__name__}", where=where, fix="see ActionSpec")
    fields = dict(entry)
    handler = fields.pop("handler", None)
    try:
        spec = ActionSpec.model_validate(fields)
        if handler is not None:
            if not isinstance(handler, str):
                raise ConfigError('a handler is named by "module:attr"', where=where, fix="write it as text")
            check_handler(handler, spec.name)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        raise ConfigError(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}", where=where, fix="see ActionSpec for the fields"
        ) from None
    except ConfigError:
        raise
    except FlinkAgentsError as error:
        raise ConfigError(error.what, where=where, fix=error.fix) from error
    return Registration(spec, handler)


def _yaml(text: bytes) -> Any:
    try:
        from ruamel.yaml import YAML  # apache-flink brings it
    except ImportError as error:
        raise ConfigError("YAML cannot be read here", where="ruamel.yaml", fix="install it, or write JSON") from error
    return YAML(typ="safe", pure=True).load(text)


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the file of external actions cannot be read: {error}", where=str(path), fix="check path and permissions"
        ) from error


class WatchedFile:
    """A file of actions that may change at any time; looked at by whoever calls :meth:`changed`."""

    def __init__(self, path: str, interval_s: float) -> None:
        self.path = path
        self._watch = FileWatch(path, interval_s, "external actions")

    def changed(self, now_ms: int) -> Callable[[], list[Registration]] | None:
        """How to read what is new (it may raise ConfigError); ``None`` if it is not time to look, or nothing is."""
        read = self._watch.changed(now_ms)
        return None if read is None else lambda: parse(read(), self.path)
