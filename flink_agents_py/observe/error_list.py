"""The list of errors, made from the code: what each code means, the messages there are, and what to do about them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from flink_agents_py import errors
from flink_agents_py.errors import ConfigError, FlinkAgentsError

_GROUPS = {
    "1": "The agent or its plan is wrong",
    "2": "Values that travel or are stored",
    "3": "While a run executes",
    "4": "Memory",
    "5": "Configuration and environment",
    "6": "External actions",
    "7": "Models, tools and what they need",
}
_INTRODUCTION = (
    "Every error of the framework begins with its code and says what went wrong, where, and what to do. Codes do not "
    "change their meaning. This page is made from the code (`flink-agents-py errors > docs/errors.md`); "
    "`flink-agents-py errors CODE` shows one entry. What stands in `<...>` is filled in."
)
_PACKAGE = Path(errors.__file__).parent

Message = tuple[str, str]
"""What went wrong, and what to do."""


def error_classes() -> dict[str, type[FlinkAgentsError]]:
    """Classes of errors by code."""
    classes = [
        cls
        for cls in vars(errors).values()
        if inspect.isclass(cls) and issubclass(cls, FlinkAgentsError) and cls is not FlinkAgentsError
    ]
    return {cls.code: cls for cls in sorted(classes, key=lambda cls: cls.code)}


def as_markdown() -> str:
    """All of them, as ``docs/errors.md`` has them."""
    messages = _messages()
    lines = [
        "# Errors",
        "",
        _INTRODUCTION,
    ]
    group = ""
    for code, cls in error_classes().items():
        if code[2] != group:
            group = code[2]
            lines += ["", f"## FA{group}xx: {_GROUPS.get(group, 'More')}"]
        lines += ["", *_entry(cls, messages.get(cls.__name__, []))]
    return "\n".join(lines)


def describe(code: str) -> str:
    """One entry.

    Raises:
        ConfigError: there is no such code.
    """
    cls = error_classes().get(code.strip("[] ").upper())
    if cls is None:
        raise ConfigError(f"there is no error {code!r}", fix="`flink-agents-py errors` lists them all")
    return "\n".join(_entry(cls, _messages().get(cls.__name__, [])))


def _entry(cls: type[FlinkAgentsError], messages: list[Message]) -> list[str]:
    summary = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].replace("``", "`").replace("\n", " ")
    lines = [f"### {cls.code} {cls.__name__}", "", summary]
    if messages:
        lines += ["", "| message | what to do |", "|---|---|"]
        lines += [f"| {_cell(what)} | {_cell(fix)} |" for what, fix in messages]
    return lines


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _messages() -> dict[str, list[Message]]:
    """Messages by name of the class, as the package's source has them, in order of the files."""
    found: dict[str, list[Message]] = {}
    names = {cls.__name__ for cls in error_classes().values()}
    for path in sorted(_PACKAGE.rglob("*.py")):
        for name, message in _messages_in(ast.parse(path.read_text(encoding="utf-8")), names):
            if message not in found.setdefault(name, []):
                found[name].append(message)
    return found


def _messages_in(tree: ast.AST, names: set[str]) -> Iterator[tuple[str, Message]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names and node.args:
            what = _template(node.args[0])
            fixes = [_template(keyword.value) for keyword in node.keywords if keyword.arg == "fix"]
            if what:
                yield node.func.id, (what, fixes[0] if fixes else "")


def _template(node: ast.expr) -> str:
    """The text of a literal, with names for what is filled in; nothing for what is no literal."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else f"<{_name(part)}>" for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left) + _template(node.right)
    return ""


def _name(node: ast.expr) -> str:
    inner = node.value if isinstance(node, ast.FormattedValue) else node
    if isinstance(inner, ast.Attribute):
        return inner.attr.strip("_")
    if isinstance(inner, ast.Name):
        return inner.id.strip("_")
    return "..."
