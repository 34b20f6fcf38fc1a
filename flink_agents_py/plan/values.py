"""Configuration values and resource arguments in a plan: JSON, with types kept, never pickled."""

from __future__ import annotations

from typing import Any

from flink_agents_py.errors import DecodeError, EncodeError, NotSerializableError, PlanFormatError
from flink_agents_py.serde import from_plain, to_plain


def to_document(values: dict[str, Any], where: str) -> dict[str, Any]:
    """A JSON-able copy of ``values``.

    Raises:
        NotSerializableError: naming the path of the value that has no typed encoding.
    """
    document = {}
    for name, value in values.items():
        try:
            # A plan file must be safe to read, so pickle is no way out here.
            document[name] = to_plain(value, allow_pickle=False)
        except EncodeError as error:
            path = name + (error.where or "").removeprefix("$")
            raise NotSerializableError(
                f"value {path!r} cannot travel in the plan: {error.what}", where=where, fix=error.fix
            ) from error
    return document


def from_document(document: dict[str, Any], where: str) -> dict[str, Any]:
    """What :func:`to_document` was given.

    Raises:
        PlanFormatError: a value is damaged, pickled, or of a class that is not here.
    """
    try:
        return {name: from_plain(value, allow_pickle=False) for name, value in document.items()}
    except DecodeError as error:
        raise PlanFormatError(error.what, where=where, fix=error.fix) from error
