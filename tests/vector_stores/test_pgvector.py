"""What only a store with a server has."""

from __future__ import annotations

import pytest

from flink_agents_py.errors import VectorStoreError, VectorStoreUnavailableError
from flink_agents_py.ext.pgvector import PgVectorStore
from flink_agents_py.resources.vector_stores import Document, VectorStoreQuery
from tests.stores.servers import PASSWORD, free_port


def test_a_server_that_is_not_there_is_worth_another_attempt():
    store = PgVectorStore(url=f"postgresql://127.0.0.1:{free_port()}/postgres", password="abc", connect_timeout=0.5)
    with pytest.raises(VectorStoreUnavailableError, match="does not answer") as failure:
        store.collections()
    assert isinstance(failure.value, ConnectionError)
    store.close()


def test_two_stores_of_other_prefixes_share_nothing_and_the_same_prefix_all(pgvector_url):
    def store(prefix):
        return PgVectorStore(url=pgvector_url, user="agents", password=PASSWORD, prefix=prefix)

    one, two, again = store("one"), store("two"), store("one")
    one.add(Document(id="a", content="x", embedding=[1.0, 0.0]), "c")
    assert (two.collections(), again.collections()) == ([], ["c"])
    with pytest.raises(VectorStoreError, match="no embedding model"):
        again.query(VectorStoreQuery(query_text="x", collection_name="c"))
    assert [d.id for d in again.nearest("c", [0.5, 0.5], 1, None)] == ["a"]
    for opened in (one, two, again):
        opened.close()
