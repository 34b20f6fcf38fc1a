"""Whether a plan would find what it needs where this runs: functions, classes, secrets, extras, and if asked servers.

Nothing of it is run: actions are imported, resources are built. Those that come with the package are opened too, which
contacts nobody; what ``open`` of other resources does is not known, so it is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flink_agents_py.errors import FlinkAgentsError
from flink_agents_py.host import loop
from flink_agents_py.plan.resources import ResourceCache
from flink_agents_py.resources.base import ResourceType
from flink_agents_py.resources.chat_models import BaseChatModelSetup
from flink_agents_py.resources.secrets import redact

if TYPE_CHECKING:
    from flink_agents_py.plan.action import PlanAction
    from flink_agents_py.plan.plan import AgentPlan
    from flink_agents_py.resources.mcp import BaseMCPServer


@dataclass(frozen=True)
class Finding:
    """What came of looking at one thing.

    Args:
        subject: as errors call it, ``action 'ask'``.
        ok: ``None`` if it was not looked at.
        said: what was found, or what is wrong.
        fix: what to do about it.
    """

    subject: str
    ok: bool | None
    said: str
    fix: str = ""


class PlanCheck:
    """Looks at everything in a plan; :attr:`findings` has what came of it.

    Args:
        patience_s: for the answer of each server that is contacted.
    """

    def __init__(self, *, patience_s: float = 10.0) -> None:
        self.findings: list[Finding] = []
        self._patience_s = patience_s
        self._told: dict[str, str] = {}

    def read(self, load: Callable[[], AgentPlan]) -> AgentPlan | None:
        """The plan, if it can be read or compiled."""
        plan: AgentPlan | None = None

        def look() -> str:
            nonlocal plan
            plan = load()
            more = f"; left out: {', '.join(plan.ignored)}" if plan.ignored else ""
            return f"agent {plan.agent_name}, {len(plan.actions)} actions, fingerprint {plan.fingerprint[:12]}{more}"

        self._look("plan", look)
        return plan

    def check(self, plan: AgentPlan, *, connect: bool) -> None:
        """Look at actions, external actions and resources.

        Args:
            connect: ask MCP servers for their tools.
        """
        for action in plan.actions.values():
            self._look(f"action {action.name!r}", lambda action=action: _loaded(action))  # type: ignore[misc]
        for name, external in ({} if plan.external is None else plan.external.actions).items():
            handler = external.handler
            self._look(
                f"external action {name!r}",
                lambda handler=handler, name=name: _name_of(handler.load(name)),  # type: ignore[misc]
            )
        resources = _Unopened(plan.resource_providers, plan.config)
        background = loop.acquire()
        try:
            for kind, named in plan.resource_providers.items():
                for name, provider in named.items():
                    self._look(
                        provider.label,
                        lambda name=name, kind=kind: _name_of(type(resources.get(name, kind))),  # type: ignore[misc]
                    )
            self._servers(plan, resources, background.loop, connect=connect)
        finally:
            try:
                self._look_closely(resources.close)
            finally:
                loop.release()

    def _servers(
        self, plan: AgentPlan, resources: ResourceCache, event_loop: asyncio.AbstractEventLoop, *, connect: bool
    ) -> None:
        def ask(question: Coroutine[Any, Any, str]) -> str:
            asked = asyncio.run_coroutine_threadsafe(asyncio.wait_for(question, self._patience_s), event_loop)
            try:
                return asked.result()
            except (TimeoutError, asyncio.TimeoutError):
                raise TimeoutError(f"no answer within {self._patience_s:g} s") from None

        names = [name for name in resources.names(ResourceType.MCP_SERVER) if self._built(resources, name)]
        if not connect:
            for name in names:
                self.findings.append(Finding(f"tools of mcp_server {name!r}", None, "not asked for; --connect does"))
            return
        for name in names:
            server = resources.get(name, ResourceType.MCP_SERVER)
            self._look(f"tools of mcp_server {name!r}", lambda server=server: ask(_offer(server)))  # type: ignore[misc]
        for name in plan.resource_providers.get(ResourceType.CHAT_MODEL, ()):
            setup = self._built(resources, name, ResourceType.CHAT_MODEL)
            if isinstance(setup, BaseChatModelSetup) and setup.asks_servers:
                self._look(f"tools of chat_model {name!r}", lambda setup=setup: ask(_wanted(setup)))  # type: ignore[misc]

    def _built(self, resources: ResourceCache, name: str, kind: ResourceType = ResourceType.MCP_SERVER) -> Any:
        try:
            return resources.get(name, kind)
        except Exception:  # noqa: BLE001 - it has been told
            return None

    def _look(self, subject: str, look: Callable[[], str]) -> None:
        try:
            said = look()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what was looked for
            said, fix = _words(error)
            first = self._told.setdefault(said, subject)
            if first != subject:
                said, fix = f"because of {first}", ""
            self.findings.append(Finding(subject, False, said, fix))
        else:
            self.findings.append(Finding(subject, True, said))

    def _look_closely(self, close: Callable[[], None]) -> None:
        try:
            close()
        except Exception as error:  # noqa: BLE001
            self.findings.append(Finding("closing the resources", False, *_words(error)))


class _Unopened(ResourceCache):
    """Opens what comes with the package alone."""

    def _open(self, resource: Any) -> None:
        opener = getattr(type(resource), "open", None)
        if getattr(opener, "__module__", "").startswith("flink_agents_py."):
            super()._open(resource)


def _loaded(action: PlanAction) -> str:
    _ = action.callable, action.event_classes, action.config
    for condition in action.conditions:
        condition.program(f"action {action.name!r}")
    by_value = ", travels by value" if action.exec.is_by_value else ""
    return f"{action.exec.module}:{action.exec.qualname}{by_value}"


def _name_of(thing: Any) -> str:
    cls = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{cls.__module__}:{cls.__qualname__}"


async def _offer(server: BaseMCPServer) -> str:
    tools = ", ".join(tool.name for tool in await server.alist_tools()) or "no tools"
    try:
        prompts = ", ".join(await server.alist_prompts())
    except Exception:  # noqa: BLE001 - many servers have tools alone, and refuse to be asked for more
        prompts = ""
    return f"it answers: {tools}{f'; prompts: {prompts}' if prompts else ''}"


async def _wanted(setup: BaseChatModelSetup) -> str:
    missing = await setup.amissing()
    if missing:
        raise LookupError(f"no MCP server of the agent has {', '.join(missing)}")
    return "its MCP servers have what it names"


def _words(error: Exception) -> tuple[str, str]:
    if isinstance(error, FlinkAgentsError):
        where = f" ({error.where})" if error.where else ""
        return redact(f"{error.code} {error.what}{where}"), redact(error.fix or "")
    return redact(f"{type(error).__name__}: {error}"), ""
