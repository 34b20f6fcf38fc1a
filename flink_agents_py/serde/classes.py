"""References to the user's classes, and instances rebuilt from stored fields when the class may have changed."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any

from pydantic import BaseModel

from flink_agents_py.errors import DecodeError
from flink_agents_py.serde import pickles

_set = object.__setattr__
_BUILTIN_CONTENT = (dict, list, tuple, set, frozenset, str, bytes, bytearray, int, float, complex, BaseException)


def class_name(cls: type) -> str:
    """``module:qualname``, whether or not it can be imported."""
    return f"{cls.__module__}:{cls.__qualname__}"


def _lookup(reference: str) -> Any:
    module_name, _, qualname = reference.partition(":")
    found: Any = sys.modules.get(module_name) or importlib.import_module(module_name)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


@lru_cache(maxsize=4096)
def is_importable(cls: type) -> bool:
    """Whether another process finds exactly this class under its name (one of ``__main__`` it does not)."""
    if cls.__module__ == "__main__":
        return False
    try:
        return _lookup(class_name(cls)) is cls
    except (ImportError, AttributeError, ValueError):
        return False


@lru_cache(maxsize=4096)
def reference_of(cls: type) -> dict[str, Any] | None:
    """The part of a document that refers to a class which can be imported, not to be changed; ``None`` for others."""
    return {"c": class_name(cls)} if is_importable(cls) else None


@lru_cache(maxsize=4096)
def fields_of(cls: type[BaseModel]) -> frozenset[str]:
    """Names of the fields of a model."""
    return frozenset(cls.model_fields)


def find_class(document: dict[str, Any], base: type) -> Any:
    """The class a document refers to: ``{"c": name}``, with ``"b"`` if it was pickled by value.

    Raises:
        DecodeError: nothing of that name can be imported, or it is no subclass of ``base``.
    """
    reference: str = document["c"]
    try:
        cls = pickles.load_class(document["b"]) if "b" in document else _lookup(reference)
    except (ImportError, AttributeError, ValueError) as error:
        raise DecodeError(
            f"a stored value is of class {reference}, which cannot be imported here: {error}",
            fix="keep an alias under the old name, make its module importable on the workers, or migrate the state",
        ) from error
    if not isinstance(cls, type) or not issubclass(cls, base):
        raise DecodeError(
            f"a stored value is of class {reference}, which is now {cls!r}",
            fix="let the name refer to a class of the kind it was when the value was written",
        )
    return cls


@lru_cache(maxsize=4096)
def kind_of(cls: type) -> str:
    """How instances of a class without an own encoding are written: the ending of a writer method's name."""
    if issubclass(cls, Enum):
        return "enum"
    if issubclass(cls, BaseModel):
        return "model"
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_field_defaults"):
        return "named"
    if dataclasses.is_dataclass(cls) and not issubclass(cls, _BUILTIN_CONTENT):
        return "data"
    pyflink = sys.modules.get("pyflink.common.types")
    if pyflink is not None and cls is pyflink.Row:
        return "row"
    return "pickled"


def version_of(cls: type) -> int:
    """The class's ``__state_version__``."""
    return int(getattr(cls, "__state_version__", 0))


def other_attributes(value: Any, fields: list[str]) -> dict[str, Any]:
    """Attributes of a dataclass instance that are no fields (set in ``__post_init__``, say), cached ones aside."""
    cls = type(value)
    return {
        name: item
        for name, item in getattr(value, "__dict__", {}).items()
        if name not in fields and not isinstance(getattr(cls, name, None), cached_property)
    }


def build_data(document: dict[str, Any]) -> Any:
    """A dataclass instance from ``{"c": class, "n": version, "v": fields, "x": other attributes}``."""
    cls: Any = find_class(document, object)
    if not dataclasses.is_dataclass(cls):
        raise DecodeError(
            f"a stored value is of dataclass {document['c']}, which is no dataclass now",
            fix="keep it one, or migrate the state",
        )
    known = {field.name: field for field in dataclasses.fields(cls)}
    fields = _fields_now(cls, document, set(known))
    value = cls.__new__(cls)  # type: ignore[arg-type]  # is_dataclass narrows Any to "a class or an instance"
    for name, field in known.items():
        if name in fields:
            item = fields[name]
        elif field.default is not dataclasses.MISSING:
            item = field.default
        elif field.default_factory is not dataclasses.MISSING:
            item = field.default_factory()
        elif field.init:
            raise _missing(document["c"], name)
        else:
            continue  # it was not set in the stored instance either
        _set(value, name, item)
    for name, item in document.get("x", {}).items():
        _set(value, name, item)
    return value


def build_named(document: dict[str, Any]) -> Any:
    """A named tuple from ``{"c": class, "n": version, "v": fields}``."""
    cls = find_class(document, tuple)
    fields = {**cls._field_defaults, **_fields_now(cls, document, set(cls._fields))}
    for name in cls._fields:
        if name not in fields:
            raise _missing(document["c"], name)
    return cls._make(fields[name] for name in cls._fields)


def build_model(document: dict[str, Any]) -> Any:
    """A pydantic model from ``{"c": class, "n": version, "v": fields, "s": fields set, "e": extra, "p": private}``."""
    cls = find_class(document, BaseModel)
    known = cls.model_fields
    extra = document.get("e")
    open_model = cls.model_config.get("extra") == "allow"
    fields = _fields_now(cls, document, None if open_model else set(known))
    if open_model:
        extra = {**(extra or {}), **{name: item for name, item in fields.items() if name not in known}}
    values: dict[str, Any] = {}
    for name, field in known.items():
        if name in fields:
            values[name] = fields[name]
        elif field.is_required():
            raise _missing(document["c"], name)
        else:
            values[name] = field.get_default(call_default_factory=True)
    model = cls.__new__(cls)
    _set(model, "__dict__", values)
    _set(model, "__pydantic_fields_set__", set(document["s"]) if "s" in document else set(values))
    _set(model, "__pydantic_extra__", extra)
    _set(model, "__pydantic_private__", document.get("p"))
    return model


def _fields_now(cls: Any, document: dict[str, Any], known: set[str] | None) -> dict[str, Any]:
    """The stored fields, migrated to the class of today; ``known`` is ``None`` where any name will do."""
    reference, stored, current = document["c"], document.get("n", 0), version_of(cls)
    fields: dict[str, Any] = document["v"]
    if stored > current:
        raise DecodeError(
            f"a stored {reference} has version {stored}, the class here is version {current}",
            fix="run the program version that wrote it, or a newer one",
        )
    if stored < current and hasattr(cls, "__state_migrate__"):
        fields = cls.__state_migrate__(stored, dict(fields))
    unknown = sorted(set(fields) - known) if known is not None else []
    if unknown:
        raise DecodeError(
            f"a stored {reference} has fields the class has no more: {', '.join(unknown)}",
            fix="put them back, or raise __state_version__ and drop them in __state_migrate__",
        )
    return fields


def _missing(reference: str, name: str) -> DecodeError:
    return DecodeError(
        f"a stored {reference} has no field {name!r}, and the class has no default for it",
        fix="give the field a default, or raise __state_version__ and fill it in __state_migrate__",
    )
