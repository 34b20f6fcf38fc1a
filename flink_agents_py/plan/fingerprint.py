"""A digest of what a plan means: the same in every process, other as soon as a run could go another way.

It covers the agent's name, the actions in their order (triggers, function, configuration, failure policies) and the
resources. It does not cover the configuration of the job, nor the bytes of pickled functions, which differ from process
to process; these count by what they do (:mod:`flink_agents_py.plan.codedigest`). Functions found by name count by
their name: a plan does not know the code behind it.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any


def fingerprint(
    agent_name: str,
    actions: list[dict[str, Any]],
    resource_providers: dict[str, Any],
    external: dict[str, Any] | None = None,
    agents: dict[str, str] | None = None,
) -> str:
    """Hex digest of the parts of a plan's JSON that matter."""
    meaning: list[Any] = [
        agent_name,
        [{**action, "exec": _without_pickle(action["exec"])} for action in actions],
        {
            kind: {name: _without_pickles(provider) for name, provider in named.items()}
            for kind, named in resource_providers.items()
        },
    ]
    if external is not None:
        meaning.append(external)
    if agents:
        meaning.append({"agents": agents})
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _without_pickles(provider: dict[str, Any]) -> dict[str, Any]:
    fields = provider.get("serialized")
    if not isinstance(fields, dict):
        return provider
    kept = {
        name: _without_pickle(value) if isinstance(value, dict) and "func_type" in value else value
        for name, value in fields.items()
    }
    return {**provider, "serialized": kept}


def _without_pickle(function: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in function.items() if name != "pickled"}
