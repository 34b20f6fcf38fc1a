"""Tracebacks of failed actions without the frames of the framework: what is left is the user's."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

_PACKAGE = str(Path(__file__).resolve().parent.parent)


def trim(error: BaseException) -> None:
    """Take the framework's frames out of the tracebacks of an error and of those that caused it.

    A traceback that has no others keeps the innermost one.
    """
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        link = chain.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        link.__traceback__ = _trimmed(link.__traceback__)
        chain += [link.__cause__, link.__context__]


def _trimmed(found: TracebackType | None) -> TracebackType | None:
    frames: list[TracebackType] = []
    while found is not None:
        frames.append(found)
        found = found.tb_next
    own = [frame for frame in frames if not frame.tb_frame.f_code.co_filename.startswith(_PACKAGE)]
    following: TracebackType | None = None
    for frame in reversed(own or frames[-1:]):
        following = TracebackType(following, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return following


def in_words(error: BaseException, most: int = 8) -> str:
    """Where an error came from, the innermost place last, as lines to put under a message; empty without any.

    Thread mode tells Flink no more of an error than its message, so this is part of it.
    """
    frames = traceback.extract_tb(error.__traceback__)[-most:]
    return "".join(
        f"\n    {frame.filename}:{frame.lineno} in {frame.name}" + (f": {frame.line}" if frame.line else "")
        for frame in frames
    )
