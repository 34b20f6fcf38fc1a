from __future__ import annotations

import threading

import pytest

from flink_agents_py.errors import ConfigError, FlinkAgentsError, StoreError
from flink_agents_py.stores.failures import Credentials
from flink_agents_py.stores.postgres import PostgresStore
from tests.stores.conformance import StoreConformance, record
from tests.stores.servers import PASSWORD, free_port, postgres_that_can_crash

AGENTS = Credentials("agents", PASSWORD)


class TestPostgresStore(StoreConformance):
    user = "agents"

    @pytest.fixture
    def make(self, postgres_url):
        self.writer_arguments = ("postgres", postgres_url, "conformance")
        return lambda clock: PostgresStore(postgres_url, credentials=AGENTS, namespace="conformance", clock=clock)

    def test_a_broken_connection_is_an_error_once(self, store, attempt):
        store.put([record(slot=0)])
        other = attempt()
        store._connection.execute("SET application_name = 'victim'")
        other._connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'"
        )
        with pytest.raises(StoreError, match="failed to put: AdminShutdown"):
            store.put([record(slot=1)])
        store.put([record(slot=1)])
        assert len(store.claim(b"k")) == 2

    def test_the_tables_of_somebody_else_can_be_used_without_the_right_to_make_any(self, store, postgres_url):
        with store._used("test") as connection:
            connection.execute(
                f"DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'guest') THEN "
                f"CREATE ROLE guest LOGIN PASSWORD {_quoted(PASSWORD)}; END IF; END $$"
            )
            for name in ("jobs", "owners", "records"):
                connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON conformance_{name} TO guest")
        guest = PostgresStore(postgres_url, credentials=Credentials("guest", PASSWORD), namespace="conformance")
        guest.open("guests")
        guest.put([record()])
        assert guest.claim(b"k") == [record()]
        guest.close()

    def test_two_stores_may_make_the_tables_at_once(self, postgres_url, clock):
        errors = []

        def make_tables():
            store = PostgresStore(postgres_url, credentials=AGENTS, namespace="at_once")
            try:
                store.open("job")
            except FlinkAgentsError as error:
                errors.append(error)
            store.close()

        threads = [threading.Thread(target=make_tables) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert errors == []


def test_a_server_that_is_not_there_is_an_error_without_the_password():
    store = PostgresStore(f"postgresql://127.0.0.1:{free_port()}/x", credentials=Credentials("me", "s3cret"))
    with pytest.raises(StoreError, match="failed to open: OperationalError") as caught:
        store.open("job")
    assert "s3cret" not in str(caught.value) + repr(store._credentials)


def test_a_wrong_password_is_an_error_without_it(postgres_url):
    store = PostgresStore(postgres_url, credentials=Credentials("agents", "s3cret"))
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        store.open("job")
    assert "s3cret" not in str(caught.value)


def test_what_was_put_survives_a_crash_of_the_server():
    with postgres_that_can_crash() as server:
        store = PostgresStore(server.url, credentials=AGENTS)
        store.open("job")
        records = [record(sequence=number) for number in range(20)]
        for each in records:
            store.put([each])
        server.crash()
        with pytest.raises(StoreError, match="failed to put"):
            store.put([record(sequence=20)])
        store.put([record(sequence=20)])
        assert sorted(r.sequence for r in store.claim(b"k")) == list(range(21))
        store.close()


def test_a_namespace_that_is_no_name_of_a_table_is_refused():
    with pytest.raises(ConfigError, match="namespace"):
        PostgresStore("postgresql://host/db", namespace="x; drop table y")


def _quoted(text):
    return "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
