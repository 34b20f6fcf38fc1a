"""The workloads: what each one measures, against which raw program, and how many records fit a short run."""

from __future__ import annotations

from dataclasses import dataclass

CALL_S = 0.1
"""How long the call of the ``io`` workloads takes, seconds."""

MEMORY_FIELDS = tuple(f"profile.counts.n{number}" for number in range(10))
"""The fields of ``memory10``."""

POOL_THREADS = 256
"""Size of the thread pool in ``io_sync_pool``, the same for both engines."""


@dataclass(frozen=True)
class Workload:
    """One thing to measure.

    Args:
        name: as given on the command line.
        raw: name of the raw program it is compared with.
        n: default number of records by execution mode, so that one run ends in well under 40 s on two cores.
        keys: default number of keys.
        makes_calls: each record waits for a call, so in-flight and latency figures are reported as well.
        uses_memory: state operations per record are counted and reported as well.
    """

    name: str
    raw: str
    n: dict[str, int]
    keys: int = 1000
    makes_calls: bool = False
    uses_memory: bool = False


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("echo", raw="echo", n={"thread": 200_000, "process": 100_000}),
        # A chain of three does no more *for the stream* than an echo: the floor is against raw echo.
        Workload("chain3", raw="echo", n={"thread": 200_000, "process": 100_000}),
        # Keyed state costs a round trip per dirty key and bundle in process mode, hence the small number there.
        Workload("counter", raw="counter", n={"thread": 150_000, "process": 15_000}, uses_memory=True),
        Workload("memory10", raw="memory10", n={"thread": 30_000, "process": 2_000}, uses_memory=True),
        Workload("io", raw="io", n={"thread": 20_000, "process": 5_000}, makes_calls=True),
        Workload("io_sync_pool", raw="io_sync_pool", n={"thread": 20_000, "process": 5_000}, makes_calls=True),
        Workload("chat", raw="chat", n={"thread": 5_000, "process": 2_000}),
    )
}

DEFAULT_WORKLOADS = ("echo", "chain3", "counter")
