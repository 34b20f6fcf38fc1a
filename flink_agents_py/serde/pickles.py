"""The last resort: pickle, and by value for classes that a worker cannot import (of ``__main__``, say)."""

from __future__ import annotations

import base64
import copyreg
import dataclasses
import logging
import pickle
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

_log = logging.getLogger("flink_agents_py.serde")
_announced: WeakSet[type] = WeakSet()
_payloads: WeakKeyDictionary[type, str] = WeakKeyDictionary()
_classes: WeakValueDictionary[str, type] = WeakValueDictionary()


def _field_kind_by_name(kind: Any) -> str:
    return str(kind.name)


# cloudpickle before 3.0, which most PyFlink releases ask for, copies the sentinels by which dataclasses knows its
# fields: the class loses all of them when it is read, the original too if that happens in its own process.
copyreg.pickle(type(dataclasses._FIELD), _field_kind_by_name)  # type: ignore[attr-defined]  # noqa: SLF001


def dump(value: Any) -> str:
    """Pickle ``value``; says so in the log once for each type.

    Raises:
        Exception: whatever the pickling of it raises.
    """
    import cloudpickle  # most programs never need it

    payload = base64.b64encode(cloudpickle.dumps(value)).decode()
    cls = value if isinstance(value, type) else type(value)
    if cls not in _announced:
        _announced.add(cls)
        _log.warning(
            "values of %s.%s are stored by pickle: a changed class or library may not read them back; "
            "prefer plain values, or a dataclass or pydantic model in an importable module",
            cls.__module__,
            cls.__qualname__,
        )
    return payload


def load(payload: str) -> Any:
    """What :func:`dump` wrote. It may run any code: for text of our own making only."""
    return pickle.loads(base64.b64decode(payload))  # noqa: S301


def dump_class(cls: type) -> str:
    """Pickle a class by value, once; reading it in this process gives the class itself, not a copy."""
    payload = _payloads.get(cls)
    if payload is None:
        payload = _payloads[cls] = dump(cls)
        _classes[payload] = cls
    return payload


def load_class(payload: str) -> Any:
    """The class :func:`dump_class` wrote, the same one each time while it is in use."""
    cls = _classes.get(payload)
    if cls is None:
        cls = _classes[payload] = load(payload)
    return cls
