"""Key groups as Flink assigns them, and *synthetic keys*: keys of ours in chosen groups.

A Python operator gets callbacks only under keys. What belongs to a subtask, not to a key of the user's, needs a key to
hang on, whose state and timers follow its group through every rescaling.

The assignment is that of Flink's ``KeyGroupRangeAssignment``: a murmur hash of the Java hash of the key, which is a
``Row`` of one field. It is computed here, so that workers can do it too; the JVM is asked once whether it agrees.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import count
from typing import Any

import cloudpickle
from pyflink.common import Row, Types
from pyflink.common.typeinfo import PickledBytesTypeInfo, TypeInformation
from pyflink.java_gateway import get_gateway

from flink_agents_py.errors import PipelineError
from flink_agents_py.flink.internals import java_key

MARK = "\0flink-agents-py\0"
"""How synthetic text keys begin."""

_LEAST_LONG = -(2**63)
_LEAST_INT = -(2**31)
_MOST_TRIED = 2**24
_MOST_HOMES = 4096
_MASK = 0xFFFFFFFF


class KeyGroups:
    """Which group a key is in, and a synthetic key for each group. Can be pickled.

    Args:
        kind: of the keys, from :func:`kind_of`.
        groups: how many there are (the maximum parallelism).
        threaded: the execution mode; pickled keys have different bytes, hence other groups, in the two.
    """

    def __init__(self, kind: str, groups: int, *, threaded: bool) -> None:
        self.kind = kind
        self.groups = groups
        self.threaded = threaded

    @property
    def synthetic(self) -> list[Any]:
        """The synthetic key of each group, by number of the group."""
        return _synthetic(self.kind, self.groups, self.groups, self.threaded)

    def spread(self, subtasks: int) -> list[Any]:
        """So many synthetic keys that every subtask owns one at any parallelism up to ``subtasks``."""
        return _synthetic(self.kind, self.groups, min(self.groups, 2 * subtasks), self.threaded)

    def owned(self, subtask: int, parallelism: int) -> list[Any]:
        """The synthetic keys of a subtask; the ranges are those of ``computeKeyGroupRangeForOperatorIndex``."""
        start = (subtask * self.groups + parallelism - 1) // parallelism
        end = ((subtask + 1) * self.groups - 1) // parallelism
        return self.synthetic[start : end + 1]

    def group_of(self, key: Any) -> int:
        """The number of the group ``key`` is in."""
        return _murmur(62 + _HASHES[self.kind](self.encoded(key))) % self.groups

    def encoded(self, key: Any) -> Any:
        """What Java sees of ``key``."""
        if self.kind != "pickled":
            return key
        return pickle.dumps(key) if self.threaded else cloudpickle.dumps(key)

    # --- see engine.registry.Homes ----------------------------------------------------------------------------------

    def home_of(self, key: Any) -> Any:
        """The synthetic key of the group ``key`` is in."""
        return self.synthetic[self.group_of(key)]

    def handle_of(self, key: Any) -> Any:
        """The key as the state backend has it."""
        return java_key(self.encoded(key)) if self.threaded else Row(key)

    def pack(self, key: Any) -> str:
        """``key`` as text. Pickled keys keep their bytes: an equal key with other bytes is another one to Flink."""
        if self.kind == "pickled":
            return base64.b64encode(self.encoded(key)).decode("ascii")
        return str(key)

    def unpack(self, text: str) -> Any:
        """The key :meth:`pack` was given."""
        if self.kind == "pickled":
            return pickle.loads(base64.b64decode(text))  # noqa: S301 - out of Flink's state, as every key of the job
        return text if self.kind == "text" else int(text)


def kind_of(key_type: TypeInformation) -> str | None:
    """The kind of keys of a type; ``None`` if synthetic ones cannot be made up."""
    if isinstance(key_type, PickledBytesTypeInfo):
        return "pickled"
    for declared, kind in ((Types.STRING(), "text"), (Types.LONG(), "long"), (Types.INT(), "int")):
        if key_type == declared:
            return kind
    return None


def groups_of(env: Any) -> int:
    """How many key groups an operator of the environment's parallelism gets."""
    groups = env.get_max_parallelism()
    if groups <= 0:
        groups = _assignment().computeDefaultMaxParallelism(env.get_parallelism())
    return int(groups)


def check_assignment(groups: KeyGroups) -> None:
    """Have the JVM confirm the group of a key.

    Raises:
        PipelineError: this Flink assigns key groups in another way.
    """
    key = groups.synthetic[0]
    gateway = get_gateway()
    fields = gateway.new_array(gateway.jvm.Object, 1)
    fields[0] = groups.encoded(key)
    assigned = _assignment().assignToKeyGroup(gateway.jvm.org.apache.flink.types.Row.of(fields), groups.groups)
    if assigned != 0:
        raise PipelineError(
            f"this version of Flink puts a key into key group {assigned} that was expected in group 0",
            where="from_datastream(...)",
            fix="use a version of apache-flink this package supports, or pass event_time=False in thread mode",
        )


def homes_of(kind: str | None, env: Any, *, threaded: bool) -> str | None:
    """The kind again, if operators can keep what belongs to a key group under a synthetic key of it.

    In thread mode they cannot for INT: what Python hands to Java is a LONG, which is another key. With very many key
    groups it would take too long.
    """
    if kind is None or (threaded and kind == "int") or groups_of(env) > _MOST_HOMES:
        return None
    try:
        check_assignment(KeyGroups(kind, groups_of(env), threaded=threaded))
    except PipelineError:
        return None
    return kind


def may_be_synthetic(key: Any) -> bool:
    """Whether ``key`` looks like one that was made up; state tells for sure."""
    kind = type(key)
    if kind is str:
        return bool(key.startswith(MARK))
    return kind is int and (key < _LEAST_LONG + _MOST_TRIED or _LEAST_INT <= key < _LEAST_INT + _MOST_TRIED)


@lru_cache(maxsize=16)
def _synthetic(kind: str, groups: int, ranges: int, threaded: bool) -> list[Any]:
    """The first candidate in each of so many equal ranges of groups."""
    assigned = KeyGroups(kind, groups, threaded=threaded)
    found: dict[int, Any] = {}
    for candidate in _candidates(kind):
        found.setdefault(assigned.group_of(candidate) * ranges // groups, candidate)
        if len(found) == ranges:
            break
    return [found[number] for number in range(ranges)]


def _candidates(kind: str) -> Iterator[Any]:
    """An endless supply of keys."""
    if kind in ("text", "pickled"):
        return (f"{MARK}{number}" for number in count())
    # Far out, where no counter or id gets; a real input with such a key would still be handled as it should.
    least = _LEAST_LONG if kind == "long" else _LEAST_INT
    return (least + number for number in count())


def _assignment() -> Any:
    return get_gateway().jvm.org.apache.flink.runtime.state.KeyGroupRangeAssignment


# --- Java's arithmetic: 32 bits, overflowing --------------------------------------------------------------------------


def _text_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _MASK
    return value


def _bytes_hash(data: bytes) -> int:
    """``Arrays.hashCode(byte[])``: over signed bytes."""
    value = 1
    for byte in data:
        value = (31 * value + (byte - 256 if byte > 127 else byte)) & _MASK  # noqa: PLR2004
    return value


def _long_hash(number: int) -> int:
    """``Long.hashCode``."""
    return (number ^ (number & 0xFFFFFFFFFFFFFFFF) >> 32) & _MASK


def _int_hash(number: int) -> int:
    """``Integer.hashCode``."""
    return number & _MASK


_HASHES: dict[str, Callable[[Any], int]] = {
    "text": _text_hash,
    "pickled": _bytes_hash,
    "long": _long_hash,
    "int": _int_hash,
}


def _murmur(code: int) -> int:
    """Flink's ``MathUtils.murmurHash``, not negative."""
    code = code * 0xCC9E2D51 & _MASK
    code = (code << 15 | code >> 17) & _MASK
    code = code * 0x1B873593 & _MASK
    code = (code << 13 | code >> 19) & _MASK
    code = (code * 5 + 0xE6546B64 & _MASK) ^ 4
    code ^= code >> 16
    code = code * 0x85EBCA6B & _MASK
    code ^= code >> 13
    code = code * 0xC2B2AE35 & _MASK
    code ^= code >> 16
    if code < 1 << 31:
        return code
    return 0 if code == 1 << 31 else (1 << 32) - code
