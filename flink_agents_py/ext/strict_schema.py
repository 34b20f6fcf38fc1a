"""JSON Schemas as services that hold a model to them strictly want them: no optional and no further properties."""

from __future__ import annotations

from typing import Any


def strict(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The strict form of ``schema``; ``None`` if it has an object of free keys, which has none."""
    try:
        made: dict[str, Any] = _strict(schema)
    except _FreeKeysError:
        return None
    return made


class _FreeKeysError(Exception):
    pass


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {
        name: _strict(value)
        for name, value in node.items()
        if name not in {"default", "title"} or isinstance(value, dict)
    }
    if node.get("type") == "object":
        properties = node.get("properties")
        if not isinstance(properties, dict) or node.get("additionalProperties"):
            raise _FreeKeysError
        made["properties"] = {name: _strict(value) for name, value in properties.items()}
        made["required"] = list(properties)
        made["additionalProperties"] = False
    return made
