"""A YAML file as plain values, and the line and column of each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flink_agents_py.errors import AgentFileError, EnvironmentSetupError

Location = Sequence[str | int]
"""Keys and indices that lead to a value, as pydantic's errors have them."""

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_MERGE = "tag:yaml.org,2002:merge"
_LARGEST = 100_000
"""Values in a file. Aliases of aliases could make billions of a few lines."""


class Place(NamedTuple):
    """Where something is in a file; lines and columns from 1 on."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Source:
    """One file, read.

    Args:
        values: what ``${name}`` in a text stands for; without them such texts stay as they are.

    Raises:
        AgentFileError: it cannot be read, is no YAML, has a key twice, or a placeholder without a value.
    """

    def __init__(self, path: str | Path, values: Mapping[str, Any] | None = None) -> None:
        self.path = str(path)
        self._values = values
        self._places: dict[tuple[Any, ...], tuple[Any, Any]] = {}  # marks of key and value
        self._count = 0
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise AgentFileError(
                f"the file cannot be read: {error}", where=self.path, fix="check the path, and that it is UTF-8"
            ) from error
        self._lines = text.split("\n")
        self._yaml = _reader()
        try:
            node = self._yaml.compose(text)
            self.value: Any = None if node is None else self._plain(node, (), None, ())
        except AgentFileError:
            raise
        except Exception as error:  # the reader has a dozen classes of errors
            raise self._syntax_error(error) from error
        if not isinstance(self.value, dict):
            what = "empty" if self.value is None else "no mapping"
            raise AgentFileError(f"the file is {what}", where=self.path, fix="begin it with 'agents:'")

    def place(self, location: Location, *, key: bool = False) -> Place:
        """Where a value (or its key) is; of what is not there, or no part of the file, what it would be in.

        Args:
            location: may have steps that are in no file, as pydantic adds some.
        """
        here: tuple[Any, ...] = ()
        for step in location:
            if (*here, step) in self._places:
                here = (*here, step)
        if here not in self._places:
            return Place(self.path, 1, 1)
        key_mark, value_mark = self._places[here]
        reached = bool(location) and bool(here) and here[-1] == location[-1]
        mark = key_mark if key and reached and key_mark is not None else value_mark
        return Place(self.path, mark.line + 1, mark.column + 1)

    def inside(self, location: Location, content: str, line: int, column: int) -> Place:
        """The place of line and column of a text, if the text is in the file as it is; else where it begins."""
        begin = self.place(location)
        row = self._lines[begin.line - 1]
        first = content.split("\n", 1)[0]
        for quote in (0, 1):
            if row.startswith(first, begin.column - 1 + quote) and line == 1:
                return Place(self.path, begin.line, begin.column + quote + column - 1)
        return begin

    def text_of(self, location: Location, *, missing: bool = False) -> str:
        """The steps to a value as one text, ``agents[0].name``, without what is in no file.

        Args:
            missing: the last step is a key that should be there and is not.
        """
        here: tuple[Any, ...] = ()
        text = ""
        for number, step in enumerate(location):
            if (*here, step) in self._places:
                here = (*here, step)
            elif not missing or number + 1 < len(location):
                continue
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text

    # --- reading ----------------------------------------------------------------------------------------------------

    def _plain(self, node: Any, path: tuple[Any, ...], key_mark: Any, within: tuple[int, ...]) -> Any:
        self._count += 1
        if id(node) in within or self._count > _LARGEST:
            what = "an alias inside what it stands for" if id(node) in within else f"more than {_LARGEST} values"
            raise self._error(what, node.start_mark, "write it out")
        self._places[path] = (key_mark, node.start_mark)
        within = (*within, id(node))
        if node.id == "mapping":
            return self._mapping(node, path, within)
        if node.id == "sequence":
            return [self._plain(item, (*path, index), None, within) for index, item in enumerate(node.value)]
        value = self._yaml.constructor.construct_object(node, deep=True)
        return self._filled(value, node) if isinstance(value, str) and self._values is not None else value

    def _mapping(self, node: Any, path: tuple[Any, ...], within: tuple[int, ...]) -> dict[Any, Any]:
        merged: dict[Any, Any] = {}
        own: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                several = value_node.value if value_node.id == "sequence" else [value_node]
                for each in reversed(several):
                    if each.id != "mapping":
                        raise self._error("<< takes a mapping", each.start_mark, "give it the alias of one")
                    merged.update(self._mapping(each, path, within))
                continue
            key = self._yaml.constructor.construct_object(key_node, deep=True)
            if not isinstance(key, (str, int, float, bool, type(None))):
                raise self._error("a key is a text", key_node.start_mark, "quote it")
            if key in own:
                raise self._error(f"the key {key!r} is here twice", key_node.start_mark, "keep one of them")
            own[key] = None
            own[key] = self._plain(value_node, (*path, key), key_node.start_mark, within)
        return merged | own

    def _filled(self, text: str, node: Any) -> Any:
        values = self._values or {}
        for match in _PLACEHOLDER.finditer(text):
            if match[1] not in values:
                raise self._error(
                    f"there is no value for {match[0]}",
                    node.start_mark,
                    f"load_yaml(..., values={{{match[1]!r}: ...}}); given are: {', '.join(values) or 'none'}",
                )
        whole = _PLACEHOLDER.fullmatch(text)
        return values[whole[1]] if whole else _PLACEHOLDER.sub(lambda match: str(values[match[1]]), text)

    def _error(self, what: str, mark: Any, fix: str) -> AgentFileError:
        return AgentFileError(what, where=str(Place(self.path, mark.line + 1, mark.column + 1)), fix=fix)

    def _syntax_error(self, error: Exception) -> AgentFileError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        what = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
        where = self.path if mark is None else str(Place(self.path, mark.line + 1, mark.column + 1))
        return AgentFileError(
            f"the file is no YAML: {what}", where=where, fix="check indentation, quotes and colons there"
        )


def _reader() -> Any:
    try:
        from ruamel.yaml import YAML  # apache-flink brings it
    except ImportError as error:
        raise EnvironmentSetupError(
            "YAML cannot be read here", where="package ruamel.yaml", fix="pip install ruamel.yaml"
        ) from error
    return YAML(typ="safe", pure=True)
