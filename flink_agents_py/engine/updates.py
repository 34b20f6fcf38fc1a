"""Exchanges the plan of an engine while it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from flink_agents_py.engine.driver import DEAD_LETTERS
from flink_agents_py.engine.run import Run
from flink_agents_py.errors import FlinkAgentsError
from flink_agents_py.external.filewatch import Unchanged
from flink_agents_py.plan.updates import read_update

if TYPE_CHECKING:
    from flink_agents_py.engine.engine import Engine
    from flink_agents_py.engine.memories import Memories
    from flink_agents_py.engine.versions import PlanVersions
    from flink_agents_py.external.filewatch import FileWatch
    from flink_agents_py.plan.updates import PlanFile

log = logging.getLogger("flink_agents_py.engine")

PLAN_LETTER_KIND = "plan"


class PlanUpdates:
    """New versions of a plan, from a file that is watched or from whoever calls :meth:`offer`.

    What is refused leaves what was in force in force, is counted, logged, and goes to the dead letters.

    Args:
        watch: the file; ``None`` if versions are offered.
        trust_pickled: load functions that are pickled in new versions.
    """

    def __init__(self, watch: FileWatch | None, *, trust_pickled: bool = False) -> None:
        self._watch = watch
        self._trust_pickled = trust_pickled
        self._looked_back = watch is not None

    @classmethod
    def of(cls, file: PlanFile) -> PlanUpdates:
        """Those of a file."""
        return cls(file.watch(), trust_pickled=file.trust_pickled)

    def attach(self, engine: Engine, versions: PlanVersions, memories: Memories) -> None:
        """Serve an engine."""
        self._engine = engine
        self._versions = versions
        self._memories = memories

    def look(self) -> None:
        """At the beginning of a callback: see whether there is a new version."""
        watch = self._watch
        if watch is not None:
            read = watch.changed(self._engine.clock.now_ms())
            if read is not None:
                self._take(lambda: read().decode(), watch.path)
        elif not self._looked_back:
            # What was offered to an earlier attempt is in force, and is not offered again.
            self._looked_back = True
            kept = self._versions.exchanged_before()
            if kept is not None:
                self._take(lambda: kept, "state", trusted=True)

    def offer(self, text: str, source: str) -> None:
        """A new version has come."""
        self._looked_back = True
        self._take(lambda: text, source)

    def _take(self, read: Callable[[], str], source: str, *, trusted: bool = False) -> None:
        engine, versions = self._engine, self._versions
        before = versions.current.digest
        try:
            plan = read_update(
                read(), versions.current.plan, engine.config, trust_pickled=trusted or self._trust_pickled
            )
            if not versions.adopt(plan):
                return
        except Unchanged:
            return
        except Exception as error:  # noqa: BLE001 - importing anybody's module
            self._refuse(error, source)
            return
        engine.exchanged()
        engine.stats.plan_updates += 1
        log.info(
            "agent %s: runs begin under plan %s now, from %s (before: %s)", plan.agent_name, plan.digest, source, before
        )

    def _refuse(self, error: Exception, source: str) -> None:
        engine, current = self._engine, self._versions.current
        engine.stats.plans_refused += 1
        message = str(error) if isinstance(error, FlinkAgentsError) else f"{type(error).__name__}: {error}"
        log.error(
            "a new plan of agent %s from %s is refused, %s stays in force: %s",
            current.plan.agent_name,
            source,
            current.digest,
            message,
        )
        letter = {
            "kind": PLAN_LETTER_KIND,
            "agent": current.plan.agent_name,
            "plan_version": current.digest,
            "source": source,
            "event": None,
            "error": f"{type(error).__module__}.{type(error).__qualname__}",
            "message": message,
        }
        run = Run(b"", None, 0, None, None, self._memories)  # what leaves the operator belongs to a run; this to none
        engine.effects.side_outputs.append((DEAD_LETTERS, letter, run))
