"""Action state in Redis.

A put is one Lua script, which Redis runs (and logs) as one. What it survives is for the server to say: only with
``appendonly yes`` and ``appendfsync always`` is a record on disk when ``put`` returns; with ``everysec`` the last
second may be lost with the machine. A server that promises less is named in the log when the store is opened.

All keys of a job have the hash tag ``{job}``, so a Redis Cluster keeps a job on one of its nodes.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from flink_agents_py.stores.failures import Credentials, failed, fenced, library, not_open
from flink_agents_py.stores.records import (
    ALL_SEQUENCES,
    effective,
    identity_of,
    keys_of,
    ordered,
    pack,
    prunable,
    record_from,
    to_bytes,
    unpack,
)
from flink_agents_py.stores.store import StoredRecord

log = logging.getLogger("flink_agents_py.stores")

_WRITTEN = struct.Struct(">q")
_OWNER_TTL_MS = 7 * 24 * 3_600_000  # an attempt that was given up has long ended by then

# KEYS: owners of the keys. ARGV: epoch, life of an owner in ms. Returns the newer owner if there is one, and its place.
_OWN = """
local epoch = tonumber(ARGV[1])
for place = 1, count do
    local owner = tonumber(redis.call('GET', KEYS[place]) or '0')
    if owner > epoch then return {place, owner} end
end
for place = 1, count do redis.call('SET', KEYS[place], ARGV[1], 'PX', ARGV[2]) end
"""
# KEYS: owners, as many records, the index. ARGV: epoch, life, now, then place of the key, field, value of each.
_PUT = (
    "local count = (#KEYS - 1) / 2\n"
    + _OWN
    + """
for at = 4, #ARGV, 3 do redis.call('HSET', KEYS[count + tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2]) end
for place = 1, count do redis.call('ZADD', KEYS[#KEYS], 'NX', ARGV[3], KEYS[count + place]) end
return {0, 0}
"""
)
# KEYS: owner, records. ARGV: epoch, life, first sequence. Returns fields and values in turn behind the two of _OWN.
_CLAIM = (
    "local count = 1\n"
    + _OWN
    + """
local found, wanted = {0, 0}, false
for at, item in ipairs(redis.call('HGETALL', KEYS[2])) do
    if at % 2 == 1 then wanted = string.sub(item, 1, 8) >= ARGV[3] end
    if wanted then found[#found + 1] = item end
end
return found
"""
)
# KEYS: owner, records, the index. ARGV: epoch, life, sequence.
_FORGET = (
    "local count = 1\n"
    + _OWN
    + """
for _, name in ipairs(redis.call('HKEYS', KEYS[2])) do
    if string.sub(name, 1, 8) == ARGV[3] then redis.call('HDEL', KEYS[2], name) end
end
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('ZREM', KEYS[3], KEYS[2]) end
return {0, 0}
"""
)


class RedisStore:
    """An :class:`~flink_agents_py.stores.store.ActionStateStore` in a Redis server, or one that speaks its protocol.

    Args:
        url: ``redis://host:port/database`` (``rediss`` for TLS) without credentials; parameters are redis-py's.
        credentials: who to be.
        namespace: what all keys begin with.
        timeout_ms: longest wait for an answer.
        clock: current time in ms.
    """

    def __init__(
        self,
        url: str,
        *,
        credentials: Credentials = Credentials(),  # noqa: B008 - immutable
        namespace: str = "flink_agents_py",
        timeout_ms: int = 10_000,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._redis = library("redis", "redis")
        self._credentials = credentials
        self._namespace = namespace
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self._client = self._redis.Redis.from_url(
            url,
            socket_timeout=timeout_ms / 1000,
            socket_connect_timeout=timeout_ms / 1000,
            **credentials.named("username", "password"),
        )
        self._put, self._claim, self._forget = map(self._client.register_script, (_PUT, _CLAIM, _FORGET))
        self._prefix: bytes | None = None
        self._epoch = 0

    def open(self, job: str) -> None:
        prefix = f"{quote(self._namespace, safe='')}:{{{quote(to_bytes(job), safe='')}}}:".encode()
        with self._reported("open"):
            self._warn_of_weak_settings()
            self._epoch = self._client.incr(prefix + b"epoch")
        self._prefix = prefix

    def _warn_of_weak_settings(self) -> None:
        texts: dict[str, str] = {}
        try:
            for name in ("appendonly", "appendfsync", "maxmemory-policy"):  # one by one, as before Redis 7
                texts |= {_text(key): _text(value) for key, value in self._client.config_get(name).items()}
        except self._redis.ResponseError:
            return  # not allowed to this user, as on hosted servers
        if texts.get("appendonly") != "yes" or texts.get("appendfsync") != "always":
            log.warning(
                "The action state store's Redis has appendonly %s, appendfsync %s: records of the time just before it "
                "dies can be lost. Only 'appendonly yes' with 'appendfsync always' keeps all of them.",
                texts.get("appendonly"),
                texts.get("appendfsync"),
            )
        if texts.get("maxmemory-policy", "noeviction").startswith("allkeys"):
            log.warning(
                "The action state store's Redis has maxmemory-policy %s: it drops records when memory is short. "
                "Set noeviction.",
                texts["maxmemory-policy"],
            )

    def claim(self, key: bytes, *, from_sequence: int = ALL_SEQUENCES) -> list[StoredRecord]:
        owner, records, _ = self._names("claim", key)
        with self._reported("claim"):
            found = self._claim([owner, records], [self._epoch, _OWNER_TTL_MS, ordered(from_sequence)])
        self._check_owned(found, [key])
        pairs = zip(found[2::2], found[3::2], strict=True)
        return effective([record_from(key, unpack(field), value[_WRITTEN.size :]) for field, value in pairs])

    def put(self, records: Sequence[StoredRecord]) -> None:
        kept = effective(records)
        if not kept:
            return
        keys = keys_of(kept)
        places = {key: str(place) for place, key in enumerate(keys, 1)}
        names = [self._names("put", key) for key in keys]
        now = self._clock()
        arguments: list[Any] = [self._epoch, _OWNER_TTL_MS, now]
        for record in kept:
            value = _WRITTEN.pack(now) + to_bytes(record.value)
            arguments += (places[record.key], pack(identity_of(record)), value)
        with self._reported("put"):
            answer = self._put(
                [owner for owner, _, _ in names] + [name for _, name, _ in names] + [names[0][2]], arguments
            )
        self._check_owned(answer, keys)

    def forget(self, key: bytes, sequence: int) -> None:
        names = self._names("forget", key)
        with self._reported("forget"):
            answer = self._forget(list(names), [self._epoch, _OWNER_TTL_MS, ordered(sequence)])
        self._check_owned(answer, [key])

    def prune(self, *, before_ms: int) -> int:
        index = self._names("prune", b"")[2]
        dropped = 0
        with self._reported("prune"):
            # The score of a key is when its oldest record was written.
            for name in self._client.zrangebyscore(index, "-inf", f"({before_ms}"):
                dropped += self._prune_key(index, name, before_ms)
        return dropped

    def _prune_key(self, index: bytes, name: bytes, before_ms: int) -> int:
        """Drop what can be dropped of one key; nothing if it is written to meanwhile."""
        with self._client.pipeline() as pipe:
            pipe.watch(name)
            written = {field: _WRITTEN.unpack_from(value)[0] for field, value in pipe.hgetall(name).items()}
            fields = {unpack(field): field for field in written}
            doomed = prunable([(identity, written[field]) for identity, field in fields.items()], before_ms)
            gone = {fields[identity] for identity in doomed}
            left = [ms for field, ms in written.items() if field not in gone]
            pipe.multi()
            if gone:
                pipe.hdel(name, *gone)
            if left:
                pipe.zadd(index, {name: min(left)})
            else:
                pipe.zrem(index, name)
            try:
                pipe.execute()
            except self._redis.WatchError:
                return 0
        return len(doomed)

    def has_any(self) -> bool:
        index = self._names("has_any", b"")[2]
        with self._reported("has_any"):
            return bool(self._client.exists(index))

    def close(self) -> None:
        self._client.close()

    def _names(self, operation: str, key: bytes) -> tuple[bytes, bytes, bytes]:
        """Owner and records of a key, and the index of the job."""
        prefix = self._prefix
        if prefix is None:
            raise not_open(operation)
        return prefix + b"owner:" + key, prefix + b"records:" + key, prefix + b"index"

    def _check_owned(self, answer: list[Any], keys: list[bytes]) -> None:
        place, owner = answer[:2]
        if place:
            raise fenced(keys[place - 1], self._epoch, owner)

    @contextmanager
    def _reported(self, operation: str) -> Iterator[None]:
        try:
            yield
        except self._redis.RedisError as error:
            raise failed(operation, error, "Redis", self._credentials) from None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
