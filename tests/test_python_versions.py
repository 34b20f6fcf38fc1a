"""What the oldest Python we support refuses, and the one these tests usually run on does not."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "flink_agents_py"


def test_class_variables_say_their_type_as_pydantic_cannot_read_a_bare_classvar_on_python_310():
    bare = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.annotation, ast.Name)
        and node.annotation.id == "ClassVar"
    ]
    assert bare == []
