"""The shape of an answer: pydantic models, rows and JSON Schema; found in text, checked, told where it does not fit."""

from __future__ import annotations

import pytest
from pydantic import BaseModel
from pyflink.common import Row, Types

from flink_agents_py import OutputSchema
from flink_agents_py.errors import NotSerializableError, StructuredOutputError
from flink_agents_py.ext.strict_schema import strict
from flink_agents_py.resources.output_schema import json_in
from flink_agents_py.serde import decode, encode


class Review(BaseModel):
    score: int
    reasons: list[str] = []


ROW = Types.ROW_NAMED(["name", "score", "good"], [Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()])
JSON = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize("schema", [Review, ROW, JSON])
def test_it_travels_through_state_and_plan(schema):
    made = OutputSchema(output_schema=schema)
    assert decode(encode(made)) == made
    assert OutputSchema.of(made.model_dump(mode="json")) == made


def test_each_kind_gives_a_value_of_its_own():
    assert OutputSchema(Review).parse('{"score": 1}') == Review(score=1)
    row = OutputSchema(ROW).parse('{"name": "x", "score": 2, "good": true}')
    assert row == Row(name="x", score=2.0, good=True)
    assert isinstance(row["score"], float)
    assert OutputSchema(JSON).parse('{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("schema", "text", "problem"),
    [
        (Review, "nothing of the kind", "it is no JSON"),
        (Review, '{"score": "x"}', "score: Input should be a valid integer"),
        (ROW, '{"name": "x"}', "there is no score, good"),
        (ROW, '{"name": 1, "score": 2, "good": true}', "name: 1 is no string"),
        (JSON, '{"a": "x"}', "a: 'x' is not of type 'integer'"),
        (JSON, "{}", "'a' is a required property"),
    ],
)
def test_what_does_not_fit_is_said(schema, text, problem):
    with pytest.raises(StructuredOutputError) as caught:
        OutputSchema(schema).parse(text)
    assert problem in caught.value.what


@pytest.mark.parametrize(
    "text",
    ['{"a": [1]}', '```json\n{"a": [1]}\n```', 'Here you are: {"a": [1]} Good luck!', '\n```\n{"a": [1]}\n```\n'],
)
def test_json_is_found_in_what_models_say_around_it(text):
    assert json_in(text) == '{"a": [1]}'


def test_a_local_class_is_refused():
    class Local(BaseModel):
        a: int

    with pytest.raises(NotSerializableError, match="local class"):
        OutputSchema(Local)


def test_a_column_without_a_json_type_is_refused():
    with pytest.raises(NotSerializableError, match="'when'"):
        OutputSchema(Types.ROW_NAMED(["when"], [Types.SQL_TIMESTAMP()]))


def test_the_strict_form_requires_every_property_and_allows_no_other():
    held = strict(Review.model_json_schema())
    assert held["required"] == ["score", "reasons"]
    assert held["additionalProperties"] is False
    assert "default" not in held["properties"]["reasons"]
    assert strict({"type": "object", "additionalProperties": {"type": "string"}}) is None
