"""Lookups over orders, and jobs that enrich these, for tests."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from headrace.common import Types
from headrace.datastream import AsyncRetryStrategy, DataStream
from headrace.datastream.async_retry_predicates import has_exception_predicate
from headrace.datastream.lookup import Lookup
from headrace.testing import JobHarness

ORDER = Types.ROW_NAMED(["customer", "amount"], [Types.LONG(), Types.LONG()])
ONCE_MORE = AsyncRetryStrategy.fixed_delay(1, 1, None, has_exception_predicate)
COUNTRIES = {1: "fr", 2: "it"}

asked: list[Any] = []


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


def table(database: Path, key: Any = "id", **arguments: Any) -> Lookup:
    columns = {"country": str, "age": int}
    return Lookup.table(partial(sqlite3.connect, database), "customers", key, columns, **arguments)
