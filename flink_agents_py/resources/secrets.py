"""Secrets by reference: what the plan, logs and errors carry is where a secret is, never the secret.

A reference is the whole value of a secret argument, ``api_key="env:OPENAI_API_KEY"`` or ``password="file:/run/db"``, or
part of a longer text, ``{"Authorization": "Bearer ${env:TOKEN}"}``. It is resolved on the worker, when the resource is
built: ``env`` in the environment of the worker's process, ``file`` as the content of a file there, without the white
space around it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flink_agents_py.errors import AgentDefinitionError, SecretError

_WHOLE = re.compile(r"(env|file):(\S.*)", re.DOTALL)
_PART = re.compile(r"\$\{(env|file):([^}]+)\}")
_SECRET_NAME = re.compile(r"key|token|secret|password|passwd|authorization|credential|cookie", re.IGNORECASE)
_LEAST = 4  # shorter texts are not replaced in messages: they would be replaced inside of words

_known: set[str] = set()


def is_reference(value: Any) -> bool:
    """Whether ``value`` is a text that refers to a secret."""
    return isinstance(value, str) and bool(_WHOLE.fullmatch(value) or _PART.search(value))


def refuse_literal(value: Any, argument: str, where: str) -> None:
    """Check that a secret argument holds no secret in the open.

    In a dictionary (headers, say) only entries whose name speaks of a secret have to be references.

    Raises:
        AgentDefinitionError: it does; the message does not repeat it.
    """
    if isinstance(value, Mapping):
        for name, entry in value.items():
            if _SECRET_NAME.search(str(name)):
                refuse_literal(entry, f"{argument}[{name!r}]", where)
        return
    if value is None or is_reference(value):
        return
    raise AgentDefinitionError(
        f"{argument} holds a secret in the open, and would go into the plan",
        where=where,
        fix="give a reference that the worker resolves: 'env:NAME_OF_VARIABLE' or 'file:/path/on/the/worker'",
    )


def resolve(value: Any, where: str) -> Any:
    """``value`` with its references replaced by the secrets.

    Raises:
        SecretError: a variable or file is not there; the message names it.
    """
    if isinstance(value, str):
        whole = _WHOLE.fullmatch(value)
        if whole:
            return _look_up(whole[1], whole[2], where)
        return _PART.sub(lambda part: _look_up(part[1], part[2], where), value)
    if isinstance(value, Mapping):
        return {name: resolve(entry, where) for name, entry in value.items()}
    return value


def redact(text: str) -> str:
    """``text`` without the secrets that were resolved in this process, for errors that quote what was sent."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, "***")
    return text


def _look_up(kind: str, name: str, where: str) -> str:
    if kind == "env":
        found = os.environ.get(name)
        if found is None:
            raise SecretError(
                f"the environment variable {name} is not set in the worker's process",
                where=where,
                fix="set it where the TaskManagers start (containerized.taskmanager.env.*, or their environment)",
            )
    else:
        try:
            found = Path(name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SecretError(
                f"the secret file {name} cannot be read on the worker: {type(error).__name__}",
                where=where,
                fix="mount it on every TaskManager, readable for the user it runs as",
            ) from None
    if len(found) >= _LEAST:
        _known.add(found)
    return found
