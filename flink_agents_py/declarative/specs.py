"""What a file of agents may say. These models are the definition; the JSON Schema beside them is made from them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from flink_agents_py.external.spec import ActionSpec
from flink_agents_py.policies import NO_RETRY, NO_TIMEOUTS, OnError, RetryPolicy, Timeouts
from flink_agents_py.resources.injection import InjectedArg
from flink_agents_py.resources.messages import MessageRole

_STRICT = ConfigDict(extra="forbid")

Name = Annotated[str, Field(min_length=1, pattern=r"\S")]
Reference = Annotated[str, Field(pattern=r"^[^\s:]+:[^\s:]+$", description="module:attribute, e.g. shop.tools:look_up")]
Trigger = Annotated[str, Field(pattern=r"\S", description="an event type, an alias of one, or a CEL expression")]
Language = Annotated[Literal["python"], Field(description="of the implementation; there is none in Java here")]


def _either(model: type[BaseModel], *names: str) -> None:
    """Say in a schema that exactly one of several keys has to be there."""
    model.model_config["json_schema_extra"] = {"oneOf": [{"required": [name]} for name in names]}
    model.model_rebuild(force=True)


def _check_one(entry: BaseModel, *names: str) -> None:
    given = [name for name in names if getattr(entry, name) is not None]
    if len(given) != 1:
        raise ValueError(f"give exactly one of {' and '.join(names)}")


class ActionEntry(BaseModel):
    """An action: a function of (event, ctx), and what triggers it."""

    model_config = _STRICT

    name: Name
    function: Reference
    trigger_conditions: list[Trigger] | None = Field(default=None, min_length=1, description="any of them triggers it")
    listen_to: list[Trigger] | None = Field(default=None, min_length=1, description="the older name of the same")
    type: Language = "python"
    config: dict[str, Any] | None = Field(default=None, description="values for ctx.get_action_config_value")
    on_error: OnError = "fail"
    retry: RetryPolicy = NO_RETRY
    timeouts: Timeouts = NO_TIMEOUTS
    aliases: list[Name] = Field(default=[], description="earlier names, under which interrupted runs know it")

    @model_validator(mode="after")
    def _triggered(self) -> ActionEntry:
        _check_one(self, "trigger_conditions", "listen_to")
        return self

    @property
    def triggers_key(self) -> str:
        """The key that the triggers are under."""
        return "trigger_conditions" if self.listen_to is None else "listen_to"

    @property
    def triggers(self) -> list[str]:
        """The triggers as they are written."""
        return self.trigger_conditions or self.listen_to or []


class DescriptorEntry(BaseModel):
    """A resource that its class builds on the worker; all other keys are arguments of the class."""

    model_config = ConfigDict(extra="allow")

    name: Name
    clazz: Name = Field(description="an alias (openai, ollama, mcp, ...), module:Class or module.Class")
    type: Language = "python"

    @property
    def arguments(self) -> dict[str, Any]:
        """What the class is called with."""
        return dict(self.__pydantic_extra__ or {})


class MessageEntry(BaseModel):
    """A message of a prompt."""

    model_config = _STRICT

    role: MessageRole = MessageRole.USER
    content: str


class Template(BaseModel):
    """A prompt: one text, or messages. {name} in it is filled in, other braces stay."""

    model_config = _STRICT

    text: str | None = None
    messages: list[MessageEntry] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one(self) -> Template:
        _check_one(self, "text", "messages")
        return self


class PromptEntry(Template):
    """A prompt with a name."""

    name: Name


class InjectedEntry(InjectedArg):
    """Where an injected argument comes from."""

    model_config = _STRICT


class ToolEntry(BaseModel):
    """A function that models may ask for."""

    model_config = _STRICT

    name: Name
    function: Reference
    type: Language = "python"
    injected_args: dict[str, InjectedEntry] = Field(default={}, description="parameters the model does not see")
    retry: RetryPolicy | None = None
    timeouts: Timeouts | None = None


class ExternalActionEntry(ActionSpec):
    """An external action, for ctx.call: the fields of an ActionSpec, and its handler."""

    handler: Reference
    parameters: dict[str, Any] | Reference | None = Field(  # type: ignore[assignment]  # a class is still to be found
        default=None, description="a JSON Schema, or module:Class of a pydantic model"
    )


class ReActEntry(BaseModel):
    """The agent is a ReActAgent: each input becomes a chat, its answer is the output."""

    model_config = _STRICT

    chat_model: Name = Field(description="name of a chat model setup")
    prompt: Template | None = None
    output_schema: dict[str, Any] | Reference | None = Field(
        default=None, description="a JSON Schema, or module:Class of a pydantic model"
    )
    max_iterations: int = Field(default=10, ge=1)
    on_error: OnError = "fail"


class SubagentEntry(BaseModel):
    """An agent of a file that this one calls, under a name of its own: ctx.call_agent(name, ...)."""

    model_config = _STRICT

    name: Name
    agent: Name = Field(description="name of an agent in this file or in another one that is loaded")


class Resources(BaseModel):
    """The sections of resources."""

    model_config = _STRICT

    chat_model_connections: list[DescriptorEntry] = []
    chat_model_setups: list[DescriptorEntry] = []
    embedding_model_connections: list[DescriptorEntry] = []
    embedding_model_setups: list[DescriptorEntry] = []
    vector_stores: list[DescriptorEntry] = []
    mcp_servers: list[DescriptorEntry] = []
    skills: list[DescriptorEntry] = []
    prompts: list[PromptEntry] = []
    tools: list[ToolEntry] = []
    external_actions: list[ExternalActionEntry] = []


def _kind(value: Any) -> str:
    return "shared" if isinstance(value, str) else "own"


SubagentOrName = Annotated[
    Annotated[SubagentEntry, Tag("own")]
    | Annotated[str, Field(min_length=1, description="the name of an agent, under which it is called"), Tag("shared")],
    Discriminator(_kind),
]


ActionOrName = Annotated[
    Annotated[ActionEntry, Tag("own")]
    | Annotated[str, Field(min_length=1, description="the name of a shared action"), Tag("shared")],
    Discriminator(_kind),
]


class AgentEntry(Resources):
    """An agent."""

    name: Name
    description: str | None = Field(default=None, description="for people; it is not in the plan")
    react: ReActEntry | None = None
    actions: list[ActionOrName] = []
    subagents: list[SubagentOrName] = Field(default=[], description="agents that this one calls")


class AgentsDocument(Resources):
    """A file: agents, and what all agents share, those of files loaded before and after among them."""

    agents: list[AgentEntry] = []
    actions: list[ActionEntry] = Field(default=[], description="actions that agents name in their own list")


_either(ActionEntry, "trigger_conditions", "listen_to")
_either(Template, "text", "messages")
_either(PromptEntry, "text", "messages")
for _model in (ReActEntry, Resources, AgentEntry, AgentsDocument):
    _model.model_rebuild(force=True)


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of files of agents."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **AgentsDocument.model_json_schema(by_alias=True, mode="validation"),
    }


def json_schema_text() -> str:
    """The content of ``agents.schema.json`` beside this module; a test holds it to :func:`json_schema`."""
    return json.dumps(json_schema(), indent=2) + "\n"
