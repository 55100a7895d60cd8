"""A server for all tests of PostgreSQL, and a database for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.connectors.postgres.server import Database, Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    from tests.connectors.postgres.server import running  # which needs PostgreSQL

    with running() as server:
        yield server


@pytest.fixture
def database(server: Server) -> Iterator[Database]:
    made = server.database()
    yield made
    made.drop_slots()
