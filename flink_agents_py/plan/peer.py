"""Plans of Apache Flink Agents (0.3.1 and its current main), turned into the shape of ours.

Their plans list ``listen_event_types`` where newer ones have ``trigger_conditions``, may lack ``agent_name`` and
``actions_by_event``, and always contain three built-in actions for models, tools and retrieval.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from flink_agents_py.errors import FunctionNotFoundError, PlanFormatError
from flink_agents_py.plan.document import PLAN_VERSION
from flink_agents_py.plan.importing import resolve
from flink_agents_py.plan.providers import TYPE_KEY
from flink_agents_py.plan.values import to_document

_BUILT_IN_HOMES = ("flink_agents.plan.actions.", "org.apache.flink.agents.plan.actions.")
_CONFIG_TYPE = "__config_type__"
_MODEL = "__pydantic_model__"


def from_peer(document: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A plan document of ours, and the names of the built-in actions that were left out.

    Raises:
        PlanFormatError: the plan needs Java, or is none of theirs.
    """
    given = _object(document.get("actions"), "actions")
    actions, ignored = {}, []
    for name, action in given.items():
        if _is_built_in(_object(action, f"actions.{name}")):
            ignored.append(name)
        else:
            actions[name] = _action(name, action)
    providers = {
        kind: {name: _provider(kind, name, provider) for name, provider in _object(named, kind).items()}
        for kind, named in _object(document.get("resource_providers") or {}, "resource_providers").items()
    }
    translated: dict[str, Any] = {
        "plan_version": PLAN_VERSION,
        "agent_name": document.get("agent_name") or "Agent",
        "actions": actions,
        "resource_providers": {kind: named for kind, named in providers.items() if named},
    }
    config = _object(document.get("config") or {}, "config")
    conf_data = _object(config.get("conf_data") or {}, "config.conf_data")
    translated["config"] = {"conf_data": to_document(conf_data, "config.conf_data")}
    if document.get("actions_by_event") is not None:
        translated["actions_by_event"] = _without(document["actions_by_event"], ignored)
    return translated, ignored


def _is_built_in(action: dict[str, Any]) -> bool:
    function = action.get("exec") or {}
    home = str(function.get("module") or function.get("qualname") or "") + "."
    return home.startswith(_BUILT_IN_HOMES)


def _action(name: str, action: dict[str, Any]) -> dict[str, Any]:
    function = _object(action.get("exec"), f"actions.{name}.exec")
    if function.get("func_type") == "JavaFunction":
        raise PlanFormatError(
            f"action {name!r} is written in Java ({function.get('qualname')}); Java actions cannot run here",
            where=f"actions.{name}.exec",
            fix="write the action in Python, or run the plan with Apache Flink Agents",
        )
    triggers = action.get("trigger_conditions", action.get("listen_event_types"))
    return {
        "name": action.get("name", name),
        "exec": function,
        "trigger_conditions": triggers,
        "config": _config(_object(action.get("config") or {}, f"actions.{name}.config"), f"actions.{name}.config"),
    }


def _config(config: dict[str, Any], where: str) -> dict[str, Any]:
    is_java = config.get(_CONFIG_TYPE) == "java"
    values = {name: value for name, value in config.items() if name != _CONFIG_TYPE}
    return to_document(
        {name: _java(value) if is_java else _python(value, where) for name, value in values.items()}, where
    )


def _python(value: Any, where: str) -> Any:
    # A pydantic model: tagged on main; in 0.3.1 a bare [module, class, fields], which any list could be.
    if isinstance(value, dict) and value.get(_MODEL) is True:
        cls = resolve(str(value.get("module")), str(value.get("class")), what=where)
        return cls.model_validate(value.get("value"))
    if isinstance(value, list) and list(map(type, value)) == [str, str, dict]:
        try:
            cls = resolve(value[0], value[1], what=where)
        except FunctionNotFoundError:
            return value
        return cls.model_validate(value[2]) if isinstance(cls, type) and issubclass(cls, BaseModel) else value
    return value


def _java(value: Any) -> Any:
    return value["value"] if isinstance(value, dict) and "@class" in value and "value" in value else value


def _provider(kind: str, name: str, given: Any) -> dict[str, Any]:
    where = f"resource_providers.{kind}.{name}"
    provider = dict(_object(given, where))
    made_by = str(provider.get(TYPE_KEY, ""))
    if made_by.startswith("Java"):
        raise PlanFormatError(
            f"{kind} {name!r} is a Java resource; Java resources cannot run here",
            where=where,
            fix="use a Python resource, or run the plan with Apache Flink Agents",
        )
    if made_by == "PythonResourceProvider" and "descriptor" not in provider:  # before 0.2: class and kwargs in the open
        provider["descriptor"] = {
            "target_module": provider.pop("module", None),
            "target_clazz": provider.pop("clazz", None),
            "arguments": provider.pop("kwargs", {}),
        }
    if isinstance(provider.get("descriptor"), dict):
        arguments = _object(provider["descriptor"].get("arguments") or {}, f"{where}.descriptor.arguments")
        provider["descriptor"] = {**provider["descriptor"], "arguments": to_document(arguments, where)}
    return provider


def _without(actions_by_event: Any, ignored: list[str]) -> dict[str, list[str]]:
    kept = {
        event: [name for name in names if name not in ignored]
        for event, names in _object(actions_by_event, "actions_by_event").items()
    }
    return {event: names for event, names in kept.items() if names}


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PlanFormatError(
            f"{where} is {value!r:.80}, not an object",
            where=where,
            fix="pass the JSON of a compiled plan (ours, or one of Apache Flink Agents)",
        )
    return value
