"""Condition expressions of triggers: read, checked and translated for the evaluator.

They are CEL over ``type``, ``id``, ``attributes`` and ``EventType``. An attribute may be written without
``attributes.``, and ``has(score)`` is as good as ``has(attributes.score)``; the evaluator knows neither, so both are
translated. What an expression reads is noted, so that of a large event only that is converted for the evaluator.

The evaluator is the package ``common-expression-language`` (extra ``cel``): it is imported where a plan with an
expression is compiled or run, and nowhere else.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.plan.cel_tokens import (
    END,
    EVENT_TYPES,
    FUNCTIONS,
    MACROS,
    Token,
    check_truth,
    mistake,
    possible_types,
    tokens_of,
)

_LITERALS = frozenset({"true", "false", "null", "in"})
_FRAMEWORK = frozenset({"type", "id"})
# Names of types, as in type(x) == int; an attribute of such a name is written attributes.int.
_TYPES = frozenset({"int", "uint", "double", "string", "bool", "bytes", "list", "map", "null_type"})
_BEFORE_KEY = frozenset({"(", "&&", "||", "!", "?", ":", "[", ","})
_LONGEST = 8192  # characters, as in Apache Flink Agents
_SHOWN = 60
_DEEPEST = 64
_OLDEST_PYTHON = (3, 11)
_AT = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?(.*)")
_EXPECTED = re.compile(r" expecting \{.*", re.DOTALL)

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Condition:
    """One expression."""

    source: str
    text: str
    """What the evaluator is given."""
    origins: tuple[int, ...]
    """Where each character of :attr:`text` comes from in :attr:`source`."""
    paths: tuple[Path, ...]
    """The attributes it reads; the empty path means all of them."""
    event_types: tuple[str, ...] | None
    """The only types of events it can hold for; ``None``: any."""
    reads_id: bool

    def program(self, where: str) -> Callable[[Any], Any]:
        """The compiled expression: a function of an evaluator's context.

        Raises:
            TriggerError: the evaluator refuses it; the message shows the place.
            EnvironmentSetupError: the evaluator is not installed.
        """
        cel = evaluator(where)
        try:
            program = cel.compile(self.text)
        except ValueError as error:
            found = _AT.search(str(error))
            at, what = 0, str(error)
            if found is not None:
                what = _EXPECTED.sub("", found[3]).replace("'<EOF>'", "the end").replace("mismatched", "unexpected")
                at = self._origin(int(found[1]), int(found[2]))
            raise mistake(self.source, at, what, where, "correct the expression; see https://cel.dev") from None
        execute: Callable[[Any], Any] = program.execute
        return execute

    def _origin(self, line: int, column: int) -> int:
        begin = 0
        for _ in range(line - 1):
            begin = self.text.find("\n", begin) + 1
        at = begin + column - 1
        return self.origins[at] if at < len(self.origins) else len(self.source)


def evaluator(where: str) -> Any:
    """The module of the evaluator.

    Raises:
        EnvironmentSetupError: it is not installed.
    """
    try:
        return importlib.import_module("cel")
    except ImportError as error:
        fix = "pip install 'flink-agents-py[cel]', on the workers too"
        if sys.version_info < _OLDEST_PYTHON:
            fix = "it needs Python 3.11 or newer; else trigger on event types, and test the condition in the action"
        raise EnvironmentSetupError(
            "trigger conditions are evaluated by the package 'common-expression-language', which is not installed",
            where=where,
            fix=fix,
        ) from error


def read_condition(source: str, where: str) -> Condition:
    """Read an expression; what needs the evaluator is checked by :meth:`Condition.program`.

    Raises:
        TriggerError: a name in it does not exist, or it can be neither true nor false; the message shows the place.
    """
    if len(source) > _LONGEST:
        fix = "test such a thing in the action"
        raise mistake(source[:_SHOWN], 0, f"it is longer than {_LONGEST} characters", where, fix)
    tokens = tokens_of(source, where)
    reader = _Reader(source, tokens, where)
    reader.read()
    check_truth(source, tokens, where)
    types = possible_types(tokens)
    if types == []:
        what = "this can never hold: an event has one type alone"
        raise mistake(source, tokens[0].start, what, where, "join the comparisons with ||, or give two triggers")
    return Condition(
        source=source,
        text="".join(reader.out),
        origins=tuple(reader.origins),
        paths=tuple(dict.fromkeys(reader.paths)),
        event_types=None if types is None else tuple(types),
        reads_id=reader.reads_id,
    )


class _Reader:
    """Goes through the words of an expression once."""

    def __init__(self, source: str, tokens: list[Token], where: str) -> None:
        self.source = source
        self.tokens = tokens
        self.where = where
        self.out: list[str] = []
        self.origins: list[int] = []
        self.paths: list[Path] = []
        self.reads_id = False
        self._bound: list[tuple[str, int]] = []  # names that macros give to elements, and how deep their brackets are
        self._depth = 0
        self._copied = 0

    def read(self) -> None:
        number = 0
        while number < len(self.tokens):
            number += self._name(number) if self.tokens[number].kind == "name" else self._sign(number)
        self._copy(len(self.source))

    def _at(self, number: int) -> Token:
        return self.tokens[number] if 0 <= number < len(self.tokens) else END

    def _copy(self, end: int) -> None:
        """Take over the source up to ``end``, blanks included: positions in a line stay what they are."""
        self.out.append(self.source[self._copied : end])
        self.origins += range(self._copied, end)
        self._copied = end

    def _write(self, text: str, origin: int) -> None:
        self.out.append(text)
        self.origins += [origin] * len(text)

    def _sign(self, number: int) -> int:
        token = self.tokens[number]
        if token.kind == "sign" and token.text in "([{":
            self._depth += 1
            if self._depth > _DEEPEST:
                raise self._mistake(token, f"more than {_DEEPEST} brackets within brackets", "write it flatter")
        elif token.kind == "sign" and token.text in ")]}":
            self._depth -= 1
            self._bound = [(name, depth) for name, depth in self._bound if depth <= self._depth]
        return 1

    def _name(self, number: int) -> int:
        """Deal with a name; how many words that were."""
        token, name = self.tokens[number], self.tokens[number].text
        called = self._at(number + 1).is_sign("(")
        selected = self._at(number - 1).is_sign(".")
        if called and name not in _LITERALS:  # x in (a, b) calls nothing
            return self._call(number, selected=selected)
        if selected or name in _LITERALS or name in _TYPES or any(name == bound for bound, _ in self._bound):
            return 1
        if name in _FRAMEWORK:
            self.reads_id = self.reads_id or name == "id"
            return 1
        if name == "EventType":
            return self._event_type(number)
        if self._at(number + 1).is_sign("{"):
            raise self._mistake(token, f"there is no message type {name}", "use a map: {'key': value}")
        if name == "attributes":
            self.paths.append(self._path(number + 1) or self._asked_key(number))
        else:
            self.paths.append((name, *self._path(number + 1)))
            self._copy(token.start)
            self._write("attributes.", token.start)
        return 1

    def _call(self, number: int, *, selected: bool) -> int:
        token, name = self.tokens[number], self.tokens[number].text
        if name not in FUNCTIONS:
            raise self._mistake(token, f"there is no function {name}", f"functions are: {', '.join(sorted(FUNCTIONS))}")
        if name == "has" and not selected:
            return self._has(number)
        if name in MACROS:
            element = self._at(number + 2)
            if not selected or element.kind != "name" or not self._at(number + 3).is_sign(","):
                raise self._mistake(token, f"{name} is called as list.{name}(element, ...)", "name the element first")
            self._bound.append((element.text, self._depth + 1))
        return 1

    def _has(self, number: int) -> int:
        """``has(a.b)`` -> ``(has(attributes.a) && has(attributes.a.b))``: false, no failure, where ``a`` is missing."""
        token, names, at = self.tokens[number], [self._at(number + 2)], number + 3
        while self._at(at).is_sign(".") and self._at(at + 1).kind == "name":
            names.append(self._at(at + 1))
            at += 2
        path = [name.text for name in names]
        bound = any(path[0] == name for name, _ in self._bound)
        if path[0] == "attributes":
            path = path[1:]
        elif path[0] in _LITERALS | _FRAMEWORK | _TYPES | {"EventType"}:
            path = []
        if names[0].kind != "name" or not path or not self._at(at).is_sign(")"):
            what = "has(...) takes the name of an attribute"
            raise self._mistake(names[0] if names[0] is not END else token, what, "has(score) or has(attributes.a.b)")
        if bound:
            return at - number + 1
        self.paths.append(tuple(path))
        self._copy(token.start)
        tests = [f"has(attributes.{'.'.join(path[:length])})" for length in range(1, len(path) + 1)]
        self._write(tests[0] if len(tests) == 1 else f"({' && '.join(tests)})", token.start)
        self._copied = self.tokens[at].start + 1
        return at - number + 1

    def _event_type(self, number: int) -> int:
        token, name = self.tokens[number], self._at(number + 2)
        if not self._at(number + 1).is_sign(".") or name.kind != "name":
            raise self._mistake(token, "EventType holds names of event types", "type == EventType.InputEvent")
        if name.text not in EVENT_TYPES:
            raise self._mistake(
                name, f"there is no EventType.{name.text}", f"its names are: {', '.join(sorted(EVENT_TYPES))}"
            )
        self._copy(token.start)
        self._write(f"'{EVENT_TYPES[name.text]}'", token.start)
        self._copied = name.start + len(name.text)
        return 3

    def _path(self, number: int) -> Path:
        """Names, literal keys and indices that follow, up to what has to be evaluated."""
        path: list[str | int] = []
        while True:
            if self._at(number).is_sign("."):
                name = self._at(number + 1)
                if name.kind != "name" or self._at(number + 2).is_sign("("):
                    return tuple(path)
                path.append(name.text)
                number += 2
            elif self._at(number).is_sign("[") and self._at(number + 2).is_sign("]"):
                index = self._at(number + 1)
                key = int(index.text) if index.text.isdecimal() and index.kind == "number" else index.content
                if key is None:
                    return tuple(path)
                path.append(key)
                number += 3
            else:
                return tuple(path)

    def _asked_key(self, number: int) -> Path:
        """The key in ``"key" in attributes``; else the expression wants all attributes."""
        key, before = self._at(number - 2).content, self._at(number - 3)
        alone = before is END or (before.kind == "sign" and before.text in _BEFORE_KEY)
        return (key,) if key is not None and alone and self._at(number - 1).text == "in" else ()

    def _mistake(self, token: Token, what: str, fix: str) -> Exception:
        return mistake(self.source, token.start if token.start >= 0 else len(self.source), what, self.where, fix)
