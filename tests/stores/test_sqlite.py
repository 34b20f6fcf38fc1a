from __future__ import annotations

import sqlite3

import pytest

from flink_agents_py.errors import StoreError
from flink_agents_py.stores.sqlite import SqliteStore
from tests.stores.conformance import StoreConformance, record


class TestSqliteStore(StoreConformance):
    @pytest.fixture(params=["FULL", "NORMAL"])
    def make(self, request, tmp_path):
        path = tmp_path / "folder" / "state 'of' things.db"
        self.writer_arguments = ("sqlite", str(path), "unused")
        return lambda clock: SqliteStore(path, synchronous=request.param, clock=clock)

    def test_a_file_locked_for_too_long_is_an_error_that_says_so(self, store, tmp_path):
        path = tmp_path / "folder" / "state 'of' things.db"
        impatient = SqliteStore(path, timeout_ms=100)
        impatient.open("job")
        with sqlite3.connect(path, isolation_level=None) as rival:
            rival.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="put: OperationalError: database is locked"):
                impatient.put([record()])
            rival.execute("ROLLBACK")
        rival.close()
        impatient.put([record()])
        assert impatient.claim(b"k") == [record()]
        impatient.close()

    def test_a_file_that_is_no_database_is_an_error_that_names_it(self, tmp_path):
        (tmp_path / "notes.txt").write_text("not a database, but long enough to look like a header of one" * 20)
        with pytest.raises(StoreError, match=r"notes\.txt"):
            SqliteStore(tmp_path / "notes.txt").open("job")
