"""One option, and how values of it are understood."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Literal, TypeVar

from flink_agents_py.errors import ConfigError

T = TypeVar("T")

Unit = Literal["ms", "s", "bytes"]
_SCALES: dict[str, dict[str, float]] = {
    "ms": {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000},
    "s": {"": 1, "ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86_400},
    # Powers of 1024 under either name, as in Flink's own configuration.
    "bytes": {"": 1, "b": 1, "kb": 2**10, "kib": 2**10, "mb": 2**20, "mib": 2**20, "gb": 2**30, "gib": 2**30},
}
_BOOLS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """One option: its key, what its values are, and what holds where nobody sets it.

    Args:
        key: lower case, words joined by hyphens, sections by dots.
        type: ``str``, ``int``, ``float`` or ``bool``.
        default: ``None`` where the framework finds the value itself.
        doc: one sentence for the reader of a list of options.
        unit: of numbers; texts such as ``"2 s"`` or ``"16 MiB"`` are then understood too.
        choices: all values there are, if they are few.
        minimum: the least value allowed.
        check: what else holds; given a value of the right type and its source, it raises ConfigError if that is wrong.
    """

    key: str
    type: type[Any]
    default: T
    doc: str = ""
    unit: Unit | None = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    check: Callable[[Any, str], None] | None = None

    @property
    def expects(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return " or ".join(map(repr, self.choices))
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[self.type]
        if self.unit:
            words += f" of {self.unit}, or a text such as {'16 MiB' if self.unit == 'bytes' else '2 s'!r}"
        return words if self.minimum is None else f"{words}, at least {self.minimum:g}"

    def parse(self, value: Any, source: str) -> T:
        """``value`` as the option's type.

        Raises:
            ConfigError: it is none; the message names key, value and source.
        """
        parsed = _parse(value, self.type, self.unit)
        ok = parsed is not None and (not self.choices or parsed in self.choices)
        if not ok or (self.minimum is not None and parsed < self.minimum):
            raise ConfigError(
                f"option {self.key!r} cannot be {value!r}", where=f"set by {source}", fix=f"give {self.expects}"
            )
        if self.check is not None:
            self.check(parsed, source)
        return parsed  # type: ignore[no-any-return]  # _parse goes by self.type


def _parse(value: Any, kind: type[Any], unit: str | None) -> Any:
    """``value`` as ``kind``, ``None`` if it is not that."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str) and kind is not str:
        text = value.strip().lower()
        if kind is bool:
            return _BOOLS.get(text)
        value = _number(text, _SCALES[unit] if unit else {"": 1})
    if isinstance(value, bool) or kind is bool:
        return value if isinstance(value, bool) and kind is bool else None
    if kind is str:
        return str(value) if isinstance(value, (str, int)) else None
    if not isinstance(value, (int, float)) or value - value != 0:  # NaN and the infinities are no numbers here
        return None
    if kind is int:
        return int(value) if int(value) == value else None
    return float(value)


def _number(text: str, scales: Mapping[str, float]) -> float | None:
    match = re.fullmatch(r"([-+]?\d[\d_]*)(\.\d+)?(e[-+]?\d+)?\s*([a-z]*)", text)
    if match is None or match[4] not in scales:
        return None
    whole = match[2] is None and match[3] is None
    scale = scales[match[4]]
    # Whole numbers stay exact: a float has no room for every large one. Rounded, because 0.3 * 1000 is not 300.
    return (
        int(match[1]) * scale if whole else round(float(text[: match.end(3) if match[3] else match.end(2)]) * scale, 9)
    )
