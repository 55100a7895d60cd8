"""Lookup joins: what is found of each key, by whom, what is kept of it, and what becomes of misses and failures."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.common import Row, RowKind, Time, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import AsyncRetryStrategy, DataStream, OutputTag, RuntimeContext
from headrace.datastream import lookup as lookup_module
from headrace.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate
from headrace.datastream.lookup import Lookup, LookupCache
from headrace.testing import JobHarness

ORDER = Types.ROW_NAMED(["customer", "amount"], [Types.LONG(), Types.LONG()])
COUNTRIES = {1: "fr", 2: "it"}

BY_NAME = Lookup.dataframe(pa.table({"name": ["ann"]}), key="name")
BY_TWO = Lookup.table(print, "customers", ("id", "name"), {"country": str})

asked: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    asked.clear()


def country(key: int) -> str | None:
    asked.append(key)
    return COUNTRIES.get(key)


async def country_later(key: int) -> str | None:
    asked.append(key)
    await asyncio.sleep(0.01 / key)
    return COUNTRIES.get(key)


def countries(keys: list[int]) -> dict[int, str]:
    asked.append(sorted(keys))
    return {key: COUNTRIES[key] for key in keys if key in COUNTRIES}


async def countries_later(keys: list[int]) -> dict[int, str]:
    await asyncio.sleep(0)
    return countries(keys)


def harness(enrich: Callable[[DataStream], DataStream], **options: Any) -> JobHarness:
    def job(job: JobHarness) -> None:
        job.add_sink("out", enrich(job.add_source("in", ORDER)).uid("enriched"))

    return JobHarness(job, **options)


def enriched(lookup: Any, *orders: tuple[int | None, int], **arguments: Any) -> list[Any]:
    """The pairs of some orders, with their customers alone."""
    with harness(lambda stream: stream.enrich(lookup, "customer", **arguments)) as job:
        job.push_all("in", orders)
        job.run_epoch()
        return [(order.customer, found) for order, found in job.take("out")]


# --- functions -------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "plain": Lookup.function(country),
    "awaited": Lookup.function(country_later),
    "many": Lookup.of_many(countries),
    "many, awaited": Lookup.of_many(countries_later, keys_per_request=2),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_of_all_kinds(kind: str) -> None:
    lookup = FUNCTIONS[kind]
    assert lookup.value_type == Types.STRING()
    found = enriched(lookup, (1, 10), (2, 20), (7, 30), (1, 40), (None, 50))
    assert found == [(1, "fr"), (2, "it"), (7, None), (1, "fr"), (None, None)]
    assert None not in asked


def test_a_key_is_asked_for_once_at_a_time() -> None:
    enriched(Lookup.of_many(countries), (1, 10), (2, 20), (1, 30), (2, 40))
    assert asked == [[1, 2]]


def test_a_lambda_may_call_what_is_awaited() -> None:
    assert enriched(Lookup.function(lambda key: country_later(key + 1), str), (1, 1), (6, 1)) == [
        (1, "it"),
        (6, None),
    ]


def test_a_function_by_itself_is_a_lookup() -> None:
    assert enriched(country_later, (2, 1)) == [(2, "it")]


class Client:
    """Opened and closed with its operator."""

    def open(self, runtime_context: RuntimeContext) -> None:
        asked.append(f"open {runtime_context.get_task_name()}")
        self.countries = COUNTRIES

    async def __call__(self, key: int) -> str | None:
        return self.countries.get(key)

    def close(self) -> None:
        asked.append("close")


def test_an_object_is_opened_and_closed() -> None:
    assert enriched(Client(), (1, 10), (3, 10)) == [(1, "fr"), (3, None)]
    assert asked == ["open Lookup", "close"]


def test_pairs_have_the_time_and_the_type_of_their_records() -> None:
    with harness(lambda stream: stream.enrich(country, "customer")) as job:
        job.push("in", (1, 10), timestamp=5)
        job.push("in", (9, 20), timestamp=7)
        job.run_epoch()
        pairs = [((Row(customer=1, amount=10), "fr"), 5), ((Row(customer=9, amount=20), None), 7)]
        assert job.results_with_timestamps("out") == pairs


@pytest.mark.parametrize("on", ["customer", 0, ("customer",), lambda order: order.customer, lambda order: order[0]])
def test_keys_by_field_or_function(on: Any) -> None:
    with harness(lambda stream: stream.enrich(country, on)) as job:
        job.push("in", (2, 10))
        job.run_epoch()
        assert job.take("out")[0][1] == "it"


# --- misses ----------------------------------------------------------------------------------------------------------

UNKNOWN = OutputTag("unknown")
ONCE_MORE = AsyncRetryStrategy.fixed_delay(1, 1, None, has_exception_predicate)


def test_misses_are_dropped_or_leave_by_a_side_output() -> None:
    assert enriched(country, (1, 10), (7, 20), misses="drop") == [(1, "fr")]

    def job(job: JobHarness) -> None:
        pairs = job.add_source("in", ORDER).enrich(country, "customer", misses=UNKNOWN)
        job.add_sink("out", pairs)
        job.add_sink("unknown", pairs.get_side_output(UNKNOWN))

    with JobHarness(job) as running:
        running.push_all("in", [(1, 10), (7, 20), (None, 30)])
        running.run_epoch()
        assert running.take("out") == [(Row(customer=1, amount=10), "fr")]
        assert running.take("unknown") == [Row(customer=7, amount=20), Row(customer=None, amount=30)]
        assert running.counters()["numLookupMisses"] == 2


def test_changes_of_rows_are_refused() -> None:
    with harness(lambda stream: stream.enrich(country, "customer")) as job:
        job.push("in", Row.of_kind(RowKind.DELETE, customer=1, amount=2))
        with pytest.raises(InvalidProgramError, match="takes insertions alone"):
            job.run_epoch()


# --- caches ----------------------------------------------------------------------------------------------------------


def epochs(cache: LookupCache, *epochs: list[int], step: int = 0) -> list[Any]:
    """What is asked for in each epoch, while instances are kept."""
    found = []
    with harness(lambda stream: stream.enrich(country, "customer", cache=cache), fresh_functions=False) as job:
        for customers in epochs:
            asked.clear()
            for customer in customers:
                job.push("in", (customer, 1))
            job.run_epoch()
            found.append(sorted(asked))
            job.advance_processing_time(step)
    return found


def test_what_was_found_is_kept_and_misses_too() -> None:
    assert epochs(LookupCache.partial(), [1, 7], [1, 7, 2], [2]) == [[1, 7], [2], []]
    assert epochs(LookupCache.partial(keeps_misses=False), [1, 7], [1, 7, 2]) == [[1, 7], [2, 7]]


def test_keys_that_were_not_asked_for_the_longest_go_first() -> None:
    assert epochs(LookupCache.partial(max_keys=2), [1], [2], [1], [3], [1], [2]) == [[1], [2], [], [3], [], [2]]


def test_keys_expire_by_the_clock_of_the_job() -> None:
    cache = LookupCache.partial(expires_after=Time.milliseconds(25))
    assert epochs(cache, [1], [1], [1], [1], [1], step=10) == [[1], [], [], [1], []]


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "customers.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (id INTEGER, amount INTEGER, country TEXT, age INTEGER)")
        rows = [(1, 10, "fr", 30), (2, 20, "it", 40), (2, 21, "es", None)]
        connection.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", rows)
    connection.close()
    return path


def table(database: Path, key: Any = "id", **arguments: Any) -> Lookup:
    columns = {"country": str, "age": int}
    return Lookup.table(partial(sqlite3.connect, database), "customers", key, columns, **arguments)


@pytest.mark.parametrize("cache", [None, LookupCache.partial(), LookupCache.full()])
@pytest.mark.parametrize("size", [1, 2, 500])
def test_rows_of_a_table(database: Path, cache: LookupCache | None, size: int) -> None:
    lookup = table(database, keys_per_request=size, connections=2)
    assert enriched(lookup, (1, 0), (9, 0), (2, 0), (1, 0), cache=cache) == [
        (1, Row(country="fr", age=30)),
        (9, None),
        (2, Row(country="it", age=40)),
        (2, Row(country="es", age=None)),
        (1, Row(country="fr", age=30)),
    ]


@pytest.mark.parametrize("cache", [None, LookupCache.full()])
def test_keys_of_several_columns(database: Path, cache: LookupCache | None) -> None:
    lookup = table(database, key=("id", "amount"))
    with harness(lambda stream: stream.enrich(lookup, ("customer", "amount"), cache=cache)) as job:
        job.push_all("in", [(2, 21), (2, 22), (1, 10), (None, 10)])
        job.run_epoch()
        assert [found and found.country for _, found in job.take("out")] == ["es", None, "fr", None]


def test_a_whole_table_is_read_again_after_a_while(database: Path) -> None:
    cache = LookupCache.full(refresh=Time.milliseconds(20))
    found = []
    enrich = lambda stream: stream.enrich(table(database), "customer", cache=cache)  # noqa: E731
    with harness(enrich, fresh_functions=False) as job:
        for epoch in range(4):
            job.push("in", (5, 1))
            job.run_epoch()
            found += [value and value.country for _, value in job.take("out")]
            if epoch == 0:
                with sqlite3.connect(database) as connection:
                    connection.execute("INSERT INTO customers VALUES (5, 1, 'pl', 1)")
                connection.close()
            job.advance_processing_time(10)
    assert found == [None, None, "pl", "pl"]


def test_keys_of_another_kind_than_the_column_are_told(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE names (name TEXT COLLATE NOCASE, age INTEGER)")
        connection.execute("INSERT INTO names VALUES ('ANN', 1)")
    connection.close()
    lookup = Lookup.table(partial(sqlite3.connect, database), "names", "name", {"age": int})
    with harness(lambda stream: stream.enrich(lookup, lambda order: "ann")) as job:
        job.push("in", (1, 1))
        with pytest.raises(UserFunctionError, match="rows for the key 'ANN', which is none of those"):
            job.run_epoch()


def test_rows_that_are_too_many_to_travel_with_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_module, "_MOST_BYTES", 7)
    with pytest.raises(InvalidProgramError, match="the rows take 0 MiB, and would travel with the job to each task"):
        Lookup.dataframe(pa.table({"id": [1]}), key="id")


def test_a_stream_is_no_lookup() -> None:
    def job(job: JobHarness) -> None:
        job.add_source("in", ORDER).enrich(job.add_source("other", ORDER), "customer")  # type: ignore[arg-type]

    with pytest.raises(InvalidTypeError, match="two streams come together by join"):
        JobHarness(job)


def test_rows_of_arrow() -> None:
    rows = pa.table({"id": pa.array([1, 2, 2], pa.int32()), "name": ["ann", "bob", "bea"]})
    lookup = Lookup.dataframe(rows, key="id")
    assert enriched(lookup, (2, 1), (1, 1), (3, 1), misses="drop") == [
        (2, Row(id=2, name="bob")),
        (2, Row(id=2, name="bea")),
        (1, Row(id=1, name="ann")),
    ]


# --- what functions change -------------------------------------------------------------------------------------------


def rows_of_one(key: int) -> list[str]:
    return ["seen"]


def rows_of_many(keys: list[int]) -> dict[int, list[str]]:
    return {key: ["seen"] for key in keys}


@pytest.mark.parametrize(
    ("lookup", "cache"),
    [
        (rows_of_one, None),
        (rows_of_one, LookupCache.partial()),
        (Lookup.of_many(rows_of_many), None),
        (Lookup.dataframe(pa.table({"id": [1], "seen": [["seen"]]}), key="id"), None),
    ],
    ids=["one", "cached", "many", "rows"],
)
def test_what_a_function_does_to_a_value_no_other_record_sees(lookup: Any, cache: LookupCache | None) -> None:
    def note(pair: Any) -> int:
        seen = pair[1].seen if isinstance(pair[1], Row) else pair[1]
        seen.append("again")
        return len(seen)

    with harness(lambda stream: stream.enrich(lookup, "customer", cache=cache).map(note, Types.INT())) as job:
        for _ in range(2):
            job.push_all("in", [(1, 10), (1, 20), (1, 30)])
            job.run_epoch()
        assert job.take("out") == [2] * 6


def test_what_a_function_does_to_a_record_no_other_pair_sees() -> None:
    def double(pair: Any) -> int:
        pair[0].amount *= 2
        return int(pair[0].amount)

    twice = Lookup.dataframe(pa.table({"id": [1, 1], "name": ["ann", "bea"]}), key="id")
    with harness(lambda stream: stream.enrich(twice, "customer").map(double, Types.INT())) as job:
        job.push("in", (1, 10))
        job.run_epoch()
        assert job.take("out") == [20, 20]


# --- failures --------------------------------------------------------------------------------------------------------


def fails(key: int) -> str | None:
    asked.append(key)
    if len(asked) < 3:
        raise ConnectionError("away")
    return COUNTRIES.get(key)


def test_failures_name_the_record_and_the_line() -> None:
    with pytest.raises(UserFunctionError, match="away") as raised:
        enriched(fails, (2, 10))
    assert "operator 'Lookup' (uid enriched, subtask 0) failed" in str(raised.value)
    assert re.search(r"test_lookups.py:\d+ in fails", str(raised.value))
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
from tests.operators.lookup.test_lookups import Gone, enriched

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


def test_what_never_answers_does_not_hold_up_the_end_of_the_program() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDLESS], check=True, capture_output=True, text=True, timeout=200)
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
    assert re.search(r"test_lookups.py:\d+ in first", str(raised.value))


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


def yields(key: int) -> Any:
    yield key


class YieldsLater:
    async def __call__(self, key: int) -> Any:
        yield key


@pytest.mark.parametrize(
    ("lookup", "arguments", "told"),
    [
        (7, {}, "expected a function of (key), got 7"),
        ({7: 1}, {}, "got {7: 1}: give its method get"),
        ("customers", {}, "got 'customers': use Lookup.table(connect, name, key=..., columns=...)"),
        (pa.table({"id": [1]}), {}, "got a Table: use Lookup.dataframe(rows, key=...)"),
        (
            country,
            {"on": ["customer"]},
            "a field, a tuple of fields or a function as on, not ['customer']",
        ),
        (country, {"timeout": "1 s"}, "timeout: expected a Duration"),
        (lambda: 1, {}, "write a function of (key)"),
        (yields, {}, "a lookup returns what is found, and yields nothing"),
        (YieldsLater(), {}, "a lookup returns what is found, and yields nothing"),
        (Lookup, {}, "enrich takes a Lookup, not the class: Lookup.function(f)"),
        (country, {"on": "nobody"}, "nobody"),
        (country, {"misses": "ignore"}, "misses is 'keep', 'drop' or an OutputTag, not 'ignore'"),
        (country, {"cache": LookupCache.full()}, "LookupCache.full() is for Lookup.table(...)"),
        (country, {"cache": 5}, "cache takes a LookupCache, not 5"),
        (BY_NAME, {"on": lambda order: "ann", "cache": LookupCache.partial()}, "are in memory anyway: leave cache out"),
        (BY_NAME, {}, "the key of a record, 'customer', is Long, and that of a row, 'name', is String: no two would"),
        (BY_NAME, {"on": ("customer", "amount")}, "('customer', 'amount'), and that of a row 'name': on and key have"),
        (BY_TWO, {"on": "customer"}, "is 'customer', and that of a row 'id', 'name': on and key have to be as many"),
        (country, {"capacity": 0}, "capacity: at least one request has to be in flight, not 0"),
        (country, {"timeout": -1}, "timeout: it cannot be negative, -1 ms"),
        (country, {"timeout": 0, "retries": ONCE_MORE}, "timeout: requests that are made again need one"),
        (country, {"retries": 3}, "retries takes an AsyncRetryStrategy, not 3"),
    ],
)
def test_what_is_refused(lookup: Any, arguments: dict[str, Any], told: str) -> None:
    arguments = {"on": "customer", **arguments}
    with pytest.raises((InvalidTypeError, InvalidProgramError), match=re.escape(told)) as raised:
        harness(lambda stream: stream.enrich(lookup, **arguments))
    assert "test_lookups.py" in str(raised.value)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: LookupCache.partial(max_keys=0), "max_keys has to be positive, not 0"),
        (lambda: LookupCache.partial(expires_after=0), "expires_after has to be positive, not 0"),
        (lambda: Lookup.of_many(countries, keys_per_request=0), "keys_per_request has to be positive"),
        (
            lambda: Lookup.dataframe([1], key="id"),
            "takes a DataFrame of Spark or a pyarrow.Table, not [1]",
        ),
        (lambda: Lookup.dataframe(pa.table({"a": [1]}), key="id"), "no column 'id' for the key: there are a"),
        (lambda: Lookup.dataframe(pa.table({"a": [1]}), key=()), "key takes a name or several, not ()"),
        (lambda: Lookup.table(print, "a", 7, {"c": str}), "key takes a name or several, not 7"),
        (
            lambda: Lookup.table(sqlite3.connect(":memory:"), "a", "id", {"c": str}),
            "connect takes a function that makes a connection in a task, lambda: ..., not a Connection",
        ),
        (lambda: Lookup.table(print, "a", "id", {"c": "varchar"}), "'varchar' is not a type"),
        (lambda: Lookup.table(print, "a", "id", ["c"]), "columns, as {\"name\": str}, takes a Mapping, not ['c']"),
        (lambda: Lookup.table(print, "a; DROP TABLE b", "id", {"c": str}), "'a; DROP TABLE b' is no name of a table"),
    ],
)
def test_lookups_that_are_refused(make: Callable[[], Any], told: str) -> None:
    with pytest.raises((InvalidTypeError, InvalidProgramError), match=re.escape(told)) as raised:
        make()
    assert "test_lookups.py" in str(raised.value)
