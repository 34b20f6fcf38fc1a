"""How the outcome of a durable call, a result or an exception, is written down and raised again (S5)."""

from __future__ import annotations

import base64
import importlib
import json
import pickle
from typing import Any

from flink_agents_py.errors import EncodeError, RecordedCallError, ValueTooLargeError
from flink_agents_py.serde import decode, encode


def encode_result(value: Any, limit_bytes: int, call: str) -> str:
    """The result as JSON text.

    Raises:
        EncodeError: the value has no encoding.
        ValueTooLargeError: the text is longer than ``limit_bytes``.
    """
    try:
        text = encode(value)
    except EncodeError as error:
        raise EncodeError(
            f"the result of the durable call {call} cannot be recorded: {error.what}",
            where=error.where,
            fix="return plain data, a dataclass or a pydantic model from the function",
        ) from None
    # Characters are at most as many as bytes; counting bytes exactly only matters near the limit.
    if len(text) > limit_bytes or (len(text) * 4 > limit_bytes and len(text.encode()) > limit_bytes):
        raise ValueTooLargeError(
            f"the result of the durable call {call} takes {len(text.encode()):,} bytes, the limit is {limit_bytes:,}",
            fix="return less (a reference to where the data lies), or raise durable.max-result-bytes",
        )
    return text


def encode_error(error: BaseException) -> tuple[str, BaseException]:
    """The exception as JSON text, and the exception to raise now.

    The second is ``error`` itself if a replay will raise an equal one; otherwise a :class:`RecordedCallError` that
    says so, raised the first time as on every replay: an ``except`` clause must not match only until a crash.
    """
    for form in (_by_fields, _by_pickle):
        try:
            text = json.dumps(form(error), ensure_ascii=False, separators=(",", ":"))
            again = decode_error(text)
        except Exception:  # noqa: BLE001, S112 - any failure of a class we do not know means: try the next form
            continue
        if type(again) is type(error) and str(again) == str(error) and _same(again.args, error.args):
            return text, error
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    recorded = RecordedCallError(
        f"{kind}: {error}",
        where="a durable call; the exception cannot be rebuilt from a record, so its type and message stand in",
        fix=f"catch RecordedCallError, or raise an exception from the called function that can be rebuilt (not {kind})",
    )
    recorded.__cause__ = error
    return json.dumps(_by_fields(recorded), ensure_ascii=False, separators=(",", ":")), recorded


def decode_error(text: str) -> BaseException:
    """The exception written by :func:`encode_error`."""
    document = json.loads(text)
    if "pickled" in document:
        error = pickle.loads(base64.b64decode(document["pickled"]))  # noqa: S301 - our own state, as trusted as Flink's
        if not isinstance(error, BaseException):
            raise TypeError(f"not an exception: {type(error)}")
        return error
    module, _, qualname = document["class"].partition(":")
    cls: Any = importlib.import_module(module)
    for part in qualname.split("."):
        cls = getattr(cls, part)
    args = decode(document["args"])
    # Builtin exceptions parse their arguments in __init__ (UnicodeDecodeError); classes of users may take others than
    # they pass on, so __init__ is not called for them: args and attributes are put back as they were.
    restored: BaseException = cls(*args) if module == "builtins" else cls.__new__(cls, *args)
    restored.args = args
    restored.__dict__.update(decode(document["state"]))
    return restored


def _by_fields(error: BaseException) -> dict[str, str]:
    cls = type(error)
    state = {}
    for name, value in error.__dict__.items():
        try:
            encode(value, allow_pickle=False)
        except EncodeError:
            continue  # a live object on the exception (a response, a client): not part of what it says
        state[name] = value
    return {
        "class": f"{cls.__module__}:{cls.__qualname__}",
        "args": encode(error.args, allow_pickle=False),
        "state": encode(state, allow_pickle=False),
    }


def _by_pickle(error: BaseException) -> dict[str, str]:
    return {"pickled": base64.b64encode(pickle.dumps(error)).decode("ascii")}


def _same(one: Any, other: Any) -> bool:
    try:
        return encode(one) == encode(other)
    except EncodeError:
        return repr(one) == repr(other)
