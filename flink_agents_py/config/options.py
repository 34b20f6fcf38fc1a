"""The options the framework knows."""

from __future__ import annotations

import difflib
import re
from enum import Enum
from functools import lru_cache
from typing import Any

from flink_agents_py.config.long_term_memory import LongTermMemoryOptions
from flink_agents_py.config.option import ConfigOption
from flink_agents_py.config.urls import refuse_credentials

_ARGUMENT = re.compile(r"[A-Z]\w*\.\w+")  # ClassName.argument: of a resource
_EVENT_TYPE_LEVEL = re.compile(r"event-log\.type\..+\.level")
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
    PLAN_ON_MISSING_ACTION = ConfigOption(
        "plan.on-missing-action",
        str,
        "fail",
        "When a run that was interrupted under another plan comes to an action that neither its own code nor this plan "
        "has: fail the job, send what the action was to handle to the dead letters, or begin the run anew.",
        choices=("fail", "dead_letter", "restart_run"),
    )
    PLAN_VERSIONS_KEPT = ConfigOption(
        "plan.versions-kept",
        int,
        10,
        "Plans kept in state for interrupted runs that began under them, beside those that runs are known to need "
        "(0: none; interrupted runs then go on under the plan the job is restored with).",
        minimum=0,
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
    UNALIGNED_CHECKPOINTS = ConfigOption[bool | None](
        "unaligned-checkpoints",
        bool,
        None,
        "Let barriers overtake records, so that checkpoints pass backpressure. Not set: in thread mode yes, in process "
        "mode only in jobs started by agents.execute(), in both not where a pipeline might stop at such a checkpoint.",
    )
    BUFFER_TIMEOUT = ConfigOption(
        "buffer-timeout", int, 10, "Longest wait of a record in a network buffer.", unit="ms", minimum=0
    )
    SEQUENCE_CACHE_SIZE = ConfigOption(
        "state.sequence-cache-size", int, 100_000, "Keys per subtask whose last sequence number is cached.", minimum=0
    )
    MEMORY_CACHE_SIZE = ConfigOption(
        "state.memory-cache-size",
        int,
        100_000,
        "Small items of short-term memory per subtask that the next run of their key need not read from state.",
        minimum=0,
    )

    ACTION_STATE_STORE_BACKEND = ConfigOption(
        "action-state-store.backend",
        str,
        "none",
        "Where finished calls and actions are recorded as they finish, not only with the next checkpoint.",
        choices=("none", "sqlite", "postgres", "redis", "kafka"),
    )
    ACTION_STATE_STORE_URL = ConfigOption[str | None](
        "action-state-store.url",
        str,
        None,
        "Its place: /path/file.db, postgresql://host/database, redis://host:6379/0, kafka://host:9092. Credentials are "
        "read from FLINK_AGENTS_PY_STORE_USER and FLINK_AGENTS_PY_STORE_PASSWORD in the environment of the workers.",
        check=refuse_credentials,
    )
    ACTION_STATE_STORE_NAMESPACE = ConfigOption(
        "action-state-store.namespace",
        str,
        "flink_agents_py",
        "What names in the store begin with: tables in PostgreSQL, keys in Redis; the name of the topic in Kafka.",
    )
    ACTION_STATE_STORE_RETENTION = ConfigOption(
        "action-state-store.retention",
        int,
        24 * 3_600_000,
        "Age from which records of finished runs are dropped; checkpoints older than this are not covered.",
        unit="ms",
        minimum=60_000,
    )
    ACTION_STATE_STORE_TIMEOUT = ConfigOption(
        "action-state-store.timeout", int, 10_000, "Longest wait for an answer of the store.", unit="ms", minimum=100
    )
    ACTION_STATE_STORE_MAX_ATTEMPTS = ConfigOption(
        "action-state-store.max-attempts",
        int,
        10,
        "How often a write that failed is tried, the first time included, before the job fails.",
        minimum=1,
    )
    ACTION_STATE_STORE_RETRY_INTERVAL = ConfigOption(
        "action-state-store.retry-interval", int, 1000, "Wait between two of those.", unit="ms", minimum=1
    )
    ACTION_STATE_STORE_SQLITE_SYNCHRONOUS = ConfigOption(
        "action-state-store.sqlite.synchronous",
        str,
        "FULL",
        "What a write to SQLite survives: FULL the loss of power, NORMAL the death of the process alone, but faster.",
        choices=("FULL", "NORMAL"),
    )
    ACTION_STATE_STORE_KAFKA_PARTITIONS = ConfigOption(
        "action-state-store.kafka.partitions",
        int,
        16,
        "Partitions of the topic, if it does not exist yet.",
        minimum=1,
    )
    ACTION_STATE_STORE_KAFKA_REPLICATION = ConfigOption[int | None](
        "action-state-store.kafka.replication",
        int,
        None,
        "Replicas of the topic, if it does not exist yet; the broker's default if not given.",
        minimum=1,
    )

    EXTERNAL_AUDIT_SIZE = ConfigOption(
        "external-actions.audit-size",
        int,
        100,
        "Calls of external actions that the audit in keyed state keeps per key (0: none; the side output has all).",
        minimum=0,
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

    EVENT_LOG_LEVEL = ConfigOption(
        "event-log.level",
        str,
        "OFF",
        "How much of events, actions and calls is written to the event log: nothing, shortened, or everything. "
        "event-log.type.<EVENT TYPE>.level says it for one type, or for all types that begin with the same words.",
        choices=("OFF", "STANDARD", "VERBOSE"),
    )
    EVENT_LOG_DESTINATION = ConfigOption(
        "event-log.destination",
        str,
        "file",
        "Where the event log goes: a file per subtask, the Python logger flink_agents_py.events, or neither.",
        choices=("file", "logger", "none"),
    )
    EVENT_LOG_DIRECTORY = ConfigOption[str | None](
        "event-log.directory",
        str,
        None,
        "Where on the workers the files are, flink-agents-py in the system's folder for temporary files if not given.",
    )
    EVENT_LOG_MAX_FILE_SIZE = ConfigOption[int | None](
        "event-log.max-file-size",
        int,
        None,
        "From this size on a file of the event log is put aside and another one begun; never if not given.",
        unit="bytes",
        minimum=1,
    )
    EVENT_LOG_MAX_FILES = ConfigOption(
        "event-log.max-files",
        int,
        10,
        "Files of the event log that a subtask keeps, where they have a size; the oldest ones are deleted.",
        minimum=2,
    )
    EVENT_LOG_SIDE_OUTPUT = ConfigOption(
        "event-log.side-output",
        bool,
        False,
        "Whether lines of the event log also leave the operator, as text, in the side output event-log.",
    )
    EVENT_LOG_MAX_STRING_LENGTH = ConfigOption(
        "event-log.standard.max-string-length", int, 2000, "Characters of a text before it is cut.", minimum=1
    )
    EVENT_LOG_MAX_ARRAY_ELEMENTS = ConfigOption(
        "event-log.standard.max-array-elements", int, 20, "Elements of a list before it is cut.", minimum=1
    )
    EVENT_LOG_MAX_DEPTH = ConfigOption(
        "event-log.standard.max-depth", int, 5, "Containers in containers before they are cut.", minimum=1
    )
    METRICS = ConfigOption("metrics", bool, True, "Whether the operator reports metrics to Flink.")
    OTEL_SPANS = ConfigOption(
        "otel.spans",
        bool,
        False,
        "Whether runs, actions and calls become OpenTelemetry spans (extra otel; its own variables say where they go).",
    )
    CONDITION_FAILURE_STRATEGY = ConfigOption(
        "action.trigger-condition.evaluate-failure-strategy",
        str,
        "WARN_AND_SKIP",
        "When a trigger condition fails for an event (it reads an attribute that is missing, say): take it for false, "
        "warned of and counted, or fail the job.",
        choices=("WARN_AND_SKIP", "FAIL"),
    )
    KEEP_FRAMEWORK_FRAMES = ConfigOption(
        "errors.keep-framework-frames",
        bool,
        False,
        "Whether tracebacks of failed actions keep the frames of this package, to look into the framework itself.",
    )

    CHAT_MAX_ITERATIONS = ConfigOption(
        "chat.max-iterations",
        int,
        10,
        "Answers of a model within one chat; if the last of them still asks for tools, the chat ends there.",
        minimum=1,
    )
    ERROR_HANDLING_STRATEGY = ConfigOption(
        "error-handling-strategy",
        str,
        "fail",
        "What the built-in chat action does about an error that is left when the connection's own retries are used up: "
        "fail the job, try everything again, drop the chat (counted), or send the request to the dead letters.",
        choices=("fail", "retry", "ignore", "dead_letter"),
    )
    MAX_RETRIES = ConfigOption(
        "max-retries", int, 3, "Further attempts under error-handling-strategy = retry.", minimum=0
    )
    RETRY_WAIT_INTERVAL = ConfigOption(
        "retry-wait-interval",
        float,
        1.0,
        "Wait before the first of those; each further wait is twice as long.",
        unit="s",
        minimum=0,
    )

    @classmethod
    def all(cls) -> dict[str, ConfigOption[Any]]:
        """Every option by key."""
        groups = (cls, LongTermMemoryOptions, LongTermMemoryOptions.Mem0)
        options = [option for group in groups for option in vars(group).values()]
        return {option.key: option for option in options if isinstance(option, ConfigOption)}


KNOWN = AgentOptions.all()
_SECTIONS = frozenset(key.partition(".")[0] for key in KNOWN if "." in key)


@lru_cache(maxsize=1024)
def nearly_known(key: str, *, sections: bool = False) -> str | None:
    """The option of ours that ``key`` is nearly, but not quite; with ``sections``, whatever it is in one of ours."""
    if key in KNOWN or _ARGUMENT.fullmatch(key) or _EVENT_TYPE_LEVEL.fullmatch(key):
        return None
    name = key.lower().replace("_", "-")
    section, dot, _ = name.partition(".")
    ours = sections and bool(dot) and section in _SECTIONS
    near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0 if ours else _NEARLY)
    return near[0] if near else None
