"""The action state store of a run: a file, or a server that is started for it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

STORES = ("none", "sqlite", "postgres", "redis")


def store_url(name: str, folder: Path, stack: ExitStack) -> str | None:
    """Where the store is; a server is stopped with ``stack``, its password is in the environment until then."""
    if name == "none":
        return None
    if name == "sqlite":
        return str(folder / "state.db")
    # The tests know how to start servers of what is installed; the jobs are no part of the package either.
    from flink_agents_py.stores.factory import PASSWORD_VARIABLE, USER_VARIABLE
    from tests.stores.servers import PASSWORD, postgres_server, redis_server

    url = stack.enter_context(postgres_server() if name == "postgres" else redis_server())
    credentials = {PASSWORD_VARIABLE: PASSWORD, **({USER_VARIABLE: "agents"} if name == "postgres" else {})}
    os.environ.update(credentials)
    for variable in credentials:
        stack.callback(os.environ.pop, variable, None)
    return url
