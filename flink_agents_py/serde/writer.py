"""Any value -> JSON-able structure with tags."""

from __future__ import annotations

import base64
import dataclasses
import math
from collections import OrderedDict
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Flag
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from flink_agents_py.errors import EncodeError
from flink_agents_py.serde import pickles
from flink_agents_py.serde.classes import class_name, fields_of, kind_of, other_attributes, reference_of, version_of
from flink_agents_py.serde.text import MAX_DEPTH, TAG, dumps, has_plain_keys, is_unicode

_BIG = 1 << 2048  # far below what any setting of sys.set_int_max_str_digits refuses to print or parse
_PATH_LIMIT = 500  # characters of a path that an error shows
_REPR_LIMIT = 60


class UnencodableError(Exception):
    """A value without encoding; on its way up it collects where the value sits."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix
        self.trail: list[tuple[int, str]] = []  # innermost first: (id of the container, step into it)

    def into_error(self) -> EncodeError:
        """The error the user sees, with the whole path."""
        path, seen = "$", set()
        for container, step in reversed(self.trail):
            if container in seen:
                return EncodeError(
                    "the value contains itself", where=path, fix="store an id or a path instead of the object"
                )
            seen.add(container)
            path += step
        if len(path) > _PATH_LIMIT:
            path = f"{path[: _PATH_LIMIT // 2]} ... {path[-_PATH_LIMIT // 2 :]}"
        return EncodeError(self.what, where=path, fix=self.fix)


class Writer:
    """Turns one value into a JSON-able structure, which shares no mutable part with it.

    There is a method per kind of value; :mod:`flink_agents_py.serde.canonical` overrides some.
    """

    def __init__(self, *, allow_pickle: bool = True, nan: bool = True) -> None:
        self._allow_pickle = allow_pickle
        self._nan = nan
        self._depth = 0

    def write(self, value: Any) -> Any:
        """The JSON-able structure of ``value``.

        Raises:
            EncodeError: something inside has no encoding; the message names the path to it.
        """
        try:
            return self._plain(value)
        except UnencodableError as problem:
            error = problem.into_error()
            error.__cause__ = problem.__cause__
        except RecursionError:
            error = EncodeError("the value is nested too deeply", where="$", fix="store a flatter value")
        raise error

    def _plain(self, value: Any) -> Any:
        cls: type = type(value)
        if cls is str:
            return value if is_unicode(value) else {TAG: "str", "v": _surrogates(value)}
        if value is None or cls is bool:
            return value
        if cls is int:
            return value if -_BIG < value < _BIG else {TAG: "int", "v": hex(value)}
        if cls is float:
            return value if math.isfinite(value) else self._odd_float(value)
        if self._depth > MAX_DEPTH:
            raise UnencodableError(f"the value is nested more than {MAX_DEPTH} deep", "store a flatter value")
        self._depth += 1
        plain = getattr(self, _METHODS.get(cls) or f"_on_{kind_of(cls)}")(value)
        self._depth -= 1
        return plain

    # --- JSON's own -------------------------------------------------------------------------------------------------

    def _odd_float(self, value: float) -> Any:
        if not self._nan:
            raise UnencodableError(f"{value} is no number here", "store None, or a flag of your own")
        return {TAG: "float", "v": "nan" if math.isnan(value) else str(value)}

    def _on_list(self, value: Any) -> list[Any]:
        out: list[Any] = []
        try:
            for item in value:
                plain = item if type(item) is str and item.isascii() else self._plain(item)
                out.append(plain)  # one by one: its length is the path of an error
        except UnencodableError as problem:
            problem.trail.append((id(value), f"[{len(out)}]"))
            raise
        return out

    def _on_dict(self, value: Any) -> Any:
        if not value:
            return {}
        if not has_plain_keys(value) or not all(map(is_unicode, value)):
            return {TAG: "dict", "v": self._pairs(value)}
        return self._fields(value, value)

    def _pairs(self, value: Any) -> list[Any]:
        out: list[Any] = []
        step = ""
        try:
            for key, item in value.items():
                step = f".<key {_short(key)}>"
                plain_key = self._plain(key)
                step = f"[{_short(key)}]"
                out.append([plain_key, self._plain(item)])
        except UnencodableError as problem:
            problem.trail.append((id(value), step))
            raise
        return out

    def _fields(self, owner: Any, fields: dict[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        name = ""
        try:
            for name, item in fields.items():
                # What most fields are goes without a call.
                out[name] = item if item is None or (type(item) is str and item.isascii()) else self._plain(item)
        except UnencodableError as problem:
            problem.trail.append((id(owner), f".{name}" if name.isidentifier() else f"[{_short(name)}]"))
            raise
        return out

    # --- standard library -------------------------------------------------------------------------------------------

    def _on_bytes(self, value: Any) -> Any:
        return {TAG: type(value).__name__, "v": base64.b64encode(value).decode()}

    def _on_tuple(self, value: Any) -> Any:
        return {TAG: "tuple", "v": self._on_list(value)}

    def _on_set(self, value: Any) -> Any:
        # Sorted, so that the text does not depend on the hash seed.
        return {TAG: type(value).__name__, "v": sorted(self._on_list(value), key=self._order)}

    def _on_ordered(self, value: Any) -> Any:
        return {TAG: "odict", "v": self._pairs(value)}

    def _on_datetime(self, value: datetime) -> Any:
        return self._clock("datetime", value)

    def _on_time(self, value: time) -> Any:
        return self._clock("time", value)

    def _clock(self, tag: str, value: Any) -> Any:
        zone = value.tzinfo
        document = {TAG: tag, "v": value.isoformat()}
        if type(zone) is ZoneInfo and zone.key:
            document = {TAG: tag, "v": value.replace(tzinfo=None).isoformat(), "z": zone.key}
        elif zone is not None and type(zone) is not timezone:
            return self._on_pickled(value)
        if value.fold:
            document["f"] = value.fold
        return document

    def _on_date(self, value: date) -> Any:
        return {TAG: "date", "v": value.isoformat()}

    def _on_timedelta(self, value: timedelta) -> Any:
        return {TAG: "timedelta", "v": [value.days, value.seconds, value.microseconds]}

    def _on_decimal(self, value: Decimal) -> Any:
        return {TAG: "decimal", "v": str(value)}

    def _on_uuid(self, value: UUID) -> Any:
        return {TAG: "uuid", "v": value.hex}

    # --- the user's classes -----------------------------------------------------------------------------------------

    def _on_enum(self, value: Any) -> Any:
        cls = type(value)
        if isinstance(value, Flag) and value.name not in cls.__members__:  # several flags, or none
            return {TAG: "flag", **self._reference(cls), "v": value.value}
        return {TAG: "enum", **self._reference(cls), "v": value._name_}

    def _on_data(self, value: Any) -> Any:
        names = [field.name for field in dataclasses.fields(value)]
        # A field that was never set (init=False without default) is absent, as in the instance.
        fields = {name: getattr(value, name) for name in names if hasattr(value, name)}
        document = self._document("data", value, fields)
        others = other_attributes(value, names)
        if others:
            document["x"] = self._fields(value, others)
        return document

    def _on_named(self, value: Any) -> Any:
        if getattr(value, "__dict__", None):
            return self._on_pickled(value)
        return self._document("named", value, dict(zip(value._fields, value, strict=True)))

    def _on_model(self, value: Any) -> Any:
        cls: type = type(value)
        known, fields = fields_of(cls), value.__dict__
        if fields.keys() != known:
            fields = {name: item for name, item in fields.items() if name in known}
        document = self._document("model", value, fields)
        if len(value.__pydantic_fields_set__) != len(fields):
            document["s"] = sorted(value.__pydantic_fields_set__)
        if value.__pydantic_extra__ is not None:
            # A user chooses these names: they need the care for odd keys.
            document["e"] = self._on_dict(value.__pydantic_extra__)
        if value.__pydantic_private__ is not None:
            document["p"] = self._fields(value, value.__pydantic_private__)
        return document

    def _on_row(self, value: Any) -> Any:
        document = {TAG: "row", "v": self._on_list(value)}
        if hasattr(value, "_fields"):
            document["f"] = list(value._fields)
        kind = value.get_row_kind().name
        if kind != "INSERT":
            document["k"] = kind
        return document

    def _document(self, tag: str, value: Any, fields: dict[str, Any]) -> dict[str, Any]:
        cls = type(value)
        document = {TAG: tag, **self._reference(cls), "v": self._fields(value, fields)}
        version = version_of(cls)
        if version:
            document["n"] = version
        return document

    def _reference(self, cls: type) -> dict[str, Any]:
        known = reference_of(cls)
        if known is not None:
            return known
        name = class_name(cls)
        if not self._allow_pickle:
            raise UnencodableError(
                f"class {name} cannot be imported by another process",
                "move the class to the top level of an importable module",
            )
        try:
            return {"c": name, "b": pickles.dump_class(cls)}
        except Exception as error:
            raise UnencodableError(
                f"class {name} cannot be imported by another process, and not be pickled: {error}",
                "move the class to the top level of an importable module",
            ) from error

    def _order(self, plain: Any) -> str:
        return dumps(plain)

    # --- last resort ------------------------------------------------------------------------------------------------

    def _on_pickled(self, value: Any) -> Any:
        name = class_name(type(value))
        fix = "store plain values, a dataclass or a pydantic model instead"
        if not self._allow_pickle:
            raise UnencodableError(f"a {name} has no typed encoding", fix)
        try:
            return {TAG: "pickle", "c": name, "v": pickles.dump(value)}
        except Exception as error:  # a __reduce__ may raise anything
            raise UnencodableError(f"a {name} cannot be encoded, not even by pickle: {error}", fix) from error


def _surrogates(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _REPR_LIMIT else f"{text[: _REPR_LIMIT - 3]}..."


_METHODS: dict[type, str] = {
    list: "_on_list",
    dict: "_on_dict",
    bytes: "_on_bytes",
    bytearray: "_on_bytes",
    tuple: "_on_tuple",
    set: "_on_set",
    frozenset: "_on_set",
    OrderedDict: "_on_ordered",
    datetime: "_on_datetime",
    time: "_on_time",
    date: "_on_date",
    timedelta: "_on_timedelta",
    Decimal: "_on_decimal",
    UUID: "_on_uuid",
}
