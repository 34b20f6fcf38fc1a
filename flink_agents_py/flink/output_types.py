"""Whether an output fits the type the user declared, said in the user's words before Flink says it in its own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pyflink.common import Instant, Row, Types
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

Fit = Callable[[Any], Any]
"""The value as Flink takes it; raises :class:`Unfit` if it is of another type."""

_SHOWN_CHARACTERS = 200


class Unfit(Exception):  # noqa: N818 - never leaves this module
    """What was wanted, what came, and the path to it inside the output."""

    def __init__(self, wanted: str, value: Any) -> None:
        self.wanted = wanted
        self.value = value
        self.path = ""
        super().__init__(wanted)


class OutputFit:
    """Checks and completes outputs: ints become floats where those were declared, dicts and tuples become rows.

    Args:
        declared: the type outputs were declared to have.
        where: where it was declared, for the message.
        names: whether rows that were built without the names of their columns must get them.
    """

    def __init__(self, declared: TypeInformation, where: str, *, names: bool = True) -> None:
        self._where = where
        self._shown = shown(declared)
        fit = _fit_of(declared)
        self._fit = _row_as_it_is(declared, fit, names=names) if isinstance(declared, RowTypeInfo) else fit

    def fit(self, value: Any) -> Any:
        """``value`` as Flink takes it.

        Raises:
            OutputTypeError: it is of another type.
        """
        try:
            return self._fit(value)
        except Unfit as unfit:
            path = f"{unfit.path.lstrip('.')} of " if unfit.path else ""
            raise OutputTypeError(
                f"an agent emitted {_short(value)}, but the declared output type is {self._shown}: "
                f"{path}the output is {_short(unfit.value)} ({type(unfit.value).__name__}), not {unfit.wanted}",
                where=self._where,
                fix="send what was declared, declare what is sent, or declare no type: then any value goes (pickled)",
            ) from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def shown(declared: TypeInformation) -> str:
    """A type as a user would write it."""
    if isinstance(declared, RowTypeInfo):
        fields = zip(declared.get_field_names(), declared.get_field_types(), strict=True)
        return f"Row({', '.join(f'{name}: {shown(field)}' for name, field in fields)})"
    return str(declared)


def _fit_of(declared: TypeInformation) -> Fit:
    for simple, fit in _SIMPLE:
        if declared == simple:
            return fit
    if isinstance(declared, RowTypeInfo):
        return _row(declared)
    if isinstance(declared, TupleTypeInfo):
        return _tuple(declared)
    if isinstance(declared, MapTypeInfo):
        return _map(_fit_of(declared._key_type_info), _or_none(_fit_of(declared._value_type_info)))
    if isinstance(declared, PrimitiveArrayTypeInfo):
        return _binary if declared._element_type == Types.BYTE() else _list(_fit_of(declared._element_type))
    if isinstance(declared, (BasicArrayTypeInfo, ObjectArrayTypeInfo)):
        return _list(_or_none(_fit_of(declared._element_type)))
    if isinstance(declared, ListTypeInfo):
        return _list(_fit_of(declared.elem_type))
    return _anything


def _anything(value: Any) -> Any:
    return value


def _something(value: Any) -> Any:
    if value is None:
        raise Unfit("a value: Flink has no records of None; send no output, or wrap it", value)
    return value


def _or_none(fit: Fit) -> Fit:
    def or_none(value: Any) -> Any:
        return None if value is None else fit(value)

    return or_none


def _instance(kind: type) -> Fit:
    wanted = f"a {kind.__name__}"

    def instance(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise Unfit(wanted, value)

    return instance


def _text(value: Any) -> Any:
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise Unfit("a str", value)


def _real(value: Any) -> Any:
    if type(value) is float:
        return value
    if isinstance(value, (float, int)) and type(value) is not bool:
        return float(value)
    raise Unfit("a float", value)


def _date(value: Any) -> Any:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    raise Unfit("a date", value)


def _binary(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    raise Unfit("bytes", value)


def _integer(bits: int) -> Fit:
    least, most = -(1 << bits), (1 << bits) - 1
    wanted = f"an int of {bits + 1} bits"

    def integer(value: Any) -> Any:
        if isinstance(value, int) and type(value) is not bool and least <= value <= most:
            return value if type(value) is int else int(value)
        raise Unfit(wanted, value)

    return integer


def _list(fit: Fit) -> Fit:
    def items(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise Unfit("a list", value)
        return [_inside(f"[{index}]", fit, item) for index, item in enumerate(value)]

    return items


def _map(fit_key: Fit, fit_value: Fit) -> Fit:
    def entries(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Unfit("a dict", value)
        return {
            _inside(f"[{key!r}]", fit_key, key): _inside(f"[{key!r}]", fit_value, item) for key, item in value.items()
        }

    return entries


def _tuple(declared: TupleTypeInfo) -> Fit:
    fits = [_fit_of(field) for field in declared.get_field_types()]
    wanted = f"a tuple of {len(fits)}"

    def fields(value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != len(fits):
            raise Unfit(wanted, value)
        return tuple([_inside(f"[{index}]", fit, value[index]) for index, fit in enumerate(fits)])

    return fields


def _row(declared: RowTypeInfo) -> Fit:
    names = list(declared.get_field_names())
    fits = [_or_none(_fit_of(field)) for field in declared.get_field_types()]
    known = set(names)
    wanted = f"a Row of the columns {', '.join(names)}"

    def row(value: Any) -> Row:
        if isinstance(value, Row):
            fields = value._values
            given = getattr(value, "_fields", None)
            if given and given != names and known == set(given):
                fields = [fields[given.index(name)] for name in names]
        elif isinstance(value, dict) and value.keys() == known:
            fields = [value[name] for name in names]
        elif isinstance(value, (list, tuple)):
            fields = value
        else:
            raise Unfit(wanted, value)
        if len(fields) != len(fits):
            raise Unfit(wanted, value)
        try:
            fitted = Row(*[fit(field) for fit, field in zip(fits, fields, strict=True)])
        except Unfit:
            for name, fit, field in zip(names, fits, fields, strict=True):
                _inside(f".{name}", fit, field)
            raise
        fitted.set_field_names(names)
        if isinstance(value, Row):
            fitted.set_row_kind(value.get_row_kind())
        return fitted

    return row


def _row_as_it_is(declared: RowTypeInfo, fit: Fit, *, names: bool) -> Fit:
    """``fit``, without its work for the usual row: one that Flink can take as the agent has sent it.

    Nobody changes it any more: it is on its way to Java before the agent's code runs again.
    """
    columns = list(declared.get_field_names())
    kinds: list[tuple[type, Any, Any]] = [_EXACT.get(str(field), _NEVER) for field in declared.get_field_types()]
    count = len(kinds)

    def row(value: Any) -> Any:
        if type(value) is not Row:
            return fit(value)
        held = value.__dict__
        fields, given = held["_values"], held.get("_fields")
        if len(fields) != count or (given != columns and (given or names)):
            return fit(value)
        for (kind, least, most), field in zip(kinds, fields):  # noqa: B905 - as many, and `strict` costs
            if type(field) is not kind or (most and not least <= field <= most):
                return fit(value)
        return value

    return row


_NEVER = (Unfit, 0, 0)
_EXACT: dict[str, tuple[type, int, int]] = {
    str(Types.STRING()): (str, 0, 0),
    str(Types.LONG()): (int, -(1 << 63), (1 << 63) - 1),
    str(Types.INT()): (int, -(1 << 31), (1 << 31) - 1),
    str(Types.DOUBLE()): (float, 0, 0),
    str(Types.BOOLEAN()): (bool, 0, 0),
}
"""Python types that are those of the column, and the bounds of those that have some."""


def _inside(place: str, fit: Fit, value: Any) -> Any:
    try:
        return fit(value)
    except Unfit as unfit:
        unfit.path = place + unfit.path
        raise


_SIMPLE: tuple[tuple[TypeInformation, Fit], ...] = (
    (Types.PICKLED_BYTE_ARRAY(), _something),
    (Types.STRING(), _text),
    (Types.LONG(), _integer(63)),
    (Types.INT(), _integer(31)),
    (Types.SHORT(), _integer(15)),
    (Types.BYTE(), _integer(7)),
    (Types.DOUBLE(), _real),
    (Types.FLOAT(), _real),
    (Types.BOOLEAN(), _instance(bool)),
    (Types.BIG_DEC(), _instance(Decimal)),
    (Types.SQL_DATE(), _date),
    (Types.SQL_TIME(), _instance(dt.time)),
    (Types.SQL_TIMESTAMP(), _instance(dt.datetime)),
    (Types.INSTANT(), _instance(Instant)),
)
