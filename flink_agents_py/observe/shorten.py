"""Any value as something JSON can carry, cut where it is long."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic import BaseModel

from flink_agents_py.errors import EncodeError
from flink_agents_py.serde import to_plain
from flink_agents_py.serde.text import LEAVES, dumps, is_unicode, quote

_ENDLESS = 10**9
_STR_ONLY = frozenset({str})
_FIELD = "{}:{}".format


class Shortener:
    """Cuts texts, lists and nested objects, and says how much is missing.

    Args:
        strings: characters of a text; lists: elements of a list and fields of an object; depth: of nesting.
    """

    def __init__(self, strings: int, lists: int, depth: int) -> None:
        self.strings = strings
        self.lists = lists
        self.depth = depth
        self.row: type | None = None
        """PyFlink's, once one has come."""
        self._names: list[str] = []
        self._template = ""
        self.cut = False
        """Whether anything has been cut since this was set to ``False``."""

    @staticmethod
    def endless() -> Shortener:
        """One that cuts nothing."""
        return Shortener(_ENDLESS, _ENDLESS, 100)

    def text(self, value: Any, depth: int = 0) -> str:
        """:meth:`plain` as JSON text. Quick for what most records are: leaves, and lists, rows or objects of them."""
        kind = type(value)
        if kind is self.row or kind is list or kind is tuple:
            values, names, template = value, None, ""
            if kind is self.row:
                fields = value.__dict__
                values, names = fields["_values"], fields.get("_fields")
                if names:
                    template = self._template if names == self._names else self._template_of(names)
            if (
                depth < self.depth
                and len(values) <= self.lists
                and (not names or (template and len(names) == len(values)))
            ):
                texts, most = [], self.strings
                for item in values:
                    kind = type(item)
                    if kind is str and len(item) <= most:
                        texts.append(quote(item))
                    elif kind is int:
                        texts.append(repr(item))
                    elif (leaf := self._leaf(item)) is not None:
                        texts.append(leaf)
                    else:
                        break
                else:
                    text = template % (*texts,) if names else f"[{','.join(texts)}]"
                    if text.isascii() or is_unicode(text):
                        return text
        elif kind is dict:
            if depth < self.depth and len(value) <= self.lists and _STR_ONLY.issuperset(map(type, value)):
                names, leaves = list(map(self._leaf, value)), list(map(self._leaf, value.values()))
                if None not in names and None not in leaves:
                    return f"{{{','.join(map(_FIELD, names, leaves))}}}"
        elif (leaf := self._leaf(value)) is not None:
            return leaf
        return dumps(self.plain(value, depth))

    def _template_of(self, names: list[str]) -> str:
        """The text of a row with ``%s`` for each value; empty where the names of its fields need a closer look."""
        if not _STR_ONLY.issuperset(map(type, names)) or len(set(names)) < len(names):
            return ""
        self._names = names[:]  # those of the next row, most likely
        self._template = f"{{{','.join(quote(name).replace('%', '%%') + ':%s' for name in names)}}}"
        return self._template

    def _leaf(self, value: Any) -> str | None:
        """JSON text of a number, or of a text that is neither long nor strange; ``None`` for anything else."""
        kind = type(value)
        if kind is str:
            return quote(value) if len(value) <= self.strings and value.isascii() else None
        if kind is int:
            return repr(value)
        if kind is float:
            return repr(value) if value - value == 0 else None
        if kind is bool:
            return "true" if value else "false"
        return "null" if value is None else None

    def attributes(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """The attributes of an event, each as short as it must be."""
        return {name: self.plain(value, 1) for name, value in attributes.items()}

    def plain(self, value: Any, depth: int = 0) -> Any:
        """``value``, or what is left of it."""
        kind = type(value)
        if kind is str:
            return value if len(value) <= self.strings and value.isascii() else self._text(value)
        if kind is self.row and "_fields" not in value.__dict__:
            return self._list(value.__dict__["_values"], depth)
        if kind in LEAVES:
            return value if kind is not float or value - value == 0 else str(value)  # NaN, infinities
        if kind is dict:
            return self._object(value, depth)
        if kind is list or kind is tuple:
            return self._list(value, depth)
        return self._other(value, depth)

    def _text(self, text: str) -> Any:
        if not is_unicode(text):
            text = text.encode("utf-8", "backslashreplace").decode()
        if len(text) <= self.strings:
            return text
        self.cut = True
        return {"truncatedString": text[: self.strings], "omittedChars": len(text) - self.strings}

    def _list(self, values: Any, depth: int) -> Any:
        if depth >= self.depth and values:
            self.cut = True
            return {"truncatedList": [], "omittedElements": len(values)}
        deeper = depth + 1
        if len(values) <= self.lists:
            most = self.strings
            return [
                value
                if (kind := type(value)) is int or (kind is str and len(value) <= most and value.isascii())
                else self.plain(value, deeper)
                for value in values
            ]
        self.cut = True
        shown = [self.plain(value, deeper) for value in values[: self.lists]]
        return {"truncatedList": shown, "omittedElements": len(values) - self.lists}

    def _object(self, fields: dict[Any, Any], depth: int) -> Any:
        if depth >= self.depth and fields:
            self.cut = True
            return {"truncatedObject": {}, "omittedFields": len(fields)}
        deeper = depth + 1
        if len(fields) <= self.lists:
            return {_name(name): self.plain(value, deeper) for name, value in fields.items()}
        self.cut = True
        shown = dict(list(fields.items())[: self.lists])
        return {
            "truncatedObject": {_name(name): self.plain(value, deeper) for name, value in shown.items()},
            "omittedFields": len(fields) - self.lists,
        }

    def _other(self, value: Any, depth: int) -> Any:
        fields = getattr(value, "__dict__", None)
        if fields is not None and type(values := fields.get("_values")) is list:  # a PyFlink Row
            self.row = type(value)
            names = fields.get("_fields")
            return self._object(dict(zip(names, values, strict=False)), depth) if names else self._list(values, depth)
        if isinstance(value, BaseModel):
            return self._object(dict(value), depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, depth)
        if isinstance(value, (bytes, bytearray)):
            self.cut = self.cut or len(value) > self.strings
            return {"bytes": len(value), "hex": bytes(value[: min(32, self.strings)]).hex()}
        if isinstance(value, (set, frozenset)):
            return self._list(list(value), depth)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, str):
            return self.plain(str(value), depth)
        try:
            tagged = to_plain(value, allow_pickle=False)
        except EncodeError:
            return self._text(repr(value))
        if type(tagged) is dict and tagged.keys() == {"$t", "v"} and type(tagged["v"]) is str:
            return self._text(tagged["v"])  # a date, a Decimal, a UUID: its text says it
        return self._text(repr(value))


def _name(name: Any) -> str:
    text = str(name)
    return text if is_unicode(text) else text.encode("utf-8", "backslashreplace").decode()
