"""What shape a model's answer is to have, as something the plan and events can carry."""

from __future__ import annotations

import importlib
import json
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from flink_agents_py.errors import FunctionNotFoundError, NotSerializableError, StructuredOutputError

_JSON_TYPES = {
    "STRING": {"type": "string"},
    "BOOLEAN": {"type": "boolean"},
    **{kind: {"type": "integer"} for kind in ("BYTE", "SHORT", "INT", "LONG", "BIG_INT")},
    **{kind: {"type": "number"} for kind in ("FLOAT", "DOUBLE", "BIG_DEC")},
}


class OutputSchema(BaseModel):
    """The shape of an answer: a pydantic model, a row type of PyFlink (``Types.ROW_NAMED``) or a JSON Schema.

    Raises:
        NotSerializableError: the model is a local class, or a column of the row type is of a type that JSON has not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["model", "row", "json"]
    module: str = ""
    clazz: str = ""
    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    json_schema: dict[str, Any] = {}

    def __init__(self, output_schema: Any = None, **fields: Any) -> None:
        super().__init__(**(fields if output_schema is None else _fields_of(output_schema)))

    @classmethod
    def of(cls, schema: Any) -> OutputSchema | None:
        """``schema`` as an :class:`OutputSchema`; ``None`` stays ``None``."""
        if schema is None or isinstance(schema, OutputSchema):
            return schema
        if isinstance(schema, dict) and "kind" in schema and set(schema) <= set(cls.model_fields):
            return cls.model_validate(schema)
        return cls(schema)

    @property
    def output_schema(self) -> Any:
        """The pydantic model, the names of the row's fields, or the JSON Schema."""
        if self.kind == "model":
            return self._model()
        return self.names if self.kind == "row" else self.json_schema

    @property
    def name(self) -> str:
        """A name for it, as providers want one."""
        return self.clazz.rpartition(".")[2] if self.kind == "model" else "answer"

    def schema_dict(self) -> dict[str, Any]:
        """The shape as JSON Schema."""
        return self.json_schema

    def parse(self, text: str) -> Any:
        """The answer as an instance of the model, a ``Row``, or plain JSON.

        Raises:
            StructuredOutputError: it does not fit; the message says where, for the model to repair it.
        """
        try:
            value = json.loads(json_in(text))
        except ValueError as error:
            raise _misfit(f"it is no JSON: {error}", text) from None
        if self.kind == "model":
            try:
                return self._model().model_validate(value)
            except ValidationError as error:
                problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in error.errors())
                raise _misfit(problems, text) from None
        if self.kind == "row":
            return self._row(value, text)
        problem = _json_problem(json.dumps(self.json_schema), value)
        if problem:
            raise _misfit(problem, text)
        return value

    def _model(self) -> type[BaseModel]:
        found: type[BaseModel] = _find(self.module, self.clazz)
        return found

    def _row(self, value: Any, text: str) -> Any:
        missing = [name for name in self.names if not isinstance(value, dict) or name not in value]
        if missing:
            raise _misfit(f"there is no {', '.join(missing)}", text)
        for name, kind in zip(self.names, self.types, strict=True):
            wanted = _JSON_TYPES[kind]["type"]
            if value[name] is not None and not _is(value[name], wanted):
                raise _misfit(f"{name}: {value[name]!r} is no {wanted}", text)
        columns = {
            name: float(value[name])
            if _JSON_TYPES[kind]["type"] == "number" and value[name] is not None
            else value[name]
            for name, kind in zip(self.names, self.types, strict=True)
        }
        # pyflink is there where rows are asked for; the api modules themselves do without it.
        return importlib.import_module("pyflink.common").Row(**columns)


def json_in(text: str) -> str:
    """The JSON in an answer: without a code fence, a preamble or a farewell around it."""
    text = text.strip()
    if text.startswith("```"):
        text = text.split("\n", 1)[-1].rsplit("```", 1)[0].strip()
    starts = [place for place in (text.find("{"), text.find("[")) if place >= 0]
    if starts and text[:1] not in {"{", "["}:
        text = text[min(starts) :]
    if text[:1] in {"{", "["}:
        end = text.rfind("}" if text[0] == "{" else "]")
        if end > 0:
            text = text[: end + 1]
    return text


def _fields_of(schema: Any) -> dict[str, Any]:
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        if "<" in schema.__qualname__:
            raise NotSerializableError(
                f"the output schema {schema.__qualname__} is a local class, which no worker can import",
                where="output_schema",
                fix="define it at module level, or give its JSON Schema: output_schema=Model.model_json_schema()",
            )
        return {
            "kind": "model",
            "module": schema.__module__,
            "clazz": schema.__qualname__,
            "json_schema": schema.model_json_schema(),
        }
    if hasattr(schema, "get_field_names") and hasattr(schema, "get_field_types"):
        names = tuple(schema.get_field_names())
        types = tuple(_basic(field, name) for field, name in zip(schema.get_field_types(), names, strict=True))
        json_schema = {
            "type": "object",
            "properties": {name: _JSON_TYPES[kind] for name, kind in zip(names, types, strict=True)},
            "required": list(names),
        }
        return {"kind": "row", "names": names, "types": types, "json_schema": json_schema}
    if isinstance(schema, dict):
        return {"kind": "json", "json_schema": schema}
    raise NotSerializableError(
        f"{schema!r} is no output schema",
        where="output_schema",
        fix="give a pydantic model, a row type (Types.ROW_NAMED) or a JSON Schema",
    )


def _basic(field: Any, name: str) -> str:
    kind = getattr(getattr(field, "_basic_type", None), "name", "")
    if kind not in _JSON_TYPES:
        raise NotSerializableError(
            f"the field {name!r} of the row type is a {field}, which has no JSON type",
            where="output_schema",
            fix=f"use one of {', '.join(sorted(_JSON_TYPES))}, or a pydantic model",
        )
    return kind


@lru_cache(maxsize=256)
def _find(module: str, clazz: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
        for part in clazz.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise FunctionNotFoundError(
            f"the output schema {module}:{clazz} is not here: {error}",
            where="output_schema",
            fix="define it in a module that the workers can import, or give its JSON Schema",
        ) from error
    return found


def _is(value: Any, kind: str) -> bool:
    kinds = {"string": str, "boolean": bool, "integer": int, "number": (int, float)}
    return isinstance(value, kinds[kind]) and (kind == "boolean" or not isinstance(value, bool))  # type: ignore[arg-type]


def _json_problem(schema: str, value: Any) -> str:
    try:
        jsonschema = importlib.import_module("jsonschema")
    except ImportError:
        wanted = json.loads(schema)
        missing = [name for name in wanted.get("required", ()) if not isinstance(value, dict) or name not in value]
        return f"there is no {', '.join(missing)}" if missing else ""
    error = next(jsonschema.Draft202012Validator(json.loads(schema)).iter_errors(value), None)
    return "" if error is None else f"{'.'.join(map(str, error.absolute_path)) or 'answer'}: {error.message}"


def _misfit(problem: str, text: str) -> StructuredOutputError:
    return StructuredOutputError(
        f"the answer does not fit the output schema: {problem}",
        where=f"answer {text[:200]!r}",
        fix="see whether the schema is simple enough for the model, or use a model that offers structured output",
    )
