"""librdkafka's mock cluster, which fails on demand: brokers in this process, reached through the loopback interface.

confluent-kafka does not offer its controls to Python, so the library inside its wheel is called directly.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from pathlib import Path

import confluent_kafka

from tests.stores.servers import missing

_API_KEYS = {
    "produce": 0,
    "fetch": 1,
    "list_offsets": 2,
    "metadata": 3,
    "init_producer_id": 22,
    "add_partitions_to_txn": 24,
    "end_txn": 26,
}
_PRODUCER = 0


class MockCluster:
    """A cluster of brokers; use it as a context manager."""

    def __init__(self, brokers: int) -> None:
        self._library = _librdkafka()
        self._brokers = brokers

    def __enter__(self):
        text = ctypes.create_string_buffer(512)
        self._client = self._library.rd_kafka_new(_PRODUCER, None, text, len(text))
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, self._brokers)
        self.url = "kafka://" + self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        return self

    def __exit__(self, *_: object) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)

    def fail(self, api: str, errors: list[str]) -> None:
        """The next requests of a kind get these answers, in this order."""
        codes = (ctypes.c_int * len(errors))(*(getattr(confluent_kafka.KafkaError, name) for name in errors))
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, _API_KEYS[api], len(errors), codes)

    def set_down(self, *, down: bool) -> None:
        """Stop or start all brokers."""
        set_broker = self._library.rd_kafka_mock_broker_set_down if down else self._library.rd_kafka_mock_broker_set_up
        for broker in range(1, self._brokers + 1):
            set_broker(self._cluster, broker)

    def set_round_trip(self, milliseconds: int) -> None:
        """How long every answer takes."""
        for broker in range(1, self._brokers + 1):
            self._library.rd_kafka_mock_broker_set_rtt(self._cluster, broker, milliseconds)


def _librdkafka() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    found = [str(path) for path in package.parent.glob("confluent_kafka.libs/librdkafka*.so*")]
    system = ctypes.util.find_library("rdkafka")
    candidates = found or ([system] if system else [])
    if not candidates:
        missing("confluent-kafka came without its own librdkafka, whose mock cluster the test needs")
    library = ctypes.CDLL(candidates[0])
    pointer = ctypes.c_void_p
    library.rd_kafka_new.restype = pointer
    library.rd_kafka_new.argtypes = [ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_destroy.argtypes = [pointer]
    library.rd_kafka_mock_cluster_new.restype = pointer
    library.rd_kafka_mock_cluster_new.argtypes = [pointer, ctypes.c_int]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [pointer]
    library.rd_kafka_mock_cluster_destroy.argtypes = [pointer]
    library.rd_kafka_mock_push_request_errors_array.argtypes = [pointer, ctypes.c_int16, ctypes.c_size_t, pointer]
    library.rd_kafka_mock_broker_set_down.argtypes = [pointer, ctypes.c_int32]
    library.rd_kafka_mock_broker_set_up.argtypes = [pointer, ctypes.c_int32]
    library.rd_kafka_mock_broker_set_rtt.argtypes = [pointer, ctypes.c_int32, ctypes.c_int]
    return library
