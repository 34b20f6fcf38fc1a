"""How the outcome of a durable call, a result or an exception, is written down and raised again (S5)."""

from __future__ import annotations

import base64
import importlib
import json
import pickle
from typing import Any

from flink_agents_py.engine.failures import message_of
from flink_agents_py.errors import DecodeError, EncodeError, RecordedCallError, ValueTooLargeError
from flink_agents_py.serde import decode, encode

_PICKLE = '"pickle"'  # in the text of every value that pickle carries, and of few others


def encode_result(value: Any, limit_bytes: int, call: str) -> str:
    """The result as JSON text that :func:`flink_agents_py.serde.decode` can read.

    Raises:
        EncodeError: the value has no encoding, or none that can be read back.
        ValueTooLargeError: the text is longer than ``limit_bytes``.
    """
    try:
        text = encode(value)
        if _PICKLE in text:
            _read_back(text)
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

    The second is ``error`` itself if a replay will raise an equal one. If only attributes are lost (a response, a
    client: live objects), it is the exception as a replay will raise it, caused by ``error``; if the class cannot be
    rebuilt, a :class:`RecordedCallError` that says so. An ``except`` clause must not work only until a crash.
    """
    kept = _attributes(error)
    forms = (_by_fields, _by_pickle) if len(kept) == len(error.__dict__) else (_by_pickle, _by_fields)
    for form in forms:
        try:
            text = _dumps(form(error, kept))
            again = _rebuild(json.loads(text))
            if type(again) is not type(error) or str(again) != str(error) or not _same(again.args, error.args):
                continue
        except Exception:  # noqa: BLE001, S112 - any failure of a class we do not know means: try the next form
            continue
        if form is _by_pickle or again.__dict__.keys() == error.__dict__.keys():
            return text, error
        again.__cause__ = error
        return text, again.with_traceback(error.__traceback__)
    recorded = _stand_in(_class_of(error), message_of(error))
    recorded.__cause__ = error
    return _dumps(_by_fields(recorded, _attributes(recorded))), recorded


def decode_error(text: str) -> BaseException:
    """The exception written by :func:`encode_error`; a :class:`RecordedCallError` if its class is not here any more."""
    document = json.loads(text)
    try:
        return _rebuild(document)
    except Exception as problem:  # noqa: BLE001 - renamed, moved or changed: importing and constructing raise anything
        recorded = _stand_in(document["class"].replace(":", "."), document["message"])
        recorded.__cause__ = problem
        return recorded


def _rebuild(document: dict[str, str]) -> BaseException:
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
    # Classes of users may take other arguments than they pass on, so their __init__ is not called. That of the builtin
    # class below them is: it may parse the arguments (UnicodeDecodeError, OSError).
    restored: BaseException = cls.__new__(cls, *args)
    next(base for base in cls.__mro__ if base.__module__ == "builtins").__init__(restored, *args)
    restored.__dict__.update(decode(document["state"]))
    return restored


def _attributes(error: BaseException) -> dict[str, Any]:
    """What hangs on the exception and can be recorded."""
    kept = {}
    for name, value in error.__dict__.items():
        try:
            encode(value, allow_pickle=False)
        except EncodeError:
            continue
        kept[name] = value
    return kept


def _by_fields(error: BaseException, attributes: dict[str, Any]) -> dict[str, str]:
    cls = type(error)
    return {
        "class": f"{cls.__module__}:{cls.__qualname__}",
        "message": _text(message_of(error)),
        # An OSError keeps its file name outside of args; its __reduce__ knows where.
        "args": encode(_reducer(error).__reduce__(error)[1], allow_pickle=False),
        "state": encode(attributes, allow_pickle=False),
    }


def _by_pickle(error: BaseException, _: dict[str, Any]) -> dict[str, str]:
    return {
        "class": _class_of(error),
        "message": _text(message_of(error)),
        "pickled": base64.b64encode(pickle.dumps(error)).decode("ascii"),
    }


def _reducer(error: BaseException) -> Any:
    return OSError if isinstance(error, OSError) else BaseException


def _stand_in(kind: str, message: str) -> RecordedCallError:
    return RecordedCallError(
        f"{kind}: {message}",
        where="a durable call; the exception cannot be rebuilt from a record, so its type and message stand in",
        fix=f"catch RecordedCallError, or raise an exception from the called function that can be rebuilt (not {kind})",
    )


def _class_of(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _text(message: str) -> str:
    return message.encode(errors="replace").decode()  # half a surrogate pair has no place in state


def _dumps(document: dict[str, str]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _read_back(text: str) -> None:
    try:
        decode(text)
    except DecodeError as error:
        raise EncodeError(f"it can be pickled, but not be read back: {error.what}", where="$") from None


def _same(one: Any, other: Any) -> bool:
    try:
        return encode(one) == encode(other)
    except EncodeError:
        return repr(one) == repr(other)
