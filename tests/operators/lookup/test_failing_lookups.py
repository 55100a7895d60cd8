"""Lookups that fail, take too long, or find what cannot be handed on."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Row, Time, Types
from headrace.common.errors import UserFunctionError
from headrace.datastream import AsyncRetryStrategy
from headrace.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate
from headrace.datastream.lookup import Lookup, LookupCache
from tests.operators.lookup.lookups import (
    COUNTRIES,
    ONCE_MORE,
    asked,
    country,
    country_later,
    enriched,
    harness,
)
from tests.waiting import PATIENCE


def fails(key: int) -> str | None:
    asked.append(key)
    if len(asked) < 3:
        raise ConnectionError("away")
    return COUNTRIES.get(key)


def test_failures_name_the_record_and_the_line() -> None:
    with pytest.raises(UserFunctionError, match="away") as raised:
        enriched(fails, (2, 10))
    assert "operator 'Lookup' (uid enriched, subtask 0) failed" in str(raised.value)
    assert re.search(r"test_failing_lookups.py:\d+ in fails", str(raised.value))
    assert "record: Row(customer=2, amount=10)" in str(raised.value)


class Uncopyable:
    def __deepcopy__(self, memo: Any) -> Uncopyable:
        raise ValueError("there is one of it")


NAMED = Types.ROW_NAMED(["name"], [Types.STRING()])


@pytest.mark.parametrize("cache", [None, LookupCache.partial()], ids=["asked", "kept"])
@pytest.mark.parametrize(
    ("lookup", "told"),
    [
        (Lookup.function(lambda key: {"country": "fr"}, NAMED), "what was found: got .* expected a Row.*returned by"),
        (Lookup.of_many(lambda keys: dict.fromkeys(keys, 7), NAMED), "what was found: got 7 .* expected a Row"),
        (Lookup.function(lambda key: 7, Types.LIST(Types.INT())), "what was found: got 7 .* expected a list"),
        (Lookup.function(lambda key: Uncopyable(), Types.PICKLED_BYTE_ARRAY()), "there is one of it"),
    ],
)
def test_what_is_found_and_cannot_be_handed_on_is_told(lookup: Lookup, cache: LookupCache | None, told: str) -> None:
    """Also where several records want it, so that it is copied: the job waited for ever."""
    with pytest.raises(UserFunctionError, match=f"(?s){told}") as raised:
        enriched(lookup, (1, 10), (2, 20), (1, 30), cache=cache)
    assert "record: Row(customer=1, amount=10)" in str(raised.value)


def test_requests_that_fail_or_find_nothing_are_made_again() -> None:
    again = AsyncRetryStrategy.fixed_delay(5, 1, None, has_exception_predicate)
    assert enriched(fails, (2, 10), retries=again) == [(2, "it")]
    asked.clear()
    missing = AsyncRetryStrategy.fixed_delay(2, 1, empty_result_predicate, None)
    assert enriched(country, (7, 10), retries=missing) == [(7, None)]
    assert asked == [7, 7, 7]


def ever_more(keys: list[int]) -> dict[int, str]:
    """Knows a key more each time."""
    asked.append(sorted(keys))
    return {key: "fr" for key in keys if key < len(asked)}


def test_of_many_keys_those_that_are_missing_are_asked_for_again() -> None:
    """Which keys share a request must not matter."""
    again = AsyncRetryStrategy.fixed_delay(2, 1, empty_result_predicate, None)
    found = enriched(Lookup.of_many(ever_more), (0, 10), (1, 20), (2, 30), (7, 40), retries=again)
    assert found == [(0, "fr"), (1, "fr"), (2, "fr"), (7, None)]
    assert asked == [[0, 1, 2, 7], [1, 2, 7], [2, 7]]


def test_a_lookup_that_takes_too_long() -> None:
    async def never(key: int) -> str:
        await asyncio.Event().wait()
        return ""

    with pytest.raises(UserFunctionError, match="TimeoutError: nothing is known of 2 in time"):
        enriched(never, (2, 10), timeout=Time.milliseconds(5))


class Gone:
    """A connection to a database that never answers."""

    def cursor(self) -> Any:
        threading.Event().wait()


def test_a_table_that_takes_too_long_to_read() -> None:
    lookup = Lookup.table(Gone, "customers", "id", {"country": str})
    with pytest.raises(UserFunctionError, match="TimeoutError: the whole of it was not read in 5 ms: give more time"):
        enriched(lookup, (2, 10), timeout=5, cache=LookupCache.full())


ENDLESS = """
import asyncio
import threading
from headrace.common.errors import UserFunctionError
from headrace.datastream.lookup import Lookup
from tests.waiting import PATIENCE
from tests.operators.lookup.test_failing_lookups import Gone, enriched

def waits(key):
    threading.Event().wait()

async def waits_beside(key):
    await asyncio.to_thread(waits, key)

for lookup in (waits, waits_beside, Lookup.table(Gone, "customers", "id", {"country": str})):
    try:
        enriched(lookup, (2, 10), timeout=5)
    except UserFunctionError as error:
        print("in time" in str(error))
"""


@pytest.mark.slow
def test_what_never_answers_does_not_hold_up_the_end_of_the_program() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDLESS], check=True, capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.stdout.split() == ["True"] * 3


def test_a_lookup_without_a_timeout_waits() -> None:
    assert enriched(country_later, (1, 10), timeout=0) == [(1, "fr")]


def test_a_connection_that_failed_is_made_anew(database: Path) -> None:
    def connect() -> Any:
        asked.append("connect")
        return sqlite3.connect(database if len(asked) > 1 else ":memory:")

    lookup = Lookup.table(connect, "customers", "id", {"country": str})
    assert enriched(lookup, (1, 10), retries=ONCE_MORE) == [(1, Row(country="fr"))]


@pytest.mark.parametrize("cache", [None, LookupCache.full()])
def test_a_database_that_is_away_is_told(cache: LookupCache | None, tmp_path: Path) -> None:
    lookup = Lookup.table(partial(sqlite3.connect, tmp_path / "none.db"), "customers", "id", {"country": str})
    with pytest.raises(UserFunctionError, match="no such table: customers") as raised:
        enriched(lookup, (1, 10), cache=cache)
    assert "query: SELECT id, country FROM customers" in str(raised.value)
    assert "thread.py" not in str(raised.value)  # which runs the query, and is nobody's mistake


def test_a_connection_that_cannot_be_closed_hides_no_error() -> None:
    class Broken:
        def cursor(self) -> Any:
            raise ConnectionError("the server is gone")

        def close(self) -> None:
            raise ConnectionError("closed already")

    with pytest.raises(UserFunctionError, match="ConnectionError: the server is gone") as raised:
        enriched(Lookup.table(Broken, "customers", "id", {"country": str}), (1, 10))
    assert "closing the connection failed, too: ConnectionError('closed already')" in str(raised.value)


def test_connections_are_closed_and_one_that_cannot_be_is_told(caplog: pytest.LogCaptureFixture) -> None:
    class Closed:
        def cursor(self) -> Any:
            return sqlite3.connect(":memory:").execute("CREATE TABLE customers (id INTEGER, country TEXT)")

        def close(self) -> None:
            raise ConnectionError("closed already")

    lookup = Lookup.table(Closed, "customers", "id", {"country": str})
    assert enriched(lookup, (1, 10)) == [(1, None)]
    (told,) = [record for record in caplog.records if "could not be closed" in record.getMessage()]
    assert "closed already" in str(told.exc_info)


def test_a_lookup_that_ends_an_iteration() -> None:
    def first(key: int) -> str:
        return next(iter([]))

    with pytest.raises(UserFunctionError, match=r"the function raised StopIteration: next\(\.\.\., None\)") as raised:
        enriched(first, (1, 10))
    assert re.search(r"test_failing_lookups.py:\d+ in first", str(raised.value))


@pytest.mark.parametrize("kind", ["many", "table"])
def test_keys_that_equal_none_are_told(kind: str, database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE named (id TEXT, country TEXT)")
        connection.execute("INSERT INTO named VALUES ('1', 'fr')")
    table = Lookup.table(partial(sqlite3.connect, database), "named", "id", {"country": str})
    lookup = table if kind == "table" else Lookup.of_many(lambda keys: {str(key): "fr" for key in keys})
    cache = LookupCache.full() if kind == "table" else None
    with pytest.raises(UserFunctionError, match="keys of records, 1 say, equal none of those that there are, '1' say"):
        enriched(lookup, (1, 10), cache=cache)


def test_keys_that_cannot_be_compared_are_told() -> None:
    with harness(lambda stream: stream.enrich(country, lambda order: [order.customer])) as job:
        job.push("in", (1, 10))
        with pytest.raises(UserFunctionError, match="unhashable type") as raised:
            job.run_epoch()
        assert "record: Row(customer=1, amount=10)" in str(raised.value)
