"""Python types to Flink's ``TypeInformation``."""

from __future__ import annotations

from typing import Any

from pyflink.common import Types
from pyflink.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

from flink_agents_py.errors import OutputTypeError

_SIMPLE = {
    str: Types.STRING,
    int: Types.LONG,
    float: Types.DOUBLE,
    bool: Types.BOOLEAN,
    bytes: Types.PICKLED_BYTE_ARRAY,
    dict: Types.PICKLED_BYTE_ARRAY,
    list: Types.PICKLED_BYTE_ARRAY,
}


def type_information(declared: Any) -> TypeInformation:
    """Flink's type for what a user declares as an output or key type.

    ``None`` and any class without a Flink counterpart (dict, dataclass, pydantic model, ...) travel pickled, with
    their Python type intact.

    Raises:
        OutputTypeError: ``declared`` is neither a type nor a ``TypeInformation``.
    """
    if isinstance(declared, TypeInformation):
        return declared
    if declared is None:
        return Types.PICKLED_BYTE_ARRAY()
    simple = _SIMPLE.get(declared)
    if simple is not None:
        return simple()
    if isinstance(declared, type) or getattr(declared, "__origin__", None) is not None:
        return Types.PICKLED_BYTE_ARRAY()
    raise OutputTypeError(
        f"{declared!r} is no type", fix="give a TypeInformation (Types.STRING(), Types.ROW_NAMED(...)) or a Python type"
    )


def check_carried(declared: TypeInformation, where: str, *, threaded: bool) -> None:
    """Refuse types that PyFlink has but cannot carry out of Python, which would fail the job at its first record.

    Raises:
        OutputTypeError: ``declared`` is or has one.
    """
    if declared in (Types.CHAR(), Types.BIG_INT()):
        raise OutputTypeError(
            f"PyFlink cannot carry a {declared}",
            where=where,
            fix="declare Types.STRING(), Types.LONG() or Types.BIG_DEC(), or no type at all (pickled)",
        )
    numbers = isinstance(declared, PrimitiveArrayTypeInfo) and declared._element_type != Types.BYTE()
    if threaded and (numbers or declared == Types.INSTANT()):
        raise OutputTypeError(
            f"PyFlink cannot carry a {declared} in thread mode",
            where=where,
            fix="declare Types.LIST(...) for an array and Types.SQL_TIMESTAMP() or Types.LONG() for an instant, or no "
            "type at all (pickled), or set execution-mode to process",
        )
    for part in _parts(declared):
        check_carried(part, where, threaded=threaded)


def _parts(declared: TypeInformation) -> list[TypeInformation]:
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        return list(declared.get_field_types())
    if isinstance(declared, MapTypeInfo):
        return [declared._key_type_info, declared._value_type_info]
    if isinstance(declared, ListTypeInfo):
        return [declared.elem_type]
    if isinstance(declared, (BasicArrayTypeInfo, ObjectArrayTypeInfo)):
        return [declared._element_type]
    return []
