"""A server for all tests of PostgreSQL, and a database for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.postgres.server import Database, Server, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def database(server: Server) -> Iterator[Database]:
    made = server.database()
    yield made
    made.drop_slots()
