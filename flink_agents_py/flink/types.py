"""Python types to Flink's ``TypeInformation``."""

from __future__ import annotations

from typing import Any

from pyflink.common import Types
from pyflink.common.typeinfo import TypeInformation

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
