"""The resources of one worker: built when first asked for, once, and closed in reverse order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from flink_agents_py.config import AgentConfiguration
from flink_agents_py.errors import ResourceCycleError, UnknownResourceError
from flink_agents_py.metrics import MetricGroup
from flink_agents_py.plan.providers import DescribedResource, DescriptorDocument, PlainResource
from flink_agents_py.resources.base import Resource, ResourceType

_log = logging.getLogger(__name__)

Providers = dict[ResourceType, dict[str, DescribedResource | PlainResource]]
Id = tuple[ResourceType, str]


class ResourceCache:
    """Builds resources from providers. Calls may come from worker threads, so building is under a lock.

    The lock is re-entrant: a resource asks for the ones it depends on while it is being built, on the same thread.
    """

    def __init__(self, providers: Providers, config: AgentConfiguration | None = None) -> None:
        self._providers = providers
        self.config = AgentConfiguration() if config is None else config
        self.metrics: MetricGroup | None = None  # where nobody counts
        self._own: dict[Id, DescribedResource] = {}
        self._built: dict[Id, Any] = {}
        self._in_order: list[Any] = []
        self._building: list[Id] = []
        self._lock = threading.RLock()

    def get(self, name: str, resource_type: ResourceType) -> Any:
        """The resource, built and opened at the first call.

        Raises:
            UnknownResourceError: nobody declared it.
            ResourceCycleError: it depends on itself; the message shows the circle.
        """
        key = (resource_type, name)
        try:
            return self._built[key]  # without the lock: the usual case, and a dictionary read is atomic
        except KeyError:
            pass
        with self._lock:
            if key in self._built:
                return self._built[key]
            provider = self._own.get(key) or self._providers.get(resource_type, {}).get(name)
            if provider is None:
                raise unknown_resource(self._providers, key, self._asking())
            if key in self._building:
                raise resource_cycle([*self._building[self._building.index(key) :], key], self._asking())
            self._building.append(key)
            try:
                resource = provider.provide(self)
                if self.metrics is not None and isinstance(resource, Resource):
                    group = self.metrics.get_sub_group("resource", resource_type.value).get_sub_group("name", name)
                    resource.set_metric_group(group)
                self._open(resource)
            finally:
                self._building.pop()
            self._in_order.append(resource)
            self._built[key] = resource
            return resource

    def _open(self, resource: Any) -> None:
        opener = getattr(resource, "open", None)
        if callable(opener):
            opener()

    def get_resource(self, name: str, type: ResourceType) -> Any:
        """The same, as resources call it."""
        return self.get(name, type)

    def add_own(self, name: str, type: ResourceType, clazz: str, arguments: dict[str, Any]) -> None:
        """Add a resource of the framework's own: ``clazz`` is ``module:QualName``, the arguments are plain."""
        module, _, path = clazz.partition(":")
        descriptor = DescriptorDocument(target_module=module, target_clazz=path, arguments=arguments)
        self._own[type, name] = DescribedResource(name=name, type=type, descriptor=descriptor)

    def names(self, type: ResourceType) -> list[str]:
        """Names of the declared resources of a type."""
        return list(self._providers.get(type, ()))

    def close(self) -> None:
        """Close what was built, last first; all of them, then raise the first error.

        A resource asked for later is built anew.
        """
        with self._lock:
            resources, self._in_order = self._in_order, []
            self._built = {}
        errors: list[Exception] = []
        for resource in reversed(resources):
            closer: Callable[[], None] | None = getattr(resource, "close", None)
            if not callable(closer):
                continue
            try:
                closer()
            except Exception as error:  # noqa: BLE001 - one that fails must not keep the others open
                if errors:
                    _log.exception("closing %s failed too", type(resource).__name__)
                errors.append(error)
        if errors:
            raise errors[0]

    def _asking(self) -> str:
        return f"needed by {label(self._building[-1])}" if self._building else "get_resource"


def label(key: Id) -> str:
    """How errors call a resource."""
    return f"{key[0].value} {key[1]!r}"


def unknown_resource(providers: Providers, key: Id, where: str) -> UnknownResourceError:
    """The error for a name nobody declared; it lists the names there are."""
    of_type = sorted(providers.get(key[0], {}))
    if of_type:
        there = f"declared are: {', '.join(map(repr, of_type))}"
    else:
        others = sorted(label((kind, name)) for kind, named in providers.items() for name in named)
        there = f"no {key[0].value} is declared; declared are: {', '.join(others) or 'no resources at all'}"
    return UnknownResourceError(
        f"there is no {label(key)}", where=where, fix=f"declare it or correct the name; {there}"
    )


def resource_cycle(circle: list[Id], where: str) -> ResourceCycleError:
    """The error for resources that need each other."""
    return ResourceCycleError(
        f"resources depend on each other in a circle: {' -> '.join(map(label, circle))}",
        where=where,
        fix="break the circle, e.g. ask for the resource when it is used instead of in the constructor",
    )
