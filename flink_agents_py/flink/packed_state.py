"""Several states of a key as entries of one map of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flink_agents_py.engine.ports import MapPort


class PackedText:
    """A text under a name."""

    def __init__(self, entries: MapPort, name: str) -> None:
        self._entries = entries
        self._name = name

    def get(self) -> str | None:
        return self._entries.get(self._name)

    def put(self, value: str) -> None:
        self._entries.put(self._name, value)

    def clear(self) -> None:
        self._entries.remove(self._name)


class PackedNumber(PackedText):
    """A whole number under a name."""

    def get(self) -> int | None:  # type: ignore[override]
        text = self._entries.get(self._name)
        return None if text is None else int(text)

    def put(self, value: int) -> None:  # type: ignore[override]
        self._entries.put(self._name, str(value))


class PackedMap:
    """A map whose keys begin with a prefix; none may be the beginning of another's."""

    def __init__(self, entries: MapPort, prefix: str) -> None:
        self._entries = entries
        self._prefix = prefix

    def get(self, key: str) -> str | None:
        return self._entries.get(self._prefix + key)

    def put(self, key: str, value: str) -> None:
        self._entries.put(self._prefix + key, value)

    def remove(self, key: str) -> None:
        self._entries.remove(self._prefix + key)

    def keys(self) -> list[str]:
        start = len(self._prefix)
        return [key[start:] for key in self._entries.keys() if key.startswith(self._prefix)]  # noqa: SIM118 - a port
