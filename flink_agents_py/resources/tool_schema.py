"""What a model is told of a function: name, description and a schema, from signature, annotations and docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.fields import FieldInfo

from flink_agents_py.errors import SignatureError

_DROPPED = ("title", "additionalProperties")


def arguments_model(func: Callable[..., Any], hidden: Collection[str] = ()) -> type[BaseModel]:
    """A pydantic model of the arguments of ``func`` without the ``hidden`` ones.

    Raises:
        SignatureError: it takes ``*args``, or its annotations cannot be evaluated.
    """
    _, parts = described(func)
    name = getattr(func, "__name__", type(func).__name__)
    try:
        hints = get_type_hints(func, include_extras=True)
    except Exception as error:
        raise SignatureError(
            f"the annotations of the tool cannot be evaluated: {error}",
            where=f"tool {name}",
            fix="import what they name at run time, not only under TYPE_CHECKING",
        ) from error
    fields: dict[str, Any] = {}
    extra: Literal["allow", "forbid"] = "forbid"
    for parameter in inspect.signature(func).parameters.values():
        if parameter.name in hidden or parameter.name in {"self", "idempotency_key"}:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise SignatureError(
                f"the tool takes {parameter}, but a model gives arguments by name",
                where=f"tool {name}",
                fix="give each argument a name",
            )
        fields[parameter.name] = _field(parameter, hints.get(parameter.name, Any), parts.get(parameter.name))
    return create_model(name, __config__=ConfigDict(extra=extra), **fields)


def json_schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of arguments, without what only costs tokens."""
    schema = model.model_json_schema()
    for name in _DROPPED:
        schema.pop(name, None)
    schema.setdefault("properties", {})
    for entry in schema["properties"].values():
        entry.pop("title", None)
    return schema


def described(func: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Description and descriptions of parameters, from the docstring.

    Without the library docstring-parser (extra ``tools``) the whole docstring is the description.
    """
    text = inspect.getdoc(func) or ""
    try:
        import docstring_parser
    except ImportError:
        return text, {}
    parsed = docstring_parser.parse(text)
    return parsed.description or "", {part.arg_name: part.description or "" for part in parsed.params}


def _field(parameter: inspect.Parameter, annotation: Any, description: str | None) -> tuple[Any, Any]:
    default = ... if parameter.default is parameter.empty else parameter.default
    if isinstance(default, FieldInfo):
        return annotation, default
    if get_origin(annotation) is Annotated:
        kind, *notes = get_args(annotation)
        words = [note for note in notes if isinstance(note, str)]
        kept = [note for note in notes if not isinstance(note, str)]
        given = next((note.description for note in kept if isinstance(note, FieldInfo)), None)
        description = words[0] if words else given or description
        for note in kept:
            kind = Annotated[kind, note]
        annotation = kind
    return annotation, FieldInfo(default=default, description=description)
