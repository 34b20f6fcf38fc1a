"""The external actions of a plan: specs as they are, handlers by name, or by value where nobody could import them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from flink_agents_py.errors import DuplicateNameError, NotSerializableError, UntrustedCodeError
from flink_agents_py.external.bindings import Bindings, resolve_handler
from flink_agents_py.external.registry import ActionRegistry, Registration
from flink_agents_py.external.spec import ActionSpec
from flink_agents_py.external.specfile import WatchedFile
from flink_agents_py.external.validation import check_of
from flink_agents_py.plan.codedigest import code_digest
from flink_agents_py.plan.functions import PickledCode, not_picklable, untrusted
from flink_agents_py.plan.importing import found_elsewhere

if TYPE_CHECKING:
    from typing_extensions import Self


class HandlerDocument(BaseModel):
    """Where a handler is found."""

    model_config = ConfigDict(extra="forbid")

    reference: str | None = Field(default=None, description="module:attr of an object, a function or a class")
    pickled: PickledCode | None = Field(default=None, description="a handler that travels by value")
    code_digest: str | None = Field(default=None, description="digest of what a by-value function does")

    _handler: Any = PrivateAttr(default=None)

    @classmethod
    def of(cls, handler: Any, name: str) -> Self:
        """Refer to a handler by name if another process can import it, else pickle it.

        Raises:
            NotSerializableError: neither works.
        """
        if isinstance(handler, str):
            return cls(reference=handler)
        module, qualname = getattr(handler, "__module__", None), getattr(handler, "__qualname__", None)
        if found_elsewhere(module, qualname, handler):
            document = cls(reference=f"{module}:{qualname}")
        else:
            try:
                digest = code_digest(handler) if hasattr(handler, "__code__") else None
                document = cls(pickled=PickledCode.of(handler), code_digest=digest)
            except Exception as error:
                raise not_picklable(error, where=f"handler of external action {name!r}") from error
        document._handler = handler
        return document

    def load(self, name: str) -> Any:
        """The handler.

        Raises:
            FunctionNotFoundError: it is not here.
        """
        if self._handler is not None:
            return self._handler
        if self.pickled is not None:
            return self.pickled.load(f"handler of external action {name!r}")
        return resolve_handler(self.reference or "", name)


class ExternalAction(BaseModel):
    """One external action: its spec and its handler."""

    model_config = ConfigDict(extra="forbid")

    spec: ActionSpec
    handler: HandlerDocument


class ExternalActionsDocument(BaseModel):
    """The external actions an agent may call."""

    model_config = ConfigDict(extra="forbid")

    actions: dict[str, ExternalAction] = {}
    watch: str | None = Field(default=None, description="file whose actions replace these while the job runs")
    watch_interval_s: float = Field(default=5.0, gt=0, description="seconds between two looks at it")

    @classmethod
    def of(cls, registries: Iterable[ActionRegistry]) -> Self | None:
        """All actions of several registries; ``None`` if there is no registry.

        Raises:
            DuplicateNameError: two registries have an action of one name, or watch a file each.
            NotSerializableError: a handler cannot travel.
            AgentDefinitionError: a schema is none.
        """
        document: Self | None = None
        seen: set[int] = set()
        for registry in registries:
            if id(registry) in seen:
                continue  # the environment and the agent may have the same one
            seen.add(id(registry))
            document = document or cls()
            for registration in registry:
                document.add(registration)
            if registry.watch is not None:
                if document.watch not in (None, registry.watch):
                    raise DuplicateNameError(
                        f"two files are watched: {document.watch} and {registry.watch}",
                        where="ActionRegistry(watch=...)",
                        fix="put all actions that may change into one file",
                    )
                document.watch, document.watch_interval_s = registry.watch, registry.watch_interval_s
        return document

    def add(self, registration: Registration) -> None:
        """Add one action; raises as :meth:`of` does."""
        name = registration.spec.name
        if name in self.actions:
            raise DuplicateNameError(
                f"external action {name!r} is in two registries",
                where="add_action_registry",
                fix="give each action its own name",
            )
        check_of(registration.spec)
        if registration.handler is None:
            raise NotSerializableError(
                f"external action {name!r} has no handler", where="ActionRegistry", fix="register it with one"
            )
        handler = HandlerDocument.of(registration.handler, name)
        self.actions[name] = ExternalAction(spec=registration.spec, handler=handler)

    def refuse_pickled(self, where: str) -> None:
        """Refuse a document nobody vouched for.

        Raises:
            UntrustedCodeError: a handler travels by value.
        """
        pickled = [name for name, action in self.actions.items() if action.handler.pickled is not None]
        if pickled:
            error: UntrustedCodeError = untrusted(pickled, where=where)
            raise error

    def bindings(self) -> Bindings:
        """The actions, ready to be called; handlers are imported here.

        Raises:
            FunctionNotFoundError: a handler is not here.
        """
        registrations = [Registration(each.spec, each.handler.load(name)) for name, each in self.actions.items()]
        watched = None if self.watch is None else WatchedFile(self.watch, self.watch_interval_s)
        return Bindings(registrations, watched)

    def to_document(self) -> dict[str, Any]:
        """As JSON has it."""
        return self.model_dump(mode="json", exclude_none=True)

    def meaning(self) -> dict[str, Any]:
        """The part that tells two plans apart: everything but the bytes of pickles."""
        document = self.to_document()
        for action in document["actions"].values():
            if action["handler"].pop("pickled", None) is not None:
                action["handler"].setdefault("code_digest", "by value")
        return document
