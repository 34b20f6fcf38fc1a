"""One server of each kind for the whole session, started when a test asks for it."""

from __future__ import annotations

import pytest

from tests.stores.servers import kafka_server, postgres_server, redis_server


@pytest.fixture(scope="session")
def postgres_url():
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def redis_url():
    with redis_server() as url:
        yield url


@pytest.fixture(scope="session")
def kafka_url():
    with kafka_server() as url:
        yield url
