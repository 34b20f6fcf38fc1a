"""Parameters against the schema of an action: the check that comes before anything external is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flink_agents_py.errors import AgentDefinitionError, EnvironmentSetupError

if TYPE_CHECKING:
    from flink_agents_py.external.spec import ActionSpec

_MOST_PROBLEMS = 5
_MOST_TEXT = 300

Check = Callable[[Any], str | None]
"""What is wrong with parameters, in words; ``None`` if nothing is."""


def check_of(spec: ActionSpec) -> Check:
    """The check of an action's parameters.

    Raises:
        AgentDefinitionError: the schema is no JSON Schema.
        EnvironmentSetupError: there is a schema, and the library ``jsonschema`` is not installed.
    """
    schema = spec.parameters
    if schema is None:
        return _anything
    try:
        import jsonschema
    except ImportError as error:
        raise EnvironmentSetupError(
            f"external action {spec.name!r} has a parameter schema, and jsonschema is not installed here",
            where=f"ActionSpec {spec.name!r}",
            fix="pip install 'flink-agents-py[external]', here and where the TaskManagers' Python is",
        ) from error
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise AgentDefinitionError(
            f"the parameters of external action {spec.name!r} are no JSON Schema: {error.message}",
            where=f"ActionSpec {spec.name!r}, parameters{error.json_path[1:]}",
            fix="give a pydantic model class, or a JSON Schema (2020-12 unless its $schema says otherwise)",
        ) from error
    validator = kind(schema)

    def check(params: Any) -> str | None:
        problems: list[str] = []
        for problem in validator.iter_errors(params):
            if len(problems) == _MOST_PROBLEMS:
                problems.append("and more")
                break
            message = problem.message
            if len(message) > _MOST_TEXT:
                message = f"{message[:_MOST_TEXT]}..."
            problems.append(f"{problem.json_path}: {message}")
        return "; ".join(problems) or None

    return check


def _anything(_: Any) -> str | None:
    return None
