"""Timers that somebody gives, of one time domain or of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from headrace.common.errors import SavepointError
from headrace.state.runs.layout import TIMERS
from headrace.state_processor.given_data import is_spark_dataframe, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DOMAIN: Final = "domain"
"""The column that says in which time timers are; event time where there is none."""

_DOMAINS: Final = ("event", "processing")


def by_domain(table: Any) -> Iterator[tuple[str, Any]]:
    """The timers of each time domain.

    Raises:
        SavepointError: when there is another one.
    """
    is_spark = is_spark_dataframe(table)
    if DOMAIN not in (table.columns if is_spark else table.column_names):
        yield _DOMAINS[0], table
        return
    if is_spark:
        found = [row[0] for row in table.select(DOMAIN).distinct().collect()]
    else:
        found = pc.unique(table.column(DOMAIN)).to_pylist()
    unknown = [domain for domain in found if domain not in _DOMAINS]
    if unknown:
        raise SavepointError(f"timers: {DOMAIN!r} is {unknown[0]!r} in a row, and has to be event or processing")
    for domain in sorted(found):
        if is_spark:
            yield domain, table.filter(table[DOMAIN] == domain).drop(DOMAIN)
        else:
            yield domain, table.filter(pc.equal(table.column(DOMAIN), domain)).drop_columns([DOMAIN])


def of_one_domain(store: str, data: Any) -> Any:
    """The rows for a store; of timers without the column that says of which time they are, as all are of its own.

    Raises:
        SavepointError: when others are of the other time.
        InvalidTypeError: when ``data`` is no table.
    """
    kind, _, own = store.partition("/")
    table = data if is_spark_dataframe(data) else table_of(data)
    if kind != TIMERS or DOMAIN not in (table.columns if is_spark_dataframe(table) else table.column_names):
        return data
    found = dict(by_domain(table))
    other = next((domain for domain in found if domain != own), None)
    if other is not None:
        raise SavepointError(
            f"{store!r} holds timers of {own} time, and some rows are of {other} time: replace those as "
            f"{f'{TIMERS}/{other}'!r}"
        )
    return found.get(own, table.drop(DOMAIN) if is_spark_dataframe(table) else table.drop_columns([DOMAIN]))
