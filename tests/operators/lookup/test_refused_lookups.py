"""Lookups that are refused when the program is built, and with what words."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.datastream.lookup import Lookup, LookupCache
from tests.operators.lookup.lookups import (
    ONCE_MORE,
    countries,
    country,
    harness,
)

BY_NAME = Lookup.dataframe(pa.table({"name": ["ann"]}), key="name")
BY_TWO = Lookup.table(print, "customers", ("id", "name"), {"country": str})


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
    assert "test_refused_lookups.py" in str(raised.value)


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
    assert "test_refused_lookups.py" in str(raised.value)
