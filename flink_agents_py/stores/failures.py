"""The errors stores raise, said the same way by all of them."""

from __future__ import annotations

from flink_agents_py.errors import FencedError, StoreError


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
