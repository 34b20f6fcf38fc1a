"""The words of a CEL expression, and what can be told from them without evaluating it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flink_agents_py.errors import TriggerError
from flink_agents_py.events import EventType

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<raw>(?:[rR][bB]?|[bB][rR])(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*'))
  | (?P<string>[bB]?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
  | (?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?[uU]?)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_TRUTH = frozenset({"&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in", "?"})
_ARITHMETIC = frozenset("+-*/%")

TRUTHFUL = frozenset({"has", "contains", "startsWith", "endsWith", "matches", "all", "exists", "exists_one"})
"""Functions that give true or false."""
MACROS = frozenset({"all", "exists", "exists_one", "map", "filter"})
"""Functions whose first argument is a name for an element of what they are called on."""
FUNCTIONS = (
    TRUTHFUL
    | MACROS
    | frozenset({"size", "type", "dyn", "int", "uint", "double", "string", "bytes", "timestamp", "duration"})
    | frozenset(f"get{part}" for part in ("FullYear", "Month", "DayOfYear", "DayOfMonth", "Date", "DayOfWeek"))
    | frozenset(f"get{part}" for part in ("Hours", "Minutes", "Seconds", "Milliseconds"))
)
EVENT_TYPES: dict[str, str] = {name: value for name, value in vars(EventType).items() if not name.startswith("_")}


class Token(NamedTuple):
    """A word of an expression."""

    kind: str  # raw | string | number | name | sign
    text: str
    start: int

    def is_sign(self, text: str) -> bool:
        """Whether it is that operator or bracket."""
        return self.kind == "sign" and self.text == text

    @property
    def content(self) -> str | None:
        """The text of a string literal, ``None`` if it is none, holds bytes or has escapes."""
        if self.kind not in ("raw", "string"):
            return None
        prefix = self.text[: self.text.index(self.text[-1])].lower()
        if "b" in prefix or ("r" not in prefix and "\\" in self.text):
            return None
        inner = self.text[len(prefix) :]
        width = 3 if inner[:3] in ('"""', "'''") else 1
        return inner[width:-width]


END = Token("end", "", -1)


def mistake(source: str, at: int, what: str, where: str, fix: str) -> TriggerError:
    """The error for a mistake at offset ``at`` of an expression: it shows the place."""
    at = min(max(at, 0), len(source))
    line = source.count("\n", 0, at) + 1
    begin = source.rfind("\n", 0, at) + 1
    shown = source[begin:].split("\n", 1)[0]
    place = f"column {at - begin + 1}" if "\n" not in source else f"line {line}, column {at - begin + 1}"
    error = TriggerError(
        f"trigger condition, {place}: {what}\n    {shown}\n    {' ' * (at - begin)}^", where=where, fix=fix
    )
    error.line, error.column = line, at - begin + 1
    return error


def tokens_of(source: str, where: str) -> list[Token]:
    """The words of an expression, without blanks and comments.

    Raises:
        TriggerError: a character is in no word of the language.
    """
    tokens, at = [], 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            quote = source[at] in "'\""
            what = "the text that begins here does not end" if quote else f"{source[at]!r} is no part of CEL"
            raise mistake(source, at, what, where, "close the quote" if quote else "see https://cel.dev")
        if match.lastgroup != "space":
            tokens.append(Token(match.lastgroup or "", match[0], at))
        at = match.end()
    return tokens


def check_truth(source: str, tokens: Sequence[Token], where: str) -> None:
    """Check that the expression can be true or false, as far as its words tell.

    Raises:
        TriggerError: it is an attribute, a number, a text, a sum ...
    """
    inner = _without_brackets(tokens)
    if not inner:
        raise mistake(source, 0, "there is no expression", where, "write a comparison")
    top = [token for depth, token in _depths(inner) if depth == 0]
    if any(token.text in _TRUTH for token in top if token.kind in ("sign", "name")):
        return
    first = inner[0]
    if any(token.kind == "sign" and token.text in _ARITHMETIC for token in top):
        raise mistake(source, first.start, "this gives a value, not true or false", where, "compare it: ... > 3")
    if len(inner) == 1 and first.text in ("true", "false"):
        return
    call = _last_call(inner)
    if call is not None:
        if call.text not in TRUTHFUL and call.text != "dyn":
            what = f"{call.text}(...) gives a value, not true or false"
            raise mistake(source, call.start, what, where, f"compare it: {call.text}(...) == ...")
        return
    if first.text == "EventType":
        fix = f"write the event type alone ({EVENT_TYPES.get(inner[-1].text, '...')}), or type == {source.strip()}"
        raise mistake(source, first.start, "an event type alone is no condition", where, fix)
    what = "this alone is neither true nor false" if first.kind == "name" else "a constant is no condition"
    fix = "compare it: ... == true" if first.kind == "name" else "write a comparison"
    raise mistake(source, first.start, what, where, fix)


def possible_types(tokens: Sequence[Token]) -> list[str] | None:
    """The only event types that the expression can hold for, ``None`` if it may hold for any.

    In CEL ``a && false`` is false even where ``a`` fails, so nobody sees whether the rest is evaluated for others.
    """
    inner = _without_brackets(tokens)
    if any(depth == 0 and token.is_sign("?") for depth, token in _depths(inner)):
        return None
    parts = list(_split(inner, "||"))
    if len(parts) > 1:
        either = [possible_types(part) for part in parts]
        return None if None in either else list(dict.fromkeys(name for names in either for name in names or ()))
    parts = list(_split(inner, "&&"))
    if len(parts) > 1:
        known = [names for names in map(possible_types, parts) if names is not None]
        return [name for name in known[0] if all(name in names for names in known)] if known else None
    return _compared_types(inner)


def _compared_types(tokens: Sequence[Token]) -> list[str] | None:
    """``type == "x"``, ``"x" == type`` or ``type in ["x", EventType.Y]``."""
    texts = [token.text for token in tokens]
    if texts[:2] == ["type", "=="]:
        names = [_named(tokens[2:])]
    elif texts[-2:] == ["==", "type"]:
        names = [_named(tokens[:-2])]
    elif texts[:3] == ["type", "in", "["] and texts[-1] == "]":
        names = [_named(part) for part in _split(tokens[3:-1], ",")]
    else:
        return None
    return None if None in names else [name for name in names if name is not None]


def _named(tokens: Sequence[Token]) -> str | None:
    if len(tokens) == 1:
        return tokens[0].content
    if [token.text for token in tokens[:2]] == ["EventType", "."] and len(tokens) == 3:  # noqa: PLR2004 - EventType.X
        return EVENT_TYPES.get(tokens[2].text)
    return None


def _depths(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    depth = 0
    for token in tokens:
        if token.kind == "sign" and token.text in _CLOSING:
            depth -= 1
        yield depth, token
        if token.kind == "sign" and token.text in _OPENING:
            depth += 1


def _split(tokens: Sequence[Token], sign: str) -> Iterator[Sequence[Token]]:
    begin = 0
    for number, (depth, token) in enumerate(_depths(tokens)):
        if depth == 0 and token.is_sign(sign):
            yield tokens[begin:number]
            begin = number + 1
    yield tokens[begin:]


def _without_brackets(tokens: Sequence[Token]) -> Sequence[Token]:
    while len(tokens) > 1 and tokens[0].is_sign("(") and tokens[-1].is_sign(")"):
        depths = [depth for depth, _ in _depths(tokens)]
        if 0 in depths[1:-1]:  # (a) && (b)
            break
        tokens = tokens[1:-1]
    return tokens


def _last_call(tokens: Sequence[Token]) -> Token | None:
    """The function whose result the expression is."""
    if not tokens[-1].is_sign(")"):
        return None
    depths = [depth for depth, _ in _depths(tokens)]
    opened = max(number for number, depth in enumerate(depths[:-1]) if depth == 0 and tokens[number].is_sign("("))
    return tokens[opened - 1] if opened and tokens[opened - 1].kind == "name" else None
