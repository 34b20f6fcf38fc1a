"""The language models that ``review_analysis`` can ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flink_agents_py import ResourceDescriptor, ResourceName, ResourceType

MODELS = ResourceName.ChatModel
CONNECTIONS = {
    "openai": (MODELS.OPENAI_COMPLETIONS_CONNECTION, MODELS.OPENAI_COMPLETIONS_SETUP),
    "anthropic": (MODELS.ANTHROPIC_CONNECTION, MODELS.ANTHROPIC_SETUP),
    "ollama": (MODELS.OLLAMA_CONNECTION, MODELS.OLLAMA_SETUP),
}


def model_resources(model: str | None, base_url: str | None) -> Iterator[tuple[str, ResourceType, ResourceDescriptor]]:
    """Name, type and descriptor of each resource that the model ``PROVIDER:NAME`` (or ``local``) needs."""
    if model is None:
        return
    connection: dict[str, Any] = {} if base_url is None else {"base_url": base_url}
    if model == "local":
        connection_class, setup_class = MODELS.LOCAL_CONNECTION, MODELS.OPENAI_COMPLETIONS_SETUP
        setup: dict[str, Any] = {"model": "local", "temperature": 0, "max_tokens": 60}
    else:
        provider, _, name = model.partition(":")
        connection_class, setup_class = CONNECTIONS[provider]
        setup = {"model": name}
    yield "model", ResourceType.CHAT_MODEL_CONNECTION, ResourceDescriptor(connection_class, **connection)
    yield "judge", ResourceType.CHAT_MODEL, ResourceDescriptor(setup_class, connection="model", **setup)
