from __future__ import annotations

import logging

import pytest
from redis.crc import key_slot

from flink_agents_py.errors import FencedError, StoreError
from flink_agents_py.stores.failures import Credentials
from flink_agents_py.stores.redis import RedisStore
from tests.stores.conformance import StoreConformance, record
from tests.stores.servers import PASSWORD, free_port, redis_that_can_crash

AGENTS = Credentials(password=PASSWORD)


class TestRedisStore(StoreConformance):
    @pytest.fixture
    def make(self, redis_url):
        self.writer_arguments = ("redis", redis_url, "conformance")
        return lambda clock: RedisStore(redis_url, credentials=AGENTS, namespace="conformance", clock=clock)

    def test_a_broken_connection_is_not_noticed(self, store, attempt):
        store.put([record(slot=0)])
        attempt()._client.client_kill_filter(_type="normal", skipme=True)
        store.put([record(slot=1)])
        assert len(store.claim(b"k")) == 2

    def test_scripts_that_the_server_has_lost_are_sent_again(self, store):
        store.put([record(slot=0)])
        store._client.script_flush()
        store.put([record(slot=1)])
        assert len(store.claim(b"k")) == 2

    def test_a_namespace_with_signs_of_redis_in_it_is_apart(self, redis_url, store, job):
        odd = RedisStore(redis_url, credentials=AGENTS, namespace="*{x}:")
        odd.open(job)
        odd.put([record()])
        assert odd.claim(b"k") == [record()]
        assert store.claim(b"k") == []
        odd.close()

    def test_all_keys_of_a_job_are_on_one_node_of_a_cluster(self, store, job):
        store.put([record()])
        names = store._client.keys(f"conformance:{{{job}}}:*")
        assert len(names) == 4
        assert len({key_slot(name) for name in names}) == 1

    def test_a_full_server_writes_nothing(self, store, attempt):
        store.put([record(slot=0)])
        store._client.config_set("maxmemory", "1")
        try:
            with pytest.raises(StoreError, match=r"OutOfMemoryError|-OOM"):
                store.put([record(slot=1)])
        finally:
            store._client.config_set("maxmemory", "0")
        newer = attempt()
        assert newer.claim(b"k") == [record(slot=0)]
        with pytest.raises(FencedError):
            store.put([record(slot=1)])

    def test_a_server_that_forgets_is_named_in_the_log(self, store, job, caplog):
        store._client.config_set("appendfsync", "everysec")
        try:
            with caplog.at_level(logging.WARNING, "flink_agents_py.stores"):
                store.open(job)
        finally:
            store._client.config_set("appendfsync", "always")
        assert "appendfsync everysec" in caplog.text


def test_a_server_that_is_not_there_is_an_error_without_the_password():
    store = RedisStore(f"redis://127.0.0.1:{free_port()}/0", credentials=Credentials("me", "s3cret"))
    with pytest.raises(StoreError, match="failed to open: ConnectionError") as caught:
        store.open("job")
    assert "s3cret" not in str(caught.value)


def test_a_wrong_password_is_an_error_without_it(redis_url):
    store = RedisStore(redis_url, credentials=Credentials(password="s3cret"))
    with pytest.raises(StoreError, match="failed to open: AuthenticationError") as caught:
        store.open("job")
    assert "s3cret" not in str(caught.value)


def test_what_was_put_survives_the_death_of_a_server_that_writes_at_once():
    with redis_that_can_crash() as server:
        store = RedisStore(server.url, credentials=AGENTS)
        store.open("job")
        for number in range(20):
            store.put([record(sequence=number)])
        server.crash()
        assert sorted(r.sequence for r in store.claim(b"k")) == list(range(20))
        store.open("job")
        assert store._epoch == 2
        store.close()
