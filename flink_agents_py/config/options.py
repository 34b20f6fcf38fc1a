"""The options the framework knows."""

from __future__ import annotations

import difflib
from enum import Enum
from functools import lru_cache
from typing import Any

from flink_agents_py.config.option import ConfigOption

_NEARLY = 0.85  # difflib ratio from which a key is taken for a mistyped one of ours


class ShortTermMemoryTtlUpdate(Enum):
    """Values of ``short-term-memory.state-ttl.update-type``: which accesses begin the life of a value anew."""

    ON_CREATE_AND_WRITE = "ON_CREATE_AND_WRITE"
    ON_READ_AND_WRITE = "ON_READ_AND_WRITE"


class ShortTermMemoryTtlVisibility(Enum):
    """Values of ``short-term-memory.state-ttl.visibility``: what is read of a value that has expired."""

    NEVER_RETURN_EXPIRED = "NEVER_RETURN_EXPIRED"
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "RETURN_EXPIRED_IF_NOT_CLEANED_UP"


class AgentOptions:
    """The options the framework knows; other keys are the user's."""

    JOB_IDENTIFIER = ConfigOption[str | None](
        "job-identifier", str, None, "Name under which durable calls are recorded; the agent's name if not given."
    )
    EXECUTION_MODE = ConfigOption[str | None](
        "execution-mode",
        str,
        None,
        "Where Python runs: in the TaskManager's process or in one of its own; chosen automatically if not given. "
        "Savepoints of one mode cannot be restored in the other.",
        choices=("thread", "process"),
    )
    TIME_BUDGET = ConfigOption(
        "time-budget", int, 50, "Time after which a callback yields, so that barriers pass.", unit="ms", minimum=1
    )
    MAX_IN_FLIGHT = ConfigOption("max-in-flight", int, 1000, "Durable calls in flight per subtask.", minimum=1)
    MAX_QUEUED = ConfigOption("max-queued", int, 1000, "Inputs waiting for their key per subtask.", minimum=1)
    NUM_ASYNC_THREADS = ConfigOption(
        "num-async-threads", int, 32, "Threads for sync functions called with durable_execute_async.", minimum=1
    )
    PUMP_INTERVAL = ConfigOption(
        "pump-interval", int, 2, "Time between two looks at finished calls.", unit="ms", minimum=1
    )
    RESUME_TIMER_INTERVAL = ConfigOption(
        "resume-timer-interval",
        int,
        2000,
        "What the timer that resumes a suspended key after a restore is rounded to.",
        unit="ms",
        minimum=1,
    )
    DURABLE_ON_MISMATCH = ConfigOption(
        "durable.on-mismatch",
        str,
        "rerun",
        "When a replayed action makes another call than the recorded one: drop the record and call, or fail the job.",
        choices=("rerun", "fail"),
    )
    DURABLE_MAX_RESULT_BYTES = ConfigOption(
        "durable.max-result-bytes",
        int,
        16 * 2**20,
        "Largest encoded result of a durable call.",
        unit="bytes",
        minimum=1,
    )
    GC_THRESHOLD = ConfigOption(
        "python-gc-threshold",
        int,
        50_000,
        "New objects between two runs of Python's garbage collector in a worker (0: leave Python's own setting). "
        "Thousands of runs in flight are live objects it would look through again and again: with Python's default "
        "that was 40 % of the operator's time.",
        minimum=0,
    )
    BUNDLE_SIZE = ConfigOption("bundle-size", int, 1000, "Records per bundle in process mode.", minimum=1)
    BUNDLE_TIME = ConfigOption(
        "bundle-time", int, 10, "Longest wait for a bundle in process mode.", unit="ms", minimum=1
    )
    HOLD_WATERMARK = ConfigOption(
        "hold-watermark",
        bool,
        True,
        "Hold the watermark back until the inputs before it are done; off only to see what windows lose without.",
    )
    UNALIGNED_CHECKPOINTS = ConfigOption(
        "unaligned-checkpoints", bool, True, "Let barriers overtake records, so that checkpoints pass backpressure."
    )
    BUFFER_TIMEOUT = ConfigOption(
        "buffer-timeout", int, 10, "Longest wait of a record in a network buffer.", unit="ms", minimum=0
    )
    SEQUENCE_CACHE_SIZE = ConfigOption(
        "state.sequence-cache-size", int, 100_000, "Keys per subtask whose last sequence number is cached.", minimum=0
    )

    SHORT_TERM_MEMORY_STATE_TTL_MS = ConfigOption(
        "short-term-memory.state-ttl.ms",
        int,
        0,
        "How long a value in short-term memory lives after its last access (0: for ever).",
        unit="ms",
        minimum=0,
    )
    SHORT_TERM_MEMORY_STATE_TTL_UPDATE_TYPE = ConfigOption(
        "short-term-memory.state-ttl.update-type",
        str,
        ShortTermMemoryTtlUpdate.ON_READ_AND_WRITE.value,
        "Which accesses begin the life of a value in short-term memory anew.",
        choices=tuple(update.value for update in ShortTermMemoryTtlUpdate),
    )
    SHORT_TERM_MEMORY_STATE_TTL_VISIBILITY = ConfigOption(
        "short-term-memory.state-ttl.visibility",
        str,
        ShortTermMemoryTtlVisibility.NEVER_RETURN_EXPIRED.value,
        "Whether a value that has expired can be read until it is cleaned up.",
        choices=tuple(visibility.value for visibility in ShortTermMemoryTtlVisibility),
    )
    MEMORY_GENERATE_EVENT = ConfigOption[bool | None](
        "memory.generate-event",
        bool,
        None,
        "Whether actions cause events about the memory they used; if not given, those that an action listens to.",
    )
    MEMORY_GENERATE_EVENT_SHORT_TERM_WRITE = ConfigOption[bool | None](
        "memory.generate-event.short-term-write", bool, None, "The same for changes of short-term memory alone."
    )
    MEMORY_GENERATE_EVENT_SHORT_TERM_READ = ConfigOption[bool | None](
        "memory.generate-event.short-term-read", bool, None, "The same for reads of short-term memory alone."
    )
    MEMORY_GENERATE_EVENT_SENSORY_WRITE = ConfigOption[bool | None](
        "memory.generate-event.sensory-write", bool, None, "The same for changes of sensory memory alone."
    )
    MEMORY_GENERATE_EVENT_SENSORY_READ = ConfigOption[bool | None](
        "memory.generate-event.sensory-read", bool, None, "The same for reads of sensory memory alone."
    )
    AGENT_RUN_BEGIN_EVENT = ConfigOption(
        "agent-run.begin-event",
        bool,
        False,
        "Whether each run begins with an event that has all of short-term memory in it.",
    )

    @classmethod
    def all(cls) -> dict[str, ConfigOption[Any]]:
        """Every option by key."""
        return {option.key: option for option in vars(cls).values() if isinstance(option, ConfigOption)}


KNOWN = AgentOptions.all()


@lru_cache(maxsize=1024)
def nearly_known(key: str) -> str | None:
    """The option of ours that ``key`` is nearly, but not quite."""
    if key in KNOWN:
        return None
    near = difflib.get_close_matches(key.lower().replace("_", "-"), KNOWN, n=1, cutoff=_NEARLY)
    return near[0] if near else None
