"""Any value -> JSON-able structure with tags."""

from __future__ import annotations

import base64
import dataclasses
import logging
from collections import OrderedDict
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Flag
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from flink_agents_py.errors import EncodeError
from flink_agents_py.serde.classes import class_name, is_importable, kind_of, other_attributes, version_of
from flink_agents_py.serde.text import MAX_DEPTH, TAG, dumps, is_unicode

_log = logging.getLogger("flink_agents_py.serde")
_announced: set[type] = set()

_BIG = 1 << 2048  # far below what any setting of sys.set_int_max_str_digits refuses to print or parse


class Unencodable(Exception):
    """A value without encoding; on its way up it collects where the value sits."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix
        self.trail: list[tuple[int, str]] = []  # innermost first: (id of the container, step into it)

    def into_error(self) -> EncodeError:
        path, seen = "$", set()
        for container, step in reversed(self.trail):
            if container in seen:
                return EncodeError(
                    "the value contains itself", where=path, fix="store an id or a path instead of the object"
                )
            seen.add(container)
            path += step
        if len(path) > 500:
            path = f"{path[:240]} ... {path[-240:]}"
        return EncodeError(self.what, where=path, fix=self.fix)


class Writer:
    """Turns values into JSON-able structures; one use each (nothing is shared with the value)."""

    def __init__(self, allow_pickle: bool = True, nan: bool = True) -> None:
        self.allow_pickle = allow_pickle
        self.nan = nan

    def write(self, value: Any) -> Any:
        """The JSON-able structure of ``value``.

        Raises:
            EncodeError: something inside has no encoding; the message names the path to it.
        """
        try:
            return self.plain(value, 0)
        except Unencodable as problem:
            error = problem.into_error()
        raise error

    def plain(self, value: Any, depth: int) -> Any:
        cls = type(value)
        if cls is str:
            return value if value.isascii() or is_unicode(value) else {TAG: "str", "v": _surrogates(value)}
        if value is None or cls is bool:
            return value
        if cls is int:
            return value if -_BIG < value < _BIG else {TAG: "int", "v": hex(value)}
        if cls is float:
            return value if value - value == 0.0 else self.odd_float(value)
        if depth > MAX_DEPTH:
            raise Unencodable(f"the value is nested more than {MAX_DEPTH} deep", "store a flatter value")
        return getattr(self, _METHODS.get(cls) or kind_of(cls))(value, depth + 1)

    # --- JSON's own -------------------------------------------------------------------------------------------------

    def odd_float(self, value: float) -> Any:
        if not self.nan:
            raise Unencodable(f"{value} is no number here", "store None, or a flag of your own")
        return {TAG: "float", "v": "nan" if value != value else "inf" if value > 0 else "-inf"}

    def on_list(self, value: Any, depth: int) -> list[Any]:
        out: list[Any] = []
        at = 0
        try:
            for item in value:
                out.append(self.plain(item, depth))
                at += 1
        except Unencodable as problem:
            problem.trail.append((id(value), f"[{at}]"))
            raise
        return out

    def on_dict(self, value: Any, depth: int) -> Any:
        out: dict[str, Any] = {}
        name: Any = None
        try:
            for name, item in value.items():
                if type(name) is not str or name == TAG or not is_unicode(name):
                    return {TAG: "dict", "v": self.on_pairs(value, depth)}
                out[name] = self.plain(item, depth)
        except Unencodable as problem:
            if not problem.trail or problem.trail[-1][0] != id(value):  # not already named by `on_pairs`
                problem.trail.append((id(value), _step(name)))
            raise
        return out

    def on_pairs(self, value: Any, depth: int) -> Any:
        out = []
        step = ""
        try:
            for key, item in value.items():
                step = f".<key {_short(key)}>"
                plain_key = self.plain(key, depth)
                step = f"[{_short(key)}]"
                out.append([plain_key, self.plain(item, depth)])
        except Unencodable as problem:
            problem.trail.append((id(value), step))
            raise
        return out

    # --- standard library -------------------------------------------------------------------------------------------

    def on_bytes(self, value: Any, depth: int) -> Any:
        return {TAG: type(value).__name__, "v": base64.b64encode(value).decode()}

    def on_tuple(self, value: Any, depth: int) -> Any:
        return {TAG: "tuple", "v": self.on_list(value, depth)}

    def on_set(self, value: Any, depth: int) -> Any:
        # Sorted, so that the text does not depend on the hash seed.
        return {TAG: type(value).__name__, "v": sorted(self.on_list(value, depth), key=self.order)}

    def on_ordered(self, value: Any, depth: int) -> Any:
        return {TAG: "odict", "v": self.on_pairs(value, depth)}

    def on_datetime(self, value: datetime, depth: int) -> Any:
        return self.clock("datetime", value, depth)

    def on_time(self, value: time, depth: int) -> Any:
        return self.clock("time", value, depth)

    def clock(self, tag: str, value: Any, depth: int) -> Any:
        zone = value.tzinfo
        document = {TAG: tag, "v": value.isoformat()}
        if type(zone) is ZoneInfo and zone.key:
            document = {TAG: tag, "v": value.replace(tzinfo=None).isoformat(), "z": zone.key}
        elif zone is not None and type(zone) is not timezone:
            return self.on_pickled(value, depth)
        if value.fold:
            document["f"] = value.fold
        return document

    def on_date(self, value: date, depth: int) -> Any:
        return {TAG: "date", "v": value.isoformat()}

    def on_timedelta(self, value: timedelta, depth: int) -> Any:
        return {TAG: "timedelta", "v": [value.days, value.seconds, value.microseconds]}

    def on_decimal(self, value: Decimal, depth: int) -> Any:
        return {TAG: "decimal", "v": str(value)}

    def on_uuid(self, value: UUID, depth: int) -> Any:
        return {TAG: "uuid", "v": value.hex}

    # --- the user's classes -----------------------------------------------------------------------------------------

    def on_enum(self, value: Any, depth: int) -> Any:
        if not self.refers(type(value)):
            return self.on_pickled(value, depth)
        document = {TAG: "enum", "c": class_name(type(value)), "v": value.name}
        if isinstance(value, Flag) and value.name not in type(value).__members__:
            document = {TAG: "flag", "c": document["c"], "v": value.value}
        return document

    def on_data(self, value: Any, depth: int) -> Any:
        if not self.refers(type(value)):
            return self.on_pickled(value, depth)
        names = {field.name for field in dataclasses.fields(value)}
        # An attribute that was never set (init=False without default) is absent, as in the instance.
        fields = {name: getattr(value, name) for name in sorted(names) if hasattr(value, name)}
        document = self.document("data", value, fields, depth)
        others = other_attributes(value, names)
        if others:
            document["x"] = self.part(value, others, depth)
        return document

    def on_named(self, value: Any, depth: int) -> Any:
        if not self.refers(type(value)):
            return self.on_pickled(value, depth)
        return self.document("named", value, dict(zip(value._fields, value, strict=True)), depth)

    def on_model(self, value: Any, depth: int) -> Any:
        cls = type(value)
        if not self.refers(cls):
            return self.on_pickled(value, depth)
        known = cls.model_fields
        document = self.document("model", value, {k: v for k, v in value.__dict__.items() if k in known}, depth)
        if len(value.model_fields_set) != len(document["v"]):
            document["s"] = sorted(value.model_fields_set)
        if value.__pydantic_extra__ is not None:
            document["e"] = self.part(value, value.__pydantic_extra__, depth)
        if value.__pydantic_private__ is not None:
            document["p"] = self.part(value, value.__pydantic_private__, depth)
        return document

    def on_row(self, value: Any, depth: int) -> Any:
        document = {TAG: "row", "v": self.on_list(value._values, depth)}
        if hasattr(value, "_fields"):
            document["f"] = list(value._fields)
        kind = value.get_row_kind().name
        if kind != "INSERT":
            document["k"] = kind
        return document

    def document(self, tag: str, value: Any, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        cls = type(value)
        document = {TAG: tag, "c": class_name(cls), "v": self.part(value, fields, depth)}
        version = version_of(cls)
        if version:
            document["n"] = version
        return document

    def part(self, owner: Any, fields: dict[str, Any], depth: int) -> Any:
        """Encode a dictionary of attributes; errors name the owner, not the temporary dictionary."""
        try:
            return self.on_dict(fields, depth)
        except Unencodable as problem:
            problem.trail[-1] = (id(owner), problem.trail[-1][1])
            raise

    # --- last resort ------------------------------------------------------------------------------------------------

    def refers(self, cls: type) -> bool:
        """Whether a reference by name will do for ``cls``."""
        return is_importable(cls)

    def order(self, plain: Any) -> str:
        """Sort key of set elements."""
        return dumps(plain)

    def on_pickled(self, value: Any, depth: int) -> Any:
        cls = type(value)
        name = class_name(cls)
        if not self.allow_pickle:
            if kind_of(cls) != "on_pickled" and not is_importable(cls):
                raise Unencodable(
                    f"class {name} cannot be imported by another process",
                    "move the class to the top level of an importable module",
                )
            raise Unencodable(
                f"a {name} has no typed encoding",
                "store plain values, a dataclass or a pydantic model instead",
            )
        import cloudpickle  # here, not above: most programs never need it

        try:
            # By value for classes of __main__ and functions: a worker cannot import those.
            payload = cloudpickle.dumps(value)
        except Exception as error:  # whatever a __reduce__ raises
            raise Unencodable(
                f"a {name} cannot be encoded, not even by pickle: {error}",
                "store plain values, a dataclass or a pydantic model instead",
            ) from error
        if cls not in _announced:
            _announced.add(cls)
            _log.warning(
                "values of %s are stored by pickle: a changed class or library may not read them back; "
                "prefer plain values, or a dataclass or pydantic model in an importable module",
                name,
            )
        return {TAG: "pickle", "c": name, "v": base64.b64encode(payload).decode()}


def _surrogates(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _step(name: Any) -> str:
    return f".{name}" if isinstance(name, str) and name.isidentifier() else f"[{_short(name)}]"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_METHODS: dict[type, str] = {
    list: "on_list",
    dict: "on_dict",
    bytes: "on_bytes",
    bytearray: "on_bytes",
    tuple: "on_tuple",
    set: "on_set",
    frozenset: "on_set",
    OrderedDict: "on_ordered",
    datetime: "on_datetime",
    time: "on_time",
    date: "on_date",
    timedelta: "on_timedelta",
    Decimal: "on_decimal",
    UUID: "on_uuid",
}
