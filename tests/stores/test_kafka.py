from __future__ import annotations

import time
import zlib

import pytest

from flink_agents_py.errors import ConfigError, StoreError
from flink_agents_py.stores.failures import Credentials
from flink_agents_py.stores.kafka import KafkaStore
from tests.stores.conformance import StoreConformance, record
from tests.stores.kafka_mock import MockCluster
from tests.stores.servers import free_port


class InsteadOfCommit:
    """A producer whose first commit is another thing."""

    def __init__(self, producer, act):
        self._producer = producer
        self._act = act

    def __getattr__(self, name):
        return getattr(self._producer, name)

    def commit_transaction(self, timeout):
        self.flush()
        act, self._act = self._act, None
        if act is not None:
            act()
        self._producer.commit_transaction(timeout)


class TestKafkaStore(StoreConformance):
    uncommitted_is_hidden = False  # the broker of the tests shows readers what was not committed; Kafka does not
    crossing_puts_are_whole = False

    @pytest.fixture
    def make(self, kafka_url, request):
        # That broker lets a fetch that found nothing wait for all of its time, even if something arrives.
        url = f"{kafka_url}?fetch.wait.max.ms=5"
        topic = f"conformance-{zlib.crc32(request.node.nodeid.encode())}"
        self.writer_arguments = ("kafka", url, topic)
        return lambda clock: KafkaStore(url, topic=topic, partitions=4, clock=clock)

    def test_what_a_fenced_attempt_wrote_in_the_race_does_not_count(self, store, attempt, monkeypatch):
        store.put([record(slot=0, value='"in time"')])
        newer = attempt()
        newer.claim(b"k")
        # As if the claim came after the look at the log and before the write.
        monkeypatch.setattr(store, "_check", lambda index, keys: None)
        with pytest.raises(Exception, match="newer attempt"):
            store.put([record(slot=0, value='"zombie"'), record(slot=1)])
        store.forget(b"k", 1)
        for reader in (newer, attempt()):
            assert reader.claim(b"k") == [record(slot=0, value='"in time"')]

    def test_pruning_sweeps_up_what_does_not_count_and_what_was_written_again(self, store, attempt, clock, monkeypatch):
        store.put([record(slot=0)])
        newer = attempt()
        newer.claim(b"k")
        monkeypatch.setattr(store, "_check", lambda index, keys: None)
        with pytest.raises(Exception, match="newer attempt"):
            store.put([record(slot=1)])
        newer.put([record(slot=0, value="2")])
        clock.now += 1
        assert newer.prune(before_ms=clock.now) == 0
        index = attempt()
        assert index.claim(b"k") == [record(slot=0, value="2")]
        assert len(index._index.all_at(b"k", 1)) == 1

    def test_a_transaction_that_nobody_ends_is_undone_by_who_cannot_read_past_it(self, store, attempt):
        store.put([record(slot=0)])

        def die():
            raise store._topic.kafka.KafkaException(store._topic.kafka.KafkaError(1))

        store._topic._producer = InsteadOfCommit(store._topic._producer, die)
        with pytest.raises(StoreError, match="failed to put"):
            store.put([record(slot=1), record(key=b"k2")])
        newer = attempt()
        assert record(slot=0) in newer.claim(b"k")
        newer.put([record(slot=2)])
        assert {0, 2} <= {r.slot for r in attempt().claim(b"k")}

    def test_a_writer_whose_transaction_was_undone_for_its_slowness_puts_again(self, store, attempt, monkeypatch):
        monkeypatch.setattr(store._topic, "_timeout_s", 3.0)  # the broker of the tests leaves this to the timeout
        neighbour = next(key for n in range(99) if store._partition(key := b"%d" % n) == store._partition(b"k"))
        seen = []
        store._topic._producer = InsteadOfCommit(
            store._topic._producer, lambda: seen.append(attempt().claim(neighbour))
        )
        with pytest.raises(StoreError, match="failed to put"):
            store.put([record()])
        assert seen == [[]]
        store.put([record()])
        assert attempt().claim(b"k") == [record()]


@pytest.fixture
def cluster():
    with MockCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def store(cluster):
    store = KafkaStore(cluster.url, topic="mock", partitions=2, timeout_ms=4000)
    store.open("job")
    yield store
    store.close()


def test_errors_of_the_broker_that_pass_are_not_noticed(store, cluster):
    for api, errors in (
        ("produce", ["NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT", "NOT_LEADER_FOR_PARTITION"]),
        ("add_partitions_to_txn", ["COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"]),
        ("end_txn", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"]),
        ("list_offsets", ["NOT_LEADER_FOR_PARTITION"]),
    ):
        cluster.fail(api, errors)
        store.put([record(slot=0, value=f'"{api}"')])
        assert store.claim(b"k") == [record(slot=0, value=f'"{api}"')]


def test_a_refused_write_is_an_error_and_the_next_one_works(store, cluster):
    store.put([record(slot=0)])
    cluster.fail("produce", ["TOPIC_AUTHORIZATION_FAILED"])
    with pytest.raises(StoreError, match="failed to put"):
        store.put([record(slot=1)])
    store.put([record(slot=2)])
    assert {r.slot for r in store.claim(b"k")} >= {0, 2}


def test_a_commit_that_cannot_be_made_is_an_error_and_the_next_one_works(store, cluster):
    cluster.fail("end_txn", ["INVALID_TXN_STATE"])
    with pytest.raises(StoreError, match="failed to put"):
        store.put([record(slot=0)])
    store.put([record(slot=0, value='"again"')])
    assert store.claim(b"k") == [record(slot=0, value='"again"')]


def test_a_producer_that_kafka_has_fenced_is_replaced(store, cluster):
    cluster.fail("end_txn", ["INVALID_PRODUCER_EPOCH"])
    with pytest.raises(StoreError, match="failed to put"):
        store.put([record(slot=0)])
    store.put([record(slot=0)])
    assert store.claim(b"k") == [record(slot=0)]


def test_brokers_that_are_down_are_an_error_in_time_and_used_when_they_are_back(store, cluster):
    store.put([record(slot=0)])
    cluster.set_down(down=True)
    with pytest.raises(StoreError, match="failed to put"):
        store.put([record(slot=1)])
    cluster.set_down(down=False)
    deadline = time.monotonic() + 120
    while True:
        try:
            store.put([record(slot=1)])
            break
        except StoreError:
            assert time.monotonic() < deadline
    assert {r.slot for r in store.claim(b"k")} == {0, 1}


def test_a_slow_broker_is_waited_for(store, cluster):
    cluster.set_round_trip(200)
    store.put([record()])
    assert store.claim(b"k") == [record()]


def test_a_server_that_is_not_there_is_an_error_without_the_password():
    store = KafkaStore(
        f"kafka://127.0.0.1:{free_port()}?security.protocol=SASL_PLAINTEXT&sasl.mechanism=PLAIN",
        credentials=Credentials("me", "s3cret"),
        timeout_ms=300,
    )
    with pytest.raises(StoreError, match="failed to open: KafkaException") as caught:
        store.open("job")
    assert "s3cret" not in str(caught.value)
    store.close()


@pytest.mark.parametrize("url", ["http://host", "kafka://", "kafka://host:9092/topic"])
def test_a_url_that_is_not_kafkas_is_refused(url):
    with pytest.raises(ConfigError, match=r"action-state-store\.url"):
        KafkaStore(url)
