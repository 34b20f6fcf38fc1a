"""Opens the store that the configuration names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from flink_agents_py.config import AgentConfiguration, AgentOptions
from flink_agents_py.errors import ConfigError
from flink_agents_py.stores.failures import PASSWORD_VARIABLE, USER_VARIABLE, Credentials
from flink_agents_py.stores.retrying import RetryingStore

if TYPE_CHECKING:
    from flink_agents_py.stores.store import ActionStateStore

__all__ = ["PASSWORD_VARIABLE", "USER_VARIABLE", "make_store", "open_store"]


def open_store(
    config: AgentConfiguration, job: str, environ: Mapping[str, str] | None = None
) -> ActionStateStore | None:
    """The store of ``config``, open for ``job`` and retrying by its options; ``None`` if it names none.

    Args:
        config: has the options ``action-state-store.*``.
        job: the job identifier.
        environ: where credentials are read from; the variables of this process if not given.

    Raises:
        ConfigError: the options do not fit each other, or the client library is not installed.
        StoreError: the store does not answer.
    """
    made = make_store(config, environ)
    if made is None:
        return None
    store = RetryingStore(
        made,
        max_attempts=config.get(AgentOptions.ACTION_STATE_STORE_MAX_ATTEMPTS),
        interval_ms=config.get(AgentOptions.ACTION_STATE_STORE_RETRY_INTERVAL),
    )
    try:
        store.open(job)
    except BaseException:
        store.close()
        raise
    return store


def make_store(config: AgentConfiguration, environ: Mapping[str, str] | None = None) -> ActionStateStore | None:
    """As :func:`open_store`, but not open yet."""
    backend = config.get(AgentOptions.ACTION_STATE_STORE_BACKEND)
    if backend == "none":
        return None
    url = config.get(AgentOptions.ACTION_STATE_STORE_URL)
    if not url:
        raise ConfigError(
            f"action-state-store.backend is {backend!r}, but action-state-store.url is not set",
            fix="set it, for instance to " + _EXAMPLES[backend],
        )
    if backend == "sqlite":
        return _sqlite(config, url)
    # The client libraries are extras; they are loaded when their store is asked for.
    credentials = Credentials.from_environment(os.environ if environ is None else environ)
    namespace = config.get(AgentOptions.ACTION_STATE_STORE_NAMESPACE)
    timeout_ms = config.get(AgentOptions.ACTION_STATE_STORE_TIMEOUT)
    if backend == "postgres":
        from flink_agents_py.stores.postgres import PostgresStore

        return PostgresStore(url, credentials=credentials, namespace=namespace, timeout_ms=timeout_ms)
    if backend == "kafka":
        from flink_agents_py.stores.kafka import KafkaStore

        return KafkaStore(
            url,
            credentials=credentials,
            topic=namespace,
            timeout_ms=timeout_ms,
            partitions=config.get(AgentOptions.ACTION_STATE_STORE_KAFKA_PARTITIONS),
            replication=config.get(AgentOptions.ACTION_STATE_STORE_KAFKA_REPLICATION),
        )
    from flink_agents_py.stores.redis import RedisStore

    return RedisStore(url, credentials=credentials, namespace=namespace, timeout_ms=timeout_ms)


_EXAMPLES = {
    "sqlite": "/var/lib/agents/state.db",
    "postgres": "postgresql://host/database",
    "redis": "redis://host:6379/0",
    "kafka": "kafka://host1:9092,host2:9092",
}


def _sqlite(config: AgentConfiguration, url: str) -> ActionStateStore:
    from flink_agents_py.stores.sqlite import SqliteStore

    path = Path(url.removeprefix("sqlite://"))
    if not path.is_absolute():
        raise ConfigError(
            f"action-state-store.url is the relative path {url!r}",
            fix="give an absolute one: workers do not run in the folder the job is submitted from",
        )
    return SqliteStore(
        path,
        synchronous=config.get(AgentOptions.ACTION_STATE_STORE_SQLITE_SYNCHRONOUS),
        timeout_ms=config.get(AgentOptions.ACTION_STATE_STORE_TIMEOUT),
    )
