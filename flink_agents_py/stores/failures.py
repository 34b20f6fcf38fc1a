"""The errors stores raise, said the same way by all of them, and never with a credential in them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flink_agents_py.errors import ConfigError, FencedError, StoreError

USER_VARIABLE = "FLINK_AGENTS_PY_STORE_USER"
PASSWORD_VARIABLE = "FLINK_AGENTS_PY_STORE_PASSWORD"  # noqa: S105 - the name of the variable


@dataclass(frozen=True)
class Credentials:
    """Who a store is to be at its server; not shown by ``repr``."""

    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Credentials:
        """What the environment says, if it does."""
        return cls(environ.get(USER_VARIABLE) or None, environ.get(PASSWORD_VARIABLE) or None)

    def named(self, user: str, password: str) -> dict[str, str]:
        """Those that are given, as keyword arguments of these names."""
        return {name: value for name, value in ((user, self.user), (password, self.password)) if value}

    def hidden_in(self, text: str) -> str:
        """``text`` without the password."""
        return text.replace(self.password, "***") if self.password else text


def fenced(key: bytes, epoch: int, owner: int) -> FencedError:
    """Epoch ``epoch`` touched a key that belongs to ``owner``, a newer one."""
    return FencedError(
        f"a newer attempt of the job (epoch {owner}, this one is {epoch}) has taken over the key",
        where=f"key {key!r}",
        fix="nothing, if this attempt was given up by Flink; else see that no two jobs run under one job identifier",
    )


def not_open(operation: str) -> StoreError:
    """A method was called on a store that is not open."""
    return StoreError(f"the action state store is not open, so it cannot {operation}", fix="call open(job) first")


def failed(operation: str, error: BaseException, server: str, credentials: Credentials) -> StoreError:
    """The server, or the way to it, failed. To be raised ``from None``: the cause may know the password."""
    return StoreError(
        credentials.hidden_in(f"the action state store failed to {operation}: {type(error).__name__}: {error}"),
        where=server,
        fix="check action-state-store.url and that the server runs; credentials are read from "
        f"{USER_VARIABLE} and {PASSWORD_VARIABLE} where the workers run",
    )


def library(module: str, extra: str) -> Any:
    """Import the client library of a store.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(
            f"action-state-store.backend needs the package {module}, which is not installed here",
            fix=f"pip install 'flink-agents-py[{extra}]', on the workers too",
        ) from None
