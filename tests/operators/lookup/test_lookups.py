"""Lookup joins: what is found of each key, by whom, what is kept of it, and what becomes of misses."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.common import Row, RowKind, Time, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import OutputTag, RuntimeContext
from headrace.datastream import lookup as lookup_module
from headrace.datastream.lookup import Lookup, LookupCache
from headrace.testing import JobHarness
from tests.operators.lookup.lookups import (
    COUNTRIES,
    ORDER,
    asked,
    countries,
    countries_later,
    country,
    country_later,
    enriched,
    harness,
    table,
)

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
        with pytest.raises(UserFunctionError, match="rows for the key 'ANN', which is none of the requested"):
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


@pytest.mark.parametrize("kind", ["dataframe", "full", "partial"])
def test_a_key_with_a_null_in_it_equals_no_row(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "names.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE names (customer INTEGER, kind TEXT, name TEXT)")
        connection.executemany("INSERT INTO names VALUES (?, ?, ?)", [(1, "a", "one"), (None, "a", "nobody")])
    if kind == "dataframe":
        names = pa.table({"customer": pa.array([1, None], pa.int64()), "kind": ["a", "a"], "name": ["one", "nobody"]})
        lookup, cache = Lookup.dataframe(names, ("customer", "kind")), None
    else:
        lookup = Lookup.table(partial(sqlite3.connect, path), "names", ("customer", "kind"), {"name": str})
        cache = LookupCache.full() if kind == "full" else LookupCache.partial()

    def job(job: JobHarness) -> None:
        orders = job.add_source("in", ORDER)
        job.add_sink("out", orders.enrich(lookup, lambda order: (order.customer, "a"), cache=cache).uid("enriched"))

    with JobHarness(job) as harness:
        harness.push_all("in", [(1, 10), (None, 20)])
        harness.run_epoch()
        assert [found and found.name for _, found in harness.take("out")] == ["one", None]


# --- NaN as a key ----------------------------------------------------------------------------------------------------

NAN_TABLE = pa.table({"reading": [1.0, float("nan")], "what": ["one", "none"]})


def _read_again(keys: list[float]) -> dict[float, str]:
    """What a service answers: its NaN is another object than the one that it was asked for."""
    asked.append(keys)
    return {float(str(key)): f"is {key}" for key in keys}


@pytest.mark.parametrize("on", ["f0", ("f0", "f1")])
@pytest.mark.parametrize("cache", [None, LookupCache.partial()])
def test_all_nans_are_one_key_of_a_function(on: Any, cache: LookupCache | None) -> None:
    def read_again(keys: list[Any]) -> dict[Any, str]:
        if on == "f0":
            return _read_again(keys)
        found = _read_again([key for key, _ in keys])
        return {(key, 7): said for key, said in found.items()}

    assert _found_of_nans(Lookup.of_many(read_again, str), on, cache) == ["is nan"] * 4
    assert len(asked) == (2 if cache is None else 1)
    assert {len(keys) for keys in asked} == {1}


def test_all_nans_are_one_key_of_a_table() -> None:
    found = _found_of_nans(Lookup.dataframe(NAN_TABLE, "reading"), "f0", None)
    assert [row.what for row in found] == ["none"] * 4


def _found_of_nans(lookup: Lookup, on: Any, cache: LookupCache | None) -> list[Any]:
    """What is found of two epochs with two NaNs each."""

    def job(job: JobHarness) -> None:
        readings = job.add_source("in", Types.TUPLE([Types.DOUBLE(), Types.LONG()]))
        job.add_sink("out", readings.enrich(lookup, on, cache=cache).uid("enriched"))

    with JobHarness(job, fresh_functions=False) as harness:
        for _ in range(2):
            harness.push_all("in", [(float("nan"), 7), (-float("nan"), 7)])
            harness.run_epoch()
        return [found for _, found in harness.results("out")]
