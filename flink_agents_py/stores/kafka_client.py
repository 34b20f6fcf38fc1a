"""One compacted topic of Kafka: transactions of messages, and reading partitions from their beginning on."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from flink_agents_py.errors import ConfigError
from flink_agents_py.stores.failures import Credentials, library
from flink_agents_py.stores.kafka_log import Message

log = logging.getLogger("flink_agents_py.stores")

_POLL_S = 0.1
_GRACE_S = 1.0  # after which the end of what is committed counts as the end, though more is not committed yet
_ABANDONED_S = 2.0  # of waiting for a transaction, after which its writer is taken for dead
_TRANSACTION = "transaction"
"""Header of each message: what is behind the name of the topic in its writer's ``transactional.id``."""


class KafkaTopic:
    """Not safe for several threads.

    Raises ``KafkaException`` of confluent-kafka; the caller translates it, and calls :meth:`reset` then.
    """

    def __init__(
        self,
        url: str,
        topic: str,
        *,
        credentials: Credentials,
        timeout_ms: int,
        partitions: int,
        replication: int | None,
    ) -> None:
        self.kafka = library("confluent_kafka", "kafka")
        # The names of errors of the client, other than of the broker, begin with an underscore.
        self._timed_out: int = self.kafka.KafkaError._TIMED_OUT  # noqa: SLF001
        self._partition_end: int = self.kafka.KafkaError._PARTITION_EOF  # noqa: SLF001
        self._admin = library("confluent_kafka.admin", "kafka")
        self.topic = topic
        self._timeout_s = timeout_ms / 1000
        self._timeout_ms = timeout_ms
        self._wanted = (partitions, replication)
        settings = _settings(url, credentials)
        self._reader_settings = settings
        # Others than consumers would complain about them.
        self._settings = {name: value for name, value in settings.items() if not name.startswith(("fetch.", "queued."))}
        # The same for every producer this one makes: a new one ends the transaction that an earlier one left open.
        self._writer_id = uuid.uuid4()
        self._producer: Any = None
        self._consumer: Any = None
        self.partitions = 0
        self._positions: dict[int, int] = {}
        self._at_end: set[int] = set()
        self._own_ends: dict[int, int] = {}

    def connect(self) -> None:
        """Make the topic if it is missing; read from the beginning from now on."""
        self.close()
        admin = self._admin.AdminClient(self._settings, logger=log)
        found = self._metadata(admin)
        if found is None:
            self._make_topic(admin)
            deadline = time.monotonic() + self._timeout_s
            while (found := self._metadata(admin)) is None:
                if time.monotonic() > deadline:
                    raise self.kafka.KafkaException(
                        self.kafka.KafkaError(self.kafka.KafkaError.UNKNOWN_TOPIC_OR_PART, "the topic did not appear")
                    )
                time.sleep(_POLL_S)
        else:
            self._warn_of_weak_settings(admin)
        self.partitions = found
        self._consumer = self._make_consumer("read_committed")

    def _make_consumer(self, isolation: str) -> Any:
        return self.kafka.Consumer(
            {
                "fetch.wait.max.ms": 50,  # a quiet topic is asked that often; the URL may say otherwise
                **self._reader_settings,
                "group.id": f"{self.topic}-{self._writer_id}",  # asked for, not used: nothing is committed to it
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "queued.max.messages.kbytes": 16_384,
            },
            logger=log,
        )

    def _metadata(self, admin: Any) -> int | None:
        """The number of partitions, if the topic is there."""
        topics = admin.list_topics(self.topic, timeout=self._timeout_s).topics
        found = topics.get(self.topic)
        return len(found.partitions) or None if found is not None and found.error is None else None

    def _make_topic(self, admin: Any) -> None:
        partitions, replication = self._wanted
        topic = self._admin.NewTopic(
            self.topic, partitions, -1 if replication is None else replication, config={"cleanup.policy": "compact"}
        )
        try:
            admin.create_topics([topic], request_timeout=self._timeout_s)[self.topic].result(self._timeout_s)
        except self.kafka.KafkaException as error:
            if error.args[0].code() != self.kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _warn_of_weak_settings(self, admin: Any) -> None:
        resource = self._admin.ConfigResource(self._admin.ConfigResource.Type.TOPIC, self.topic)
        with suppress(Exception):  # not every broker tells, and not everybody
            settings = admin.describe_configs([resource], request_timeout=2)[resource].result(2)
            policy = settings["cleanup.policy"].value
            if policy and "delete" in policy:
                log.warning(
                    "The topic %s of the action state store has cleanup.policy %s: Kafka drops records after a time. "
                    "Set compact.",
                    self.topic,
                    policy,
                )

    # --- writing ----------------------------------------------------------------------------------------------------

    def write(self, messages: Sequence[Message]) -> list[int]:
        """Write all messages in one transaction; their offsets. When it returns they are committed."""
        offsets = [-1] * len(messages)

        def delivered(place: int) -> Callable[[Any, Any], None]:
            def note(error: Any, message: Any) -> None:
                if error is None:
                    offsets[place] = message.offset()

            return note

        producer = self._writer()
        producer.begin_transaction()
        for place, message in enumerate(messages):
            while True:
                try:
                    producer.produce(
                        self.topic,
                        key=message.key,
                        value=message.value,
                        partition=message.partition,
                        headers=[*message.headers, (_TRANSACTION, self._writer_id.bytes)],
                        on_delivery=delivered(place),
                    )
                    break
                except BufferError:
                    producer.poll(_POLL_S)
        producer.commit_transaction(self._timeout_s)
        return offsets

    def _writer(self) -> Any:
        if self._producer is None:
            self._producer = self._make_producer(self._writer_id)
        return self._producer

    def _make_producer(self, writer_id: uuid.UUID) -> Any:
        """A producer under a writer's name; Kafka undoes what an earlier one of that name has left uncommitted."""
        producer = self.kafka.Producer(
            {
                **self._settings,
                "transactional.id": f"{self.topic}-{writer_id}",
                "transaction.timeout.ms": self._timeout_ms,
                "message.timeout.ms": self._timeout_ms,
                "linger.ms": 0,
                "message.max.bytes": 64 * 2**20,  # the broker's limit is the one that counts
            },
            logger=log,
        )
        producer.init_transactions(self._timeout_s)
        return producer

    def reset(self) -> None:
        """Forget the producer after an error; what it had not committed is undone when the next one begins."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    # --- reading ----------------------------------------------------------------------------------------------------

    def read_past(self, offsets: dict[int, int]) -> Iterator[Any]:
        """Messages up to and including those offsets by partition, which :meth:`write` returned, and those between."""
        self._assign(offsets)
        patience = time.monotonic() + _ABANDONED_S

        def more() -> bool:
            nonlocal patience
            missing = [p for p, offset in offsets.items() if self._positions[p] <= offset]
            if missing and time.monotonic() > patience:
                for partition in self._at_end.intersection(missing):
                    self._end_abandoned_transaction(partition)
                patience = time.monotonic() + _ABANDONED_S
            return bool(missing)

        yield from self._read_while(more)
        # What is committed could be read, so the mark of the commit is in the log: if it is the only thing behind the
        # last message of this transaction, that partition has been read to its end.
        self._own_ends.update({p: offset + 2 for p, offset in offsets.items()})

    def read_to_end(self, partitions: Sequence[int]) -> Iterator[Any]:
        """Messages up to where the partitions end now (or where what is committed ends)."""
        self._assign(partitions)
        ends = {partition: self._end_of(partition) for partition in partitions}
        patience = time.monotonic() + _GRACE_S

        def more() -> bool:
            return any(
                self._positions[p] < end
                and self._own_ends.get(p) != end
                and not (p in self._at_end and time.monotonic() > patience)
                for p, end in ends.items()
            )

        return self._read_while(more)

    def _end_abandoned_transaction(self, partition: int) -> None:
        """Undo the transaction that keeps the reader from what is committed behind it.

        Its writer is dead, or so slow that it has to put again. Kafka itself undoes it up to ten seconds after its
        timeout (``transaction.abort.timed.out.transaction.cleanup.interval.ms``), other brokers never.
        """
        try:
            message = self._first_uncommitted(partition)
            writer = None if message is None else dict(message.headers() or ()).get(_TRANSACTION)
            if writer is None or writer == self._writer_id.bytes:
                return
            log.warning(
                "A writer of the topic %s is not done with its transaction after %.0f s: it is undone, as what is "
                "behind it in partition %d cannot be read before.",
                self.topic,
                _ABANDONED_S,
                partition,
            )
            self._make_producer(uuid.UUID(bytes=writer))
        except self.kafka.KafkaException as error:
            log.warning("The transaction cannot be undone, so it is waited for: %s", error)

    def _first_uncommitted(self, partition: int) -> Any:
        """What stands where the reader has to stop."""
        consumer = self._make_consumer("read_uncommitted")
        try:
            consumer.assign([self.kafka.TopicPartition(self.topic, partition, self._positions[partition])])
            message = consumer.poll(self._timeout_s)
            return message if message is not None and message.error() is None else None
        finally:
            consumer.close()

    def _end_of(self, partition: int) -> int:
        place = self.kafka.TopicPartition(self.topic, partition)
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                _, end = self._consumer.get_watermark_offsets(place, timeout=self._timeout_s)
            except self.kafka.KafkaException:
                # The client does not repeat this request, not even after a change of leaders.
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)
            else:
                return int(end)

    def _assign(self, partitions: Any) -> None:
        fresh = [p for p in partitions if p not in self._positions]
        if fresh:
            # Offset 0 need not exist any more: the client goes to the first one there is. To ask for the first one
            # would cost half a second.
            self._consumer.incremental_assign([self.kafka.TopicPartition(self.topic, p, 0) for p in fresh])
            self._positions.update(dict.fromkeys(fresh, 0))

    def _read_while(self, more: Callable[[], bool]) -> Iterator[Any]:
        deadline = time.monotonic() + self._timeout_s
        while more():
            message = self._consumer.poll(_POLL_S)
            if message is None:
                if time.monotonic() > deadline:
                    raise self.kafka.KafkaException(
                        self.kafka.KafkaError(self._timed_out, "the topic could not be read to its end")
                    )
                continue
            deadline = time.monotonic() + self._timeout_s  # a long topic may take long, as long as it goes on
            error = message.error()
            if error is None:
                self._positions[message.partition()] = message.offset() + 1
                self._at_end.discard(message.partition())
                yield message
            elif error.code() == self._partition_end:
                self._positions[message.partition()] = message.offset()
                self._at_end.add(message.partition())
            elif not error.retriable():
                raise self.kafka.KafkaException(error)

    def close(self) -> None:
        self.reset()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        self._positions.clear()
        self._at_end.clear()
        self._own_ends.clear()


def _settings(url: str, credentials: Credentials) -> dict[str, Any]:
    parts = urlsplit(url if "://" in url else f"kafka://{url}")
    if parts.scheme != "kafka" or not parts.netloc or parts.path.strip("/"):
        raise ConfigError(
            f"action-state-store.url cannot be {url!r}",
            fix="for Kafka give kafka://host1:port,host2:port, and settings of librdkafka as parameters: "
            "?security.protocol=SASL_SSL&sasl.mechanism=SCRAM-SHA-512",
        )
    return {
        **dict(parse_qsl(parts.query)),
        "bootstrap.servers": parts.netloc,
        **credentials.named("sasl.username", "sasl.password"),
    }
