r"""Paths of memory fields: ``user.address.city``, with ``\.`` and ``\\`` for a dot and a backslash inside a name.

There is one spelling for each place, so the text of a path is also its key in state. A name with its escapes is
called a *segment*; child lists hold segments.
"""

from __future__ import annotations

import re
from functools import lru_cache

from flink_agents_py.errors import MemoryPathError

_SEGMENT = r"(?:[^.\\]|\\[.\\])+"
_ESCAPED_PATH = re.compile(rf"(?:(?P<parent>{_SEGMENT}(?:\.{_SEGMENT})*)\.)?(?P<name>{_SEGMENT})")
_ESCAPE = re.compile(r"\\(.)")


@lru_cache(maxsize=4096)  # bounded: names may come from the data
def split(path: str) -> tuple[str, str]:
    """The path of the parent (``""`` is the root) and the last segment.

    Raises:
        MemoryPathError: it is no path.
    """
    if not path or path[0] == "." or path[-1] == "." or ".." in path:
        escaped = _ESCAPED_PATH.fullmatch(path) if "\\" in path else None  # "a\." ends with a dot that is a name's
        if escaped is None:
            raise MemoryPathError(
                f"the memory path {path!r} has an empty name in it" if path else "a memory path is empty",
                fix="name a field; a dot separates names, and is written \\. inside one (MemoryObject.escape)",
            )
    elif "\\" in path:
        escaped = _ESCAPED_PATH.fullmatch(path)
        if escaped is None:
            raise MemoryPathError(
                f"the memory path {path!r} has a backslash that escapes neither a dot nor a backslash",
                fix="write a backslash inside a name as \\\\ (MemoryObject.escape does)",
            )
    else:
        escaped = None
    if not path.isascii():
        _check_unicode(path)
    if escaped is not None:
        return escaped["parent"] or "", escaped["name"]
    parent, _, name = path.rpartition(".")
    return parent, name


def _check_unicode(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise MemoryPathError(
            f"the memory path {path!r} has a lone surrogate in it, which no state backend can hold",
            fix="clean the text the name is made of",
        ) from None


def join(parent: str, segment: str) -> str:
    """The path of a child."""
    return f"{parent}.{segment}" if parent else segment


def unescape(segment: str) -> str:
    """The name as the user knows it."""
    return _ESCAPE.sub(r"\1", segment) if "\\" in segment else segment
