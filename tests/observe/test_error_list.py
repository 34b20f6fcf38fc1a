"""The list of errors is the code's."""

from __future__ import annotations

from pathlib import Path

import pytest

from flink_agents_py import errors
from flink_agents_py.cli import main
from flink_agents_py.observe.error_list import as_markdown, error_classes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"


def test_the_page_is_in_step_with_the_code():
    assert PAGE.read_text(encoding="utf-8") == as_markdown() + "\n", "run: flink-agents-py errors > docs/errors.md"


def test_each_error_has_a_code_of_its_own():
    classes = [
        cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.FlinkAgentsError)
    ]
    assert len({cls.code for cls in classes}) == len(classes) == len(error_classes()) + 1


def test_one_code_is_explained(capsys):
    assert main(["errors", "[fa302]"]) == 0
    assert "durable_execute_async" in capsys.readouterr().out
    assert main(["errors", "FA999"]) == 1
    assert "FA501" in capsys.readouterr().err


@pytest.mark.parametrize("code", list(error_classes()))
def test_each_error_says_what_it_means(code):
    assert error_classes()[code].__doc__
