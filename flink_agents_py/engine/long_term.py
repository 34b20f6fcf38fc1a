"""Long-term memory in the engine: what it is kept in, and what it is bound to for each action."""

from __future__ import annotations

from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from flink_agents_py.config import AgentOptions, LongTermMemoryOptions
from flink_agents_py.engine.identity import job_identity
from flink_agents_py.engine.keys import key_bytes
from flink_agents_py.errors import ConfigError, LongTermMemoryError
from flink_agents_py.events import encode_event
from flink_agents_py.long_term.items import Compaction
from flink_agents_py.long_term.memory import LongTermMemory
from flink_agents_py.long_term.scope import MemoryBackend, Scope, digest
from flink_agents_py.long_term.store import VectorStoreMemory
from flink_agents_py.long_term.tally import Tally
from flink_agents_py.long_term.upkeep import Upkeep
from flink_agents_py.plan.importing import resolve
from flink_agents_py.resources.base import ResourceType
from flink_agents_py.resources.names import ResourceName
from flink_agents_py.resources.vector_stores import ChangeableVectorStore

if TYPE_CHECKING:
    from flink_agents_py.engine.engine import Engine
    from flink_agents_py.engine.ports import CallExecutor
    from flink_agents_py.engine.task import ActionTask

_OWN = "~long-term-memory"  # name of the resources that are made where the user has none


class LongTermMemories:
    """One per engine whose actions use long-term memory, made when the first one does.

    Raises:
        ConfigError: there is no ``job-identifier``, or nothing says where items are to be kept.
    """

    def __init__(self, engine: Engine, executor: CallExecutor) -> None:
        self._engine = engine
        config = engine.config
        if config.get(AgentOptions.JOB_IDENTIFIER) is None:
            raise ConfigError(
                "long-term memory is used, but job-identifier is not set",
                where=f"agent {engine.plan.agent_name}",
                fix="set job-identifier to a name that only this job has, and keep it over upgrades: another job with "
                "an agent of that name would otherwise share its memory",
            )
        self._job = job_identity(engine.plan).encode()
        self._tally = Tally(engine.metrics.get_sub_group("longTermMemory"))
        self._compaction: Compaction | None = None
        self.upkeep: Upkeep | None = None
        self._backend = self._mem0() if config.get(LongTermMemoryOptions.BACKEND) == "mem0" else self._stored(executor)

    def of(self, task: ActionTask) -> LongTermMemory:
        """The memory of the key whose run ``task`` belongs to."""
        key = key_bytes(task.run.key)
        # With what is in the event: a job that begins anew without its state gives its runs the same ids once more.
        event = encode_event(task.event).encode()
        return LongTermMemory(
            task,
            Scope.of_key(self._job, key),
            digest(task.event.id_bytes, task.route.name.encode(), event, size=8),
            self._backend,
            self._compaction,
            ordinal=partial(_ordinal, task),
            elsewhere=self._elsewhere,
        )

    def close(self) -> None:
        """Let what goes on in the background come to its end."""
        self._backend.close()

    def _elsewhere(self) -> bool:
        return self._engine.thread != get_ident()

    def _stored(self, executor: CallExecutor) -> MemoryBackend:
        engine, config = self._engine, self._engine.config
        store = self._store()
        if not isinstance(store, ChangeableVectorStore):
            raise LongTermMemoryError(
                f"long-term memory cannot be kept in a {type(store).__name__}",
                where="option long-term-memory.vector-store",
                fix="use one that is a ChangeableVectorStore: SqliteVecVectorStore, PgVectorStore, or one of yours",
            )
        if config.get(LongTermMemoryOptions.COMPACTION):
            self._compaction = Compaction(
                max_items=config.get(LongTermMemoryOptions.COMPACTION_MAX_ITEMS),
                max_tokens=config.get(LongTermMemoryOptions.COMPACTION_MAX_TOKENS),
                keep_items=config.get(LongTermMemoryOptions.COMPACTION_KEEP_ITEMS),
                chat_model=config.get(LongTermMemoryOptions.COMPACTION_CHAT_MODEL),
            )
        collection, clock = config.get(LongTermMemoryOptions.COLLECTION), engine.clock
        self.upkeep = Upkeep(
            store,
            collection,
            lambda name: engine.plan.get_resource(name, ResourceType.CHAT_MODEL),
            executor.background,
            clock.now_ms,
            clock.monotonic_s,
            self._tally,
            concurrency=config.get(LongTermMemoryOptions.COMPACTION_CONCURRENCY),
        )
        return VectorStoreMemory(store, collection, clock.now_ms, self._tally, self.upkeep)

    def _store(self) -> Any:
        plan, config = self._engine.plan, self._engine.config
        name = config.get(LongTermMemoryOptions.VECTOR_STORE)
        if name is not None:
            return plan.get_resource(name, ResourceType.VECTOR_STORE)
        path = config.get(LongTermMemoryOptions.PATH)
        if path is None:
            raise ConfigError(
                "nothing says where long-term memory is to be kept",
                where=f"agent {plan.agent_name}",
                fix="set long-term-memory.vector-store to the name of a vector store, or long-term-memory.path to a "
                "file on the worker",
            )
        model = config.get(LongTermMemoryOptions.EMBEDDING_MODEL)
        if model is None:
            model, names = _OWN, ResourceName.EmbeddingModel
            plan.add_own_resource(_OWN, ResourceType.EMBEDDING_MODEL_CONNECTION, names.LOCAL_CONNECTION)
            plan.add_own_resource(_OWN, ResourceType.EMBEDDING_MODEL, names.LOCAL_SETUP, connection=_OWN)
        plan.add_own_resource(
            _OWN, ResourceType.VECTOR_STORE, ResourceName.VectorStore.SQLITE_VEC, path=path, embedding_model=model
        )
        return plan.get_resource(_OWN, ResourceType.VECTOR_STORE)

    def _mem0(self) -> MemoryBackend:
        opened: MemoryBackend = resolve("flink_agents_py.ext.mem0", "Mem0Memory", what="long-term-memory.backend mem0")(
            self._engine.config, self._engine.plan.get_resource, self._tally
        )
        return opened


def _ordinal(task: ActionTask) -> int:
    return len(task.calls or ())
