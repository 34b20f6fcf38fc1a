"""Each store there is, empty, with an embedding model of words; one PostgreSQL for all tests."""

from __future__ import annotations

import itertools

import pytest

from flink_agents_py.ext.pgvector import PgVectorStore
from flink_agents_py.ext.sqlite_vec import SqliteVecVectorStore
from flink_agents_py.resources.embedding_models import BaseEmbeddingModelConnection
from flink_agents_py.testing.openai_replies import bag_of_words
from tests.stores.servers import PASSWORD, pgvector_server

numbers = itertools.count()


class WordEmbedding(BaseEmbeddingModelConnection):
    """Texts that share words are near each other."""

    def embed(self, text, **kwargs):
        if isinstance(text, str):
            return bag_of_words(text, 64)
        return [bag_of_words(one, 64) for one in text]


@pytest.fixture(scope="session")
def pgvector_url():
    with pgvector_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "sqlite-file", "postgres"])
def store(request, tmp_path):
    if request.param == "postgres":
        url = request.getfixturevalue("pgvector_url")
        made = PgVectorStore(url=url, user="agents", password=PASSWORD, prefix=f"t{next(numbers)}")
    else:
        path = ":memory:" if request.param == "sqlite" else str(tmp_path / "vectors.db")
        made = SqliteVecVectorStore(path=path)
    made._embedding_model = WordEmbedding()
    yield made
    made.close()
